#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>
#include <map>

#include "trainer/library/files.hpp"
#include "trainer/library/mirror.hpp"
#include "trainer/library/reader.hpp"
#include "trainer/library/session.hpp"
#include "trainer/library/spotter.h"

namespace spotter::checkpoint::api {

// The channels of a run: each save records how far each was read.
struct Channels {
  std::map<std::string, const channel::Reader*> open;
  // Positions of other channels, as a meta: where this run closed them, or the restored checkpoint.
  nlohmann::json left = nlohmann::json::object();
};

// The text of spotter_error() for this thread.
inline std::string& last_error() {
  thread_local std::string text;
  return text;
}

inline int fail(std::string message) {
  last_error() = std::move(message);
  return -1;
}

template <class T>
int status_of(const T& result) {
  return result ? 0 : fail(result.error().message);
}

// Catches all exceptions, which must not reach C (mostly out of memory): they become failures.
template <class Otherwise, class Call>
auto guarded(Otherwise otherwise, const Call& call) noexcept -> decltype(call()) {
  try {
    last_error().clear();
    return call();
  } catch (const std::exception& error) {
    try {
      last_error() = error.what();
    } catch (const std::exception&) {  // out of memory again; the status reports it
    }
    return otherwise;
  }
}

}  // namespace spotter::checkpoint::api

struct spotter_run {
  std::unique_ptr<spotter::checkpoint::Session> session;
  std::string torn;
  bool restored = false;  // or known to start from scratch
  std::shared_ptr<spotter::checkpoint::api::Channels> channels =
      std::make_shared<spotter::checkpoint::api::Channels>();
};

namespace spotter::checkpoint {
namespace {

// A mirror in S3 for libspotter.so, which loads libspotter_s3.so from its own directory for it.
Result<std::unique_ptr<Mirror>> load_s3_mirror(Mirror::Settings settings) {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<void*>(&load_s3_mirror), &here) == 0)
    return failure("it is not known where libspotter.so lies");
  const auto path = fs::path(here.dli_fname).parent_path() / "libspotter_s3.so";
  // Never closed: its thread runs, and libcurl does not support being unloaded.
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (module == nullptr)
    return failure("checkpoints cannot be copied to S3: " + std::string(::dlerror()));
  using Open = void (*)(Mirror::Settings*, Result<std::unique_ptr<Mirror>>*);
  const auto open = reinterpret_cast<Open>(::dlsym(module, "spotter_open_s3_mirror"));
  if (open == nullptr)
    return failure("checkpoints cannot be copied to S3: " + std::string(::dlerror()));
  Result<std::unique_ptr<Mirror>> opened = nullptr;
  open(&settings, &opened);
  return opened;
}

}  // namespace
}  // namespace spotter::checkpoint

// Implements spotter.h with session.hpp. Decides nothing itself.

namespace ch = spotter::channel;
namespace cp = spotter::checkpoint;
using namespace cp::api;

static_assert(SPOTTER_STOPPED == cp::kStoppedStatus);

struct spotter_checkpoint {
  cp::Loaded loaded;
  std::string meta;
};

namespace {

cp::SessionOptions options_of(const spotter_options* given) {
  // A program compiled with an older header passes a smaller struct: the rest stays zero.
  spotter_options all{};
  if (given != nullptr) std::memcpy(&all, given, std::min(given->size, sizeof all));
  cp::SessionOptions options;
  options.open_mirror = cp::load_s3_mirror;
  if (all.directory != nullptr) options.directory = all.directory;
  if (all.faster != nullptr) options.faster = cp::paths_in(all.faster);
  if (all.keep_last != 0) options.retention.last = all.keep_last;
  options.retention.every = all.keep_every;
  options.retention.best = all.keep_best;
  options.retention.higher_is_better = all.lower_is_better == 0;
  if (all.every_seconds < 0) options.every = std::chrono::nanoseconds(0);
  if (all.every_seconds > 0) options.every = cp::interval(all.every_seconds);
  options.resumed_later = all.resumed_later != 0;
  return options;
}

std::vector<cp::Source> sources_of(const spotter_part* parts, std::size_t count) {
  std::vector<cp::Source> sources;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = parts[i].name == nullptr ? "" : parts[i].name;
    if (sources.empty() || sources.back().name != name) sources.push_back({name, {}});
    sources.back().pieces.emplace_back(static_cast<const char*>(parts[i].data), parts[i].size);
  }
  return sources;
}

std::string refusal_of_metric(const std::string& name) {
  const auto& reserved = spotter::reserved_metric_names;
  const bool is_reserved = std::find(reserved.begin(), reserved.end(), name) != reserved.end();
  return "a metric cannot be called '" + name + "': " +
         (is_reserved ? "the name has another meaning; add a word to it, as in val_" + name
                      : "a name has a letter first, then letters, digits, '_', '.', '-' and '/', " +
                            std::to_string(spotter::longest_metric_name) + " at most");
}

}  // namespace

