#include "trainer/reference/feed.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "trainer/library/link.hpp"
#include "trainer/library/reader.hpp"

namespace spotter::train {
namespace {

using channel::Next;
using channel::Reader;

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;

constexpr std::chrono::milliseconds kLook{
    200};  // after which a stop is noticed while no data comes

struct Known {
  Shape shape;
  std::uint32_t examples;
};
constexpr Known kKnown[] = {{{1, 28, 28}, 60'000}, {{3, 32, 32}, 50'000}};

class FromMemory final : public Feed {
 public:
  FromMemory(const Examples& examples, Order order, std::uint64_t seed)
      : examples_(examples), order_(order), seed_(seed) {}

  Result<std::optional<Batch>> batch(std::uint64_t epoch, std::uint32_t first,
                                     std::uint32_t count) override {
    if (epoch_ != epoch) {
      epoch_ = epoch;
      indices_.resize(examples_.count);
      if (order_ == Order::Shuffled) {
        indices_ = epoch_order(seed_, epoch, examples_.count);
      } else {
        std::iota(indices_.begin(), indices_.end(), 0U);
      }
    }
    return Batch{&examples_, std::span<const std::uint32_t>(indices_).subspan(first, count)};
  }
  nlohmann::json consumed() const override { return nlohmann::json::object(); }

 private:
  const Examples& examples_;
  Order order_;
  std::uint64_t seed_;
  std::optional<std::uint64_t> epoch_;
  std::vector<std::uint32_t> indices_;
};

// Appends it, or says what is wrong with it.
Result<void> add(Examples& examples, std::string_view record, const Shape& shape) {
  if (record.size() != 1 + shape.pixels()) {
    return failure("a record of " + std::to_string(record.size()) + " bytes; a label and " +
                   std::to_string(shape.pixels()) + " pixels are right");
  }
  const auto label = static_cast<std::uint8_t>(record[0]);
  if (label >= kClasses)
    return failure("the label " + std::to_string(label) + "; 0 to 9 are right");
  examples.labels.push_back(label);
  examples.images.insert(examples.images.end(), record.begin() + 1, record.end());
  ++examples.count;
  return {};
}

class FromChannel final : public Feed {
 public:
  FromChannel(std::unique_ptr<Reader> reader, const Shape& shape, std::uint32_t epoch_size)
      : reader_(std::move(reader)),
        shape_(shape),
        epoch_size_(epoch_size),
        consumed_(reader_->position()) {}

  Result<std::optional<Batch>> batch(std::uint64_t epoch, std::uint32_t first,
                                     std::uint32_t count) override {
    // A checkpoint may have been made between the last example and the end.
    if (first == 0 && consumed_.epoch + 1 == epoch && consumed_.records == epoch_size_) {
      const auto passed = TRY(pass_end());
      if (!passed) return std::nullopt;
    }
    if (consumed_.epoch != epoch || consumed_.records != first) {
      return wrong("the checkpoint has consumed " + std::to_string(consumed_.records) +
                   " examples of it, but goes on with number " + std::to_string(first) +
                   " of epoch " + std::to_string(epoch));
    }
    examples_.images.clear();
    examples_.labels.clear();
    examples_.count = 0;
    while (examples_.count < count) {
      const auto next = TRY(wait());
      if (next.kind == Next::Kind::NotYet) return std::nullopt;
      if (next.kind == Next::Kind::EndOfEpoch) {
        return wrong("the one before had only " + std::to_string(first + examples_.count) +
                     " examples, not " + std::to_string(epoch_size_) +
                     "; --examples says how many an epoch has");
      }
      if (auto added = add(examples_, next.record, shape_); !added)
        return wrong(added.error().message);
    }
    consumed_ = reader_->position();
    indices_.resize(count);
    std::iota(indices_.begin(), indices_.end(), 0U);
    if (first + count == epoch_size_) TRY(pass_end());
    return Batch{&examples_, indices_};
  }

