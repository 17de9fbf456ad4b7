#include "trainer/library/saver.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <list>
#include <map>
#include <new>
#include <set>

#include "trainer/library/files.hpp"
#include "trainer/library/own_thread.hpp"
#include "trainer/library/writer.hpp"

namespace spotter::checkpoint {
namespace {

constexpr std::size_t kSamples =
    64;  // pages: takes microseconds, and every optimizer changes all of them

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t size_of(const Source& source) {
  std::size_t bytes = 0;
  for (const auto piece : source.pieces) bytes += piece.size();
  return bytes;
}

std::size_t size_of(std::span<const Source> sources) {
  std::size_t bytes = 0;
  for (const auto& source : sources) bytes += aligned(size_of(source));
  return bytes;
}

// A copy of a training's state in memory, and a cheap check whether a part has changed.
struct Copy {
  // False: out of memory. Reuses the memory of earlier copies; what lies there already, as its
  // memory was lent, is not copied.
  bool take(std::span<const Source> sources) {
    if (!memory.reserve(size_of(sources))) return false;
    bytes = 0;
    parts.clear();
    std::vector<CopyPiece> pieces;
    char* at = memory.data();
    for (const auto& source : sources) {
      const char* begin = at;
      for (const auto piece : source.pieces) {
        if (piece.data() != at) pieces.push_back({at, piece});
        at += piece.size();
      }
      const std::size_t size = size_of(source);
      parts.push_back({source.name, {begin, size}});
      bytes += size;
      at += aligned(size) - size;
    }
    copy_pieces(pieces);
    return true;
  }

  // Allocates and touches so much, so that take() runs at the speed of memory; pinned for `device`,
  // unless that is null.
  bool prepare(std::uint64_t size, void* device) {
    const bool there = size <= memory.capacity();
    if (!memory.reserve(size)) return false;
    if (!there) memory.touch();
    memory.pin(device);
    return true;
  }

  Buffer memory;
  std::uint64_t step = 0;
  std::uint64_t bytes = 0;
  std::vector<Part> parts;  // each aligned to kAlignment
  nlohmann::json meta;
  std::optional<double> metric;
  std::chrono::nanoseconds stall{};
};

// The number behind `name` in a file of the kernel's; none: it is not there, or not a number
// ("max").
std::optional<std::uint64_t> number_in(const std::filesystem::path& file, std::string_view name) {
  const std::string text = read_whole(file).value_or("");
  const auto at = text.find(name);
  const char* digits = at == std::string::npos ? "" : text.c_str() + at + name.size();
  char* end = nullptr;
  const auto found = std::strtoull(digits, &end, 10);
  return end == digits ? std::optional<std::uint64_t>() : found;
}

// Bytes that can be had without taking them from others: of the machine, less a tenth of it for
// what comes, and of each control group that this process is in. A limit that cannot be read is
// none.
std::uint64_t room_in_memory() {
  const auto less = [](std::uint64_t all, std::uint64_t part) { return all - std::min(all, part); };
  std::uint64_t room = UINT64_MAX;
  const auto kept = number_in("/proc/meminfo", "MemTotal:").value_or(0) / 10;
  if (const auto free = number_in("/proc/meminfo", "MemAvailable:")) room = less(*free, kept) << 10;
  const std::string groups = read_whole("/proc/self/cgroup").value_or("");
  const auto own = groups.find("0::/");
  std::filesystem::path group("/sys/fs/cgroup");
  if (own != std::string::npos) group += groups.substr(own + 3, groups.find('\n', own) - own - 3);
  for (; group != "/sys/fs"; group = group.parent_path()) {
    const auto most = number_in(group / "memory.max", "");
    if (!most) continue;
    const auto cached = number_in(group / "memory.stat", "\ninactive_file ").value_or(0);
    const auto used = less(number_in(group / "memory.current", "").value_or(0), cached);
    room = std::min(room, less(*most, used));
  }
  return room;
}

// The sum of some of its pages. Different samples mean different bytes; equal samples do not mean
// equal bytes.
std::string sample_of(std::string_view bytes) {
  if (bytes.size() <= kSamples * kAlignment) return sum_of(bytes);
  Sum sum;
  const std::size_t stride = (bytes.size() - kAlignment) / (kSamples - 1);
  for (std::size_t i = 0; i < kSamples; ++i) sum.add(bytes.substr(i * stride, kAlignment));
  return sum.hex();
}

struct Known {
  PartEntry entry;
  std::string sample;
};

struct Made {
  std::filesystem::path path;
  std::map<std::string, Known, std::less<>> parts;
};

// The part of `made` that has the same bytes; null: none.
const PartEntry* unchanged(const Made& made, const Part& part, const std::string& sample) {
  const auto known = made.parts.find(part.name);
  const bool same = known != made.parts.end() && known->second.entry.bytes == part.bytes.size() &&
                    known->second.sample == sample &&
                    known->second.entry.xxh3_128 == sum_of(part.bytes);
  return same ? &known->second.entry : nullptr;
}

struct Written {
  std::filesystem::path path;
  std::uint64_t bytes = 0;  // without linked parts
};

// Writes copies as checkpoints of one place. Unchanged parts (frozen layers) are hard-linked to the
// checkpoint before the last one, not written again. So two neighbours never share bytes on the
// disk, and a bad block damages only one of them. If only one checkpoint is kept, parts are linked
// to that.
struct Tier {
  std::size_t number;
  bool outlives;
  Place place;
  WriterLock lock;  // of the directory; a checkpoint gets its name only while that is still held
  // The last checkpoints that this one made durable, the newest last: parts are linked only to
  // these. Two, or one if only one is kept.
  std::deque<Made> made{};