extern "C" {

const char* spotter_error(void) { return last_error().c_str(); }

spotter_run* spotter_open(const spotter_options* options) {
  return guarded(nullptr, [&]() -> spotter_run* {
    if (options != nullptr && options->size == 0) {
      fail("set `size` of the options to sizeof(spotter_options)");
      return nullptr;
    }
    auto session = cp::Session::open(options_of(options));
    if (status_of(session) != 0) return nullptr;
    auto run = std::make_unique<spotter_run>();
    run->session = std::move(*session);
    return run.release();
  });
}

void spotter_close(spotter_run* run) { delete run; }

int spotter_catch_signal(int number) {
  last_error().clear();
  if (cp::catch_stop_signal(number)) return 0;
  return fail("this signal has a handler, or is ignored, already");
}

int spotter_restore(spotter_run* run, spotter_checkpoint** found) {
  return guarded(-1, [&] {
    *found = nullptr;
    run->torn.clear();
    auto restored = run->session->restore();
    if (!restored) return fail(restored.error().message);
    for (const auto& torn : restored->torn) {
      run->torn += torn.path.string() + ": " + torn.reason;
      if (!torn.moved_to.empty()) run->torn += "; moved to " + torn.moved_to.string();
      run->torn += "\n";
    }
    run->restored = true;
    auto& left = run->channels->left = nlohmann::json::object();
    if (!restored->newest) return 0;
    const auto& meta = restored->newest->checkpoint.meta;
    if (meta.contains(ch::kPositions)) left[ch::kPositions] = meta[ch::kPositions];
    auto text = meta.dump();
    *found = new spotter_checkpoint{std::move(*restored->newest), std::move(text)};
    return 0;
  });
}

const char* spotter_torn(spotter_run* run) { return run->torn.c_str(); }

uint64_t spotter_checkpoint_step(const spotter_checkpoint* checkpoint) {
  return checkpoint->loaded.checkpoint.step;
}
const char* spotter_checkpoint_meta(const spotter_checkpoint* checkpoint) {
  return checkpoint->meta.c_str();
}
const char* spotter_checkpoint_path(const spotter_checkpoint* checkpoint) {
  return checkpoint->loaded.checkpoint.path.c_str();
}
size_t spotter_checkpoint_count(const spotter_checkpoint* checkpoint) {
  return checkpoint->loaded.parts.size();
}
const char* spotter_checkpoint_name(const spotter_checkpoint* checkpoint, size_t index) {
  const auto& parts = checkpoint->loaded.parts;
  return index < parts.size() ? parts[index].name.c_str() : nullptr;
}

int spotter_checkpoint_part(const spotter_checkpoint* checkpoint, const char* name,
                            const void** data, size_t* size) {
  return guarded(-1, [&] {
    for (const auto& part : checkpoint->loaded.parts) {
      if (part.name != name) continue;
      *data = part.bytes.data();
      *size = part.bytes.size();
      return 0;
    }
    return fail("the checkpoint has no part " + std::string(name));
  });
}

void spotter_checkpoint_drop(spotter_checkpoint* checkpoint, const char* name) {
  for (auto& part : checkpoint->loaded.parts)
    if (part.name == name) part = {part.name, {}, {}};
}

void spotter_checkpoint_free(spotter_checkpoint* checkpoint) { delete checkpoint; }

void spotter_begin_save(spotter_run* run) {
  guarded(-1, [&] { return run->session->begin_save(), 0; });
}

int spotter_save(spotter_run* run, uint64_t step, const spotter_part* parts, size_t count,
                 const char* meta, double metric) {
  return guarded(-1, [&] {
    auto json =
        meta == nullptr ? nlohmann::json::object() : nlohmann::json::parse(meta, nullptr, false);
    if (!json.is_object()) return fail("`meta` is not a JSON object");
    json.erase(ch::kPositions);  // of an older checkpoint, passed back
    json.update(run->channels->left);
    for (const auto& [name, reader] : run->channels->open)
      ch::record(json, name, reader->position());
    const auto judged = std::isfinite(metric) ? std::optional(metric) : std::nullopt;
    const auto sources = sources_of(parts, count);
    const auto saved = run->session->save(step, sources, json, judged);
    if (!saved) return fail(saved.error().message);
    return *saved == cp::Saved::Skipped ? 1 : 0;
  });
}

int spotter_place(spotter_run* run, uint64_t step, uint64_t bytes, void** memory) {
  return guarded(-1, [&] {
    const auto placed = run->session->place(step, bytes);
    if (!placed) return fail(placed.error().message);
    *memory = *placed;
    return *placed == nullptr ? 1 : 0;
  });
}

int spotter_flush(spotter_run* run) {
  return guarded(-1, [&] { return status_of(run->session->flush()); });
}

void spotter_resumed(spotter_run* run, uint64_t step) {
  guarded(-1, [&] { return run->session->resumed(step), 0; });
}

int spotter_can_save(spotter_run* run) {
  return guarded(1, [&] { return run->session->can_save() ? 1 : 0; });
}

int spotter_saved(spotter_run* run, uint64_t step, const char* path) {
  return guarded(-1, [&] { return status_of(run->session->saved(step, path)); });
}

int spotter_is_writer(spotter_run* run) {
  return guarded(-1, [&] { return status_of(run->session->is_writer()); });
}

int spotter_sync(const char* path) {
  return guarded(-1, [&] { return status_of(cp::make_durable(path)); });
}

int spotter_should_checkpoint(spotter_run* run) {
  return guarded(0, [&] { return run->session->should_checkpoint() ? 1 : 0; });
}

int spotter_should_stop(spotter_run* run) {
  return guarded(0, [&] { return run->session->should_stop() ? 1 : 0; });
}

double spotter_deadline(spotter_run* run) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  return guarded(kNever, [&] {
    const auto left = run->session->deadline();
    return left ? std::chrono::duration<double>(*left).count() : kNever;
  });
}

