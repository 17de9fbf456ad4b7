#include "trainer/checkpoint/saver.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "trainer/checkpoint/bulk.hpp"
#include "trainer/checkpoint/copy.hpp"
#include "trainer/checkpoint/place_writer.hpp"
#include "trainer/checkpoint/writer_lock.hpp"

namespace spotter::checkpoint {

namespace {

using Clock = std::chrono::steady_clock;

class BackgroundSaver final : public Saver {
 public:
  BackgroundSaver(Settings settings, std::vector<WriterLock> locks)
      : settings_(std::move(settings)), locks_(std::move(locks)) {
    for (const auto& place : settings_.places) writers_.emplace_back(place);
    thread_ = std::thread([this] { work(); });
  }
  ~BackgroundSaver() override;

  Result<void> save(std::uint64_t step, std::span<const Source> sources, const nlohmann::json& meta,
                    std::optional<double> metric) override;
  Result<void> flush() override;
  void drop_waiting() override;
  std::size_t pending() const override;
  void reserve(std::uint64_t bytes) override;

 private:
  // Free -> (save) Filling -> Waiting -> (thread) Writing -> Free; Free -> (thread) Preparing.
  enum class Stage : std::uint8_t { Free, Filling, Waiting, Writing, Preparing };
  struct Slot {
    Stage stage = Stage::Free;
    Copy copy;
  };

  Result<void> failed_before();
  Slot* free_slot();
  Slot* wanting_memory();
  void work();
  void write(Slot& slot);
  bool busy() const;

  Settings settings_;
  std::vector<WriterLock> locks_;
  std::vector<PlaceWriter> writers_;  // the thread's own
  const pid_t process_ = ::getpid();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Slot, 2> slots_;
  std::deque<Slot*> waiting_;
  std::uint64_t wanted_ = 0;  // bytes of memory that each slot should have
  std::optional<Error> failed_;
  bool ending_ = false;
  std::thread thread_;
};

BackgroundSaver::~BackgroundSaver() {
  if (process_ != ::getpid()) {  // a forked child has this object, but not its thread
    thread_.detach();
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool BackgroundSaver::busy() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.stage == Stage::Waiting || slot.stage == Stage::Writing;
  });
}

Result<void> BackgroundSaver::failed_before() {
  if (!failed_) return {};
  auto error = std::move(*failed_);
  failed_.reset();
  return tl::unexpected(std::move(error));
}

// The one with more memory: it needs no new.
BackgroundSaver::Slot* BackgroundSaver::free_slot() {
  Slot* best = nullptr;
  for (auto& slot : slots_) {
    if (slot.stage != Stage::Free) continue;
    if (!best || slot.copy.capacity() > best->copy.capacity()) best = &slot;
  }
  return best;
}

Result<void> BackgroundSaver::save(std::uint64_t step, std::span<const Source> sources,
                                   const nlohmann::json& meta, std::optional<double> metric) {
  if (process_ != ::getpid()) return failure("a forked child cannot save its parent's state");
  const auto begun = Clock::now();
  std::set<std::string_view> names;
  for (const auto& source : sources) {
    if (!is_part_name(source.name) || !names.insert(source.name).second) {
      return failure("not a usable name for a part, or there twice: " + source.name);
    }
  }
  std::unique_lock lock(mutex_);
  if (auto before = failed_before(); !before) return before;
  Slot* slot = nullptr;
  changed_.wait(lock, [&] { return (slot = free_slot()) != nullptr; });
  slot->stage = Stage::Filling;
  lock.unlock();
  const bool copied = slot->copy.take(step, sources, meta, metric);
  lock.lock();
  if (!copied) {
    slot->stage = Stage::Free;
    return failure("there is not enough memory for a copy of the state");
  }
  slot->copy.stall = Clock::now() - begun;
  slot->stage = Stage::Waiting;
  waiting_.push_back(slot);
  wanted_ = std::max<std::uint64_t>(wanted_, slot->copy.capacity());
  lock.unlock();
  changed_.notify_all();
  return {};
}

Result<void> BackgroundSaver::flush() {
  if (process_ != ::getpid()) return {};
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy(); });
  return failed_before();
}

void BackgroundSaver::drop_waiting() {
  const std::scoped_lock lock(mutex_);
  for (auto* slot : waiting_) slot->stage = Stage::Free;
  waiting_.clear();
  changed_.notify_all();
}

std::size_t BackgroundSaver::pending() const {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::size_t>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.stage == Stage::Waiting || slot.stage == Stage::Writing;
  }));
}

void BackgroundSaver::reserve(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  wanted_ = std::max(wanted_, bytes);
  changed_.notify_all();
}

BackgroundSaver::Slot* BackgroundSaver::wanting_memory() {
  for (auto& slot : slots_) {
    if (slot.stage == Stage::Free && slot.copy.capacity() < wanted_) return &slot;
  }
  return nullptr;
}

void BackgroundSaver::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    Slot* poor = nullptr;
    changed_.wait(lock, [&] {
      poor = wanting_memory();
      return ending_ || poor != nullptr || !waiting_.empty();
    });
    if (!waiting_.empty()) {
      Slot& slot = *waiting_.front();
      waiting_.pop_front();
      slot.stage = Stage::Writing;
      lock.unlock();
      write(slot);
      lock.lock();
      slot.stage = Stage::Free;
    } else if (ending_) {
      return;
    } else {
      poor->stage = Stage::Preparing;
      const auto bytes = wanted_;
      lock.unlock();
      const bool there = poor->copy.prepare(bytes);
      lock.lock();
      poor->stage = Stage::Free;
      if (!there) wanted_ = 0;  // save() will say so, if it needs that much
    }
    changed_.notify_all();
  }
}

void BackgroundSaver::write(Slot& slot) {
  for (std::size_t i = 0; i < writers_.size(); ++i) {
    const auto begun = Clock::now();
    auto written = writers_[i].write(slot.copy);
    // Written anew from the start, into new files: after a failed fsync the old ones cannot be
    // trusted. What fails twice is no passing trouble.
    if (!written) written = writers_[i].write(slot.copy);
    if (!written) {
      const std::scoped_lock lock(mutex_);
      if (!failed_) failed_ = std::move(written.error());
      continue;
    }
    if (!settings_.durable) continue;
    settings_.durable({i, slot.copy.step(), written->path, slot.copy.bytes(), written->bytes,
                       slot.copy.stall, Clock::now() - begun});
  }
}

}  // namespace

Result<std::unique_ptr<Saver>> Saver::open(Settings settings) {
  if (settings.places.empty()) return failure("where do checkpoints go?");
  std::vector<WriterLock> locks;
  for (const auto& place : settings.places) {
    auto lock = WriterLock::take(place.directory);
    if (!lock) return tl::unexpected(lock.error());
    locks.push_back(std::move(*lock));
  }
  return std::make_unique<BackgroundSaver>(std::move(settings), std::move(locks));
}

}  // namespace spotter::checkpoint