  // Durable when it returns; then applies the retention. Touches nothing unless the lock is held.
  Result<Written> write(const Copy& copy) {
    // Also before: what looks like a dead writer's leftovers may be the other one's checkpoint.
    TRY(lock.still_held());
    auto writer = TRY(Writer::begin(place.directory, copy.step));
    const std::size_t copies = place.retention.last > 1 ? 2 : 1;
    const Made none;
    const Made& origin = made.size() < copies ? none : made.front();
    Written written;
    std::map<std::string, std::string> samples;
    std::vector<Part> changed;
    for (const auto& part : copy.parts) {
      const auto& sample = samples[part.name] = sample_of(part.bytes);
      const auto* known = unchanged(origin, part, sample);
      if (known && writer.link_part(*known, origin.path)) continue;
      changed.push_back(part);
      written.bytes += part.bytes.size();
    }
    TRY(writer.add_parts(changed));
    TRY(lock.still_held());
    auto path = writer.commit(copy.meta, copy.metric);
    if (!path) {
      made.clear();
      return tl::unexpected(path.error());
    }
    Made latest{*path, {}};
    for (const auto& entry : writer.manifest().parts) {
      latest.parts[entry.name] = {entry, samples[entry.name]};
    }
    std::erase_if(made, [&](const Made& one) { return one.path == *path; });  // it was replaced
    made.push_back(std::move(latest));
    if (made.size() > copies) made.pop_front();
    written.path = *path;
    apply(place.retention, place.directory, copy.step);
    return written;
  }
};

using Clock = std::chrono::steady_clock;

constexpr const char* kNoMemory = "there is not enough memory for a copy of the state";

class BackgroundSaver final : public Saver {
 public:
  BackgroundSaver(Settings settings, std::list<Tier> tiers)
      : settings_(std::move(settings)), tiers_(std::move(tiers)), last_(tiers_.back().lock) {
    waiting_.reserve(slots_.size());
    thread_.begin([this] { work(); });
  }
  ~BackgroundSaver() override {
    thread_.end(mutex_, [this] { ending_ = true; });
  }

  Result<void> save(std::uint64_t step, std::span<const Source> sources, const nlohmann::json& meta,
                    std::optional<double> metric, std::chrono::nanoseconds spent) override {
    if (thread_.inherited()) return failure("a forked child cannot save its parent's state");
    const auto begun = Clock::now() - spent;
    std::set<std::string_view> names;
    for (const auto& source : sources) {
      if (!is_part_name(source.name) || !names.insert(source.name).second)
        return failure("not a usable name for a part, or there twice: " + source.name);
    }
    std::unique_lock lock(mutex_);
    const auto needed = size_of(sources);
    if (lent_ && lent_->copy.memory.capacity() < needed)
      return failure("more is saved than memory was asked for");
    Slot& slot = fill(lock, needed);
    lock.unlock();
    bool copied = false;
    try {
      slot.copy.step = step;
      slot.copy.meta = meta;
      slot.copy.metric = metric;
      copied = slot.copy.take(sources);
    } catch (const std::bad_alloc&) {  // as when take() returns false; the slot must be freed
    }
    lock.lock();
    if (!copied) {
      slot.stage = Stage::Free;
      return failure(kNoMemory);
    }
    slot.copy.stall = Clock::now() - begun;
    slot.stage = Stage::Waiting;
    waiting_.push_back(&slot);
    wanted_ = std::max<std::uint64_t>(wanted_, slot.copy.memory.capacity());
    lock.unlock();
    thread_.changed().notify_all();
    return {};
  }