int spotter_has_time(spotter_run* run, double seconds) {
  return guarded(1, [&] {
    if (run == nullptr) return cp::stop_requested() ? 0 : 1;
    const auto needed = cp::interval(seconds);
    return needed && run->session->has_time(*needed) ? 1 : 0;
  });
}

int64_t spotter_durable_step(const spotter_run* run) {
  const auto step = run->session->durable_step();
  return step ? static_cast<int64_t>(*step) : -1;
}

void spotter_progress(spotter_run* run, const spotter_progress_report* report) {
  spotter_progress_with(run, report, nullptr, 0);
}

int spotter_progress_with(spotter_run* run, const spotter_progress_report* report,
                          const spotter_metric* metrics, size_t count) {
  return guarded(-1, [&] {
    cp::Progress now{report->step,         report->steps_total, report->epoch,
                     report->epochs_total, report->loss,        report->accuracy};
    for (size_t i = 0; i < count; ++i) {
      const std::string name = metrics[i].name == nullptr ? "" : metrics[i].name;
      if (!spotter::is_metric_name(name)) return fail(refusal_of_metric(name));
      if (now.metrics.size() == spotter::most_metrics && !now.metrics.contains(name))
        return fail("a report has " + std::to_string(spotter::most_metrics) +
                    " metrics at most: leave out some");
      now.metrics[name] = metrics[i].value;
    }
    run->session->progress(now);
    return 0;
  });
}

int spotter_progress_due(const spotter_run* run, uint64_t step, uint64_t steps_total) {
  return run->session->progress_due(step, steps_total) ? 1 : 0;
}

void spotter_status(spotter_run* run, const char* text) {
  guarded(-1, [&] { return run->session->status(text), 0; });
}

int spotter_leave(spotter_run* run) {
  return guarded(-1, [&] { return status_of(run->session->leave()); });
}

int spotter_finished(spotter_run* run) {
  return guarded(-1, [&] { return status_of(run->session->finished()); });
}

}  // extern "C"

// Implements the channels of spotter.h with trainer/library's readers.

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
  if (run->channels->open.contains(name))
    return spotter::failure("channel " + name + " is open already");
  return ch::recorded(run->channels->left, name);
}

spotter_channel* open_channel(spotter_run* run, const spotter_channel_options* given) {
  const auto refused = [](const std::string& why) -> spotter_channel* {
    fail(why);
    return nullptr;
  };
  if (given == nullptr || given->size == 0)
    return refused("set `size` of the options to sizeof(spotter_channel_options)");
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
  return guarded(nullptr, [&] { return open_channel(run, options); });
}

void spotter_channel_close(spotter_channel* channel) {
  const std::unique_ptr<spotter_channel> closed(channel);
  if (!closed || !closed->channels) return;
  guarded(-1, [&] {
    auto& [open, left] = *closed->channels;
    open.erase(closed->reader->name());
    ch::record(left, closed->reader->name(), closed->reader->position());
    return 0;
  });
}

int spotter_channel_next(spotter_channel* channel, uint64_t wait_ms, const void** data,
                         size_t* size) {
  return guarded(-1, [&] {
    constexpr uint64_t kYear = 365ULL * 24 * 3600 * 1000;
    const auto next = channel->reader->next(std::chrono::milliseconds(std::min(wait_ms, kYear)));
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
  });
}

void spotter_channel_position(const spotter_channel* channel, spotter_position* position) {
  const auto& now = channel->reader->position();
  *position = {now.epoch, now.bytes, now.records};
}

int spotter_channel_move(spotter_channel* channel, const spotter_position* position) {
  return guarded(-1, [&] {
    channel->reader->move_to({position->epoch, position->bytes, position->records});
    return 0;
  });
}

}  // extern "C"