  nlohmann::json consumed() const override {
    auto meta = nlohmann::json::object();
    channel::record(meta, reader_->name(), consumed_);
    return meta;
  }

 private:
  // NotYet: the trainer was asked to stop.
  Result<Next> wait() {
    while (true) {
      auto next = reader_->next(kLook);
      if (!next || next->kind != Next::Kind::NotYet || checkpoint::stop_requested()) return next;
    }
  }

  // After the last example. False: asked to stop before the end of the data was read.
  Result<bool> pass_end() {
    const auto next = TRY(wait());
    if (next.kind == Next::Kind::Record) {
      return wrong("it has more examples than " + std::to_string(epoch_size_) +
                   "; --examples says how many an epoch has");
    }
    if (next.kind == Next::Kind::NotYet) return false;
    consumed_ = reader_->position();
    return true;
  }

  tl::unexpected<Error> wrong(const std::string& what) const {
    return failure("channel " + reader_->name() + ", epoch " +
                   std::to_string(reader_->position().epoch) + ": " + what);
  }

  std::unique_ptr<Reader> reader_;
  Shape shape_;
  std::uint32_t epoch_size_;
  channel::Position consumed_;  // by whole batches
  Examples examples_;
  std::vector<std::uint32_t> indices_;
};

}  // namespace

std::uint64_t sequence_seed(std::uint64_t seed, Purpose purpose, std::uint64_t number) {
  std::uint64_t value = mix(seed + kGolden);
  value = mix(value ^ (static_cast<std::uint64_t>(purpose) * kGolden));
  return mix(value ^ (number * 0xd1342543de82ef95U + kGolden));
}

std::uint64_t Sequence::next() { return mix(state_ += kGolden); }

std::uint64_t Sequence::below(std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;  // Lemire's multiply-shift
  return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
}

double Sequence::unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

std::vector<std::uint32_t> epoch_order(std::uint64_t seed, std::uint64_t epoch,
                                       std::uint32_t count) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  Sequence random(sequence_seed(seed, Purpose::Order, epoch));
  for (std::uint32_t left = count; left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

std::unique_ptr<Feed> feed_from_memory(const Examples& examples, Order order, std::uint64_t seed) {
  return std::make_unique<FromMemory>(examples, order, seed);
}

Result<std::unique_ptr<Feed>> feed_from_channel(const std::string& channel, const Dataset& dataset,
                                                const nlohmann::json& meta) {
  const auto start = TRY(channel::recorded(meta, channel));
  auto reader = TRY(Reader::open({.channel = channel, .start = start}));
  return std::make_unique<FromChannel>(std::move(reader), dataset.shape, dataset.training.count);
}

Result<Dataset> read_piped(const Channels& channels, std::uint32_t examples) {
  auto reader = TRY(Reader::open({.channel = channels.test}));
  const Known* known = nullptr;
  Examples test;
  while (true) {
    const auto next = TRY(reader->next(kLook));
    if (next.kind == Next::Kind::EndOfEpoch) break;
    if (next.kind == Next::Kind::NotYet) {
      if (checkpoint::stop_requested()) return failure("asked to stop before the data came");
      continue;
    }
    for (const auto& each : kKnown) {
      if (known == nullptr && next.record.size() == 1 + each.shape.pixels()) known = &each;
    }
    const Shape shape = known == nullptr ? kKnown[0].shape : known->shape;
    TRY(behind("channel " + channels.test, add(test, next.record, shape)));
  }
  if (known == nullptr) return failure("channel " + channels.test + " has no records");
  auto dataset = make_dataset(known->shape, {}, std::move(test));
  dataset.training.count = examples == 0 ? known->examples : examples;
  dataset.sum = "pipe:" + channels.training + " of " + std::to_string(dataset.training.count) +
                ", tested with " + dataset.sum;
  return dataset;
}

}  // namespace spotter::train