  Result<void> failed() override {
    if (thread_.inherited()) return {};
    const std::scoped_lock lock(mutex_);
    return take_failure();
  }

  Result<void> flush() override {
    if (thread_.inherited()) return {};
    std::unique_lock lock(mutex_);
    thread_.changed().wait(lock, [this] { return count(Stage::Waiting, Stage::Writing) == 0; });
    return take_failure();
  }

  Result<char*> place(std::uint64_t bytes) override {
    if (thread_.inherited()) return failure("a forked child cannot save its parent's state");
    std::unique_lock lock(mutex_);
    if (void* device = device_context()) device_ = device;
    lent_ = &fill(lock, bytes);
    lock.unlock();
    if (!lent_->copy.prepare(aligned(bytes), device_)) return failure(kNoMemory);
    return lent_->copy.memory.data();
  }

  void drop_waiting() override {
    if (thread_.inherited()) return;
    const std::scoped_lock lock(mutex_);
    for (auto* slot : waiting_) slot->stage = Stage::Free;
    waiting_.clear();
    thread_.changed().notify_all();
  }

  Result<void> is_writer() const override { return last_.still_held(); }
  std::size_t pending() const override {
    if (thread_.inherited()) return 0;
    const std::scoped_lock lock(mutex_);
    return count(Stage::Waiting, Stage::Writing);
  }

  std::size_t writing() const override {
    if (thread_.inherited()) return 0;
    const std::scoped_lock lock(mutex_);
    return count(Stage::Writing, Stage::Writing);
  }

  void reserve(std::uint64_t bytes) override {
    if (thread_.inherited()) return;
    const std::scoped_lock lock(mutex_);
    wanted_ = std::max(wanted_, bytes);
    if (void* device = device_context()) device_ = device;
    thread_.changed().notify_all();
  }

 private:
  // Free -> (place, save) Filling -> Waiting -> (thread) Writing -> Free; Free -> (thread)
  // Preparing.
  enum class Stage : std::uint8_t { Free, Filling, Waiting, Writing, Preparing };
  struct Slot {
    Stage stage = Stage::Free;
    Copy copy;
  };

  std::size_t count(Stage one, Stage other) const {
    return static_cast<std::size_t>(
        std::count_if(slots_.begin(), slots_.end(),
                      [&](const Slot& slot) { return slot.stage == one || slot.stage == other; }));
  }

  Result<void> take_failure() {
    if (!failed_) return {};
    auto error = std::move(*failed_);
    failed_.reset();
    return tl::unexpected(std::move(error));
  }

  // The free slot with most memory; null: none yet. Beside a copy in flight it gets more only where
  // there is room for that, and otherwise after the other's was given up.
  Slot* slot_for(std::uint64_t bytes) {
    Slot* best = nullptr;
    for (auto& slot : slots_) {
      if (slot.stage != Stage::Free) continue;
      if (!best || slot.copy.memory.capacity() > best->copy.memory.capacity()) best = &slot;
    }
    if (!best || best->copy.memory.capacity() >= bytes) return best;
    if (count(Stage::Preparing, Stage::Preparing) > 0) return nullptr;
    const bool alone = count(Stage::Free, Stage::Free) == slots_.size();
    if (alone)
      for (auto& slot : slots_) slot.copy.memory = Buffer();
    return alone || settings_.room() >= bytes ? best : nullptr;
  }

  // The slot that was lent, or the next one.
  Slot& fill(std::unique_lock<std::mutex>& lock, std::uint64_t bytes) {
    Slot* slot = std::exchange(lent_, nullptr);
    thread_.changed().wait(lock, [&] { return slot || (slot = slot_for(bytes)) != nullptr; });
    slot->stage = Stage::Filling;
    return *slot;
  }

