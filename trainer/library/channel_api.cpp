// Implements the channels of spotter.h with trainer/library's readers.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "trainer/library/c_api.hpp"

namespace ch = spotter::channel;
using namespace spotter::checkpoint::api;

struct spotter_channel {
  std::unique_ptr<ch::Reader> reader;
  std::shared_ptr<Channels> channels;  // of its run; null: it has no run
};

namespace {

spotter::Result<ch::Format> format_of(const spotter_channel_options& options) {
  switch (options.format) {
    case SPOTTER_RECORD_IO:
      return ch::Format{ch::Format::Kind::RecordIo};
    case SPOTTER_LINES:
      return ch::Format{ch::Format::Kind::Lines};
    case SPOTTER_FIXED:
      return ch::Format{ch::Format::Kind::Fixed, options.record_bytes};
    default:
      return spotter::failure("there is no such format of records");
  }
}

// The position where this run closed it, or the one in the restored checkpoint.
spotter::Result<ch::Position> start_of(const spotter_run* run, const std::string& name) {
  if (run == nullptr) return ch::Position{};
  if (!run->restored) return spotter::failure("open a channel after spotter_restore()");
  if (run->channels->open.contains(name)) {
    return spotter::failure("channel " + name + " is open already");
  }
  return ch::recorded(run->channels->left, name);
}

spotter_channel* open_channel(spotter_run* run, const spotter_channel_options* given) {
  const auto refused = [](const std::string& why) -> spotter_channel* {
    fail(why);
    return nullptr;
  };
  if (given == nullptr || given->size == 0) {
    return refused("set `size` of the options to sizeof(spotter_channel_options)");
  }
  spotter_channel_options options{};
  std::memcpy(&options, given, std::min(given->size, sizeof options));
  const std::string name = options.name == nullptr ? "" : options.name;
  const auto format = format_of(options);
  if (!format) return refused(format.error().message);
  const auto start = start_of(run, name);
  if (!start) return refused(start.error().message);
  auto reader = ch::Reader::open({.channel = name,
                                  .format = *format,
                                  .folder = options.folder == nullptr ? "" : options.folder,
                                  .start = *start});
  if (!reader) return refused(reader.error().message);
  std::unique_ptr<spotter_channel> channel(new spotter_channel{std::move(*reader), nullptr});
  if (run != nullptr) {
    run->channels->open.emplace(name, channel->reader.get());
    channel->channels = run->channels;
  }
  return channel.release();
}

}  // namespace

extern "C" {

spotter_channel* spotter_channel_open(spotter_run* run, const spotter_channel_options* options) {
  return guarded([&] { return open_channel(run, options); }, nullptr);
}

void spotter_channel_close(spotter_channel* channel) {
  const std::unique_ptr<spotter_channel> closed(channel);
  if (!closed || !closed->channels) return;
  guarded(
      [&] {
        auto& [open, left] = *closed->channels;
        open.erase(closed->reader->name());
        ch::record(left, closed->reader->name(), closed->reader->position());
        return 0;
      },
      -1);
}

int spotter_channel_next(spotter_channel* channel, uint64_t wait_ms, const void** data,
                         size_t* size) {
  return guarded(
      [&] {
        constexpr uint64_t kYear = 365ULL * 24 * 3600 * 1000;
        const auto next =
            channel->reader->next(std::chrono::milliseconds(std::min(wait_ms, kYear)));
        if (!next) return fail(next.error().message);
        *data = next->record.data();
        *size = next->record.size();
        switch (next->kind) {
          case ch::Next::Kind::Record:
            return SPOTTER_RECORD;
          case ch::Next::Kind::EndOfEpoch:
            return SPOTTER_END_OF_EPOCH;
          case ch::Next::Kind::NotYet:
            break;
        }
        return SPOTTER_NOT_YET;
      },
      -1);
}

void spotter_channel_position(const spotter_channel* channel, spotter_position* position) {
  const auto& now = channel->reader->position();
  *position = {now.epoch, now.bytes, now.records};
}

int spotter_channel_move(spotter_channel* channel, const spotter_position* position) {
  return guarded(
      [&] {
        channel->reader->move_to({position->epoch, position->bytes, position->records});
        return 0;
      },
      -1);
}

}  // extern "C"