  // One slot with memory suffices, as long as no save comes while another is written.
  Slot* wanting_memory() {
    if (wanted_ == 0 || count(Stage::Free, Stage::Free) < slots_.size()) return nullptr;
    auto& [one, other] = slots_;
    Slot& richer = one.copy.memory.capacity() < other.copy.memory.capacity() ? other : one;
    return richer.copy.memory.capacity() < wanted_ ? &richer : nullptr;
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      Slot* poor = nullptr;
      thread_.changed().wait(lock, [&] {
        poor = wanting_memory();
        return ending_ || poor != nullptr || !waiting_.empty();
      });
      if (!waiting_.empty()) {
        Slot& slot = *waiting_.front();
        waiting_.erase(waiting_.begin());
        slot.stage = Stage::Writing;
        lock.unlock();
        write(slot);
        lock.lock();
        slot.stage = Stage::Free;
        if (count(Stage::Free, Stage::Free) == slots_.size())
          (&slot == &slots_[0] ? slots_[1] : slots_[0]).copy.memory = Buffer();
      } else if (ending_) {
        return;
      } else {
        poor->stage = Stage::Preparing;
        const auto bytes = wanted_;
        void* const device = device_;
        lock.unlock();
        const bool there = poor->copy.prepare(bytes, device);
        lock.lock();
        poor->stage = Stage::Free;
        if (!there) wanted_ = 0;  // save() reports it, if it needs that much
      }
      thread_.changed().notify_all();
    }
  }

  void write(Slot& slot) {
    tiers_.remove_if([&](Tier& tier) { return !write(slot, tier); });
  }

  // False: the place must not be used any more.
  bool write(Slot& slot, Tier& tier) {
    const auto begun = Clock::now();
    auto written = tier.write(slot.copy);
    // Retries with new files: after a failed fsync the old ones cannot be trusted. A second failure
    // is no passing one.
    if (!written && tier.lock.still_held()) written = tier.write(slot.copy);
    if (!written && !tier.outlives) {
      say("no more checkpoints to the faster place: " + written.error().message);
      return false;
    }
    std::optional<Error> made_up_for;
    {
      const std::scoped_lock lock(mutex_);
      if (!written && !failed_) failed_ = std::move(written.error());
      if (written && tier.outlives) made_up_for = std::exchange(failed_, std::nullopt);
    }
    if (made_up_for) say("a checkpoint before this one was lost: " + made_up_for->message);
    if (!written || !settings_.durable) return true;
    settings_.durable({tier.number, tier.outlives, slot.copy.step, written->path, slot.copy.bytes,
                       written->bytes, slot.copy.stall, Clock::now() - begun});
    return true;
  }

  void say(const std::string& trouble) const {
    if (settings_.trouble) settings_.trouble(trouble);
  }

  Settings settings_;
  std::list<Tier> tiers_;   // used by the thread only; the last one outlives the machine
  const WriterLock& last_;  // its lock, which stays

  mutable std::mutex mutex_;
  std::array<Slot, 2> slots_;
  std::vector<Slot*> waiting_;  // its capacity suffices for all slots from the start
  Slot* lent_ = nullptr;        // by place(), for the next save()
  std::uint64_t wanted_ = 0;    // bytes of memory for one slot
  void* device_ = nullptr;      // that memory is pinned for it; null: it is not
  std::optional<Error> failed_;
  bool ending_ = false;
  OwnThread thread_;
};

}  // namespace

Result<std::unique_ptr<Saver>> Saver::open(Settings settings) {
  if (settings.places.empty()) return failure("where do checkpoints go?");
  if (!settings.room) settings.room = room_in_memory;
  std::list<Tier> tiers;
  // Locks the last one first: it must succeed even if another place is the same directory.
  for (std::size_t i = settings.places.size(); i-- > 0;) {
    const bool outlives = tiers.empty();
    auto lock = WriterLock::take(settings.places[i].directory);
    if (lock) {
      tiers.push_front({i, outlives, settings.places[i], std::move(*lock)});
    } else if (outlives) {
      return tl::unexpected(lock.error());
    } else if (settings.trouble) {
      settings.trouble("no checkpoints to the faster place: " + lock.error().message);
    }
  }
  return std::make_unique<BackgroundSaver>(std::move(settings), std::move(tiers));
}

}  // namespace spotter::checkpoint
