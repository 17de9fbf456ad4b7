#include "trainer/library/s3_mirror.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/aws/s3/upload.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/own_thread.hpp"

namespace spotter::checkpoint {
namespace {

// Checkpoints in S3 (keys: s3_mirror.hpp); calls block.
class S3Place {
 public:
  // `prefix` ends with a slash, or is empty.
  S3Place(wire::S3Location prefix, s3::Settings settings)
      : prefix_(std::move(prefix)), client_(std::move(settings)) {}

  // Copies the checkpoint in that directory, then applies the retention. Succeeds if it is there
  // already; fails for a different one of the same step. Gives up when `stop` becomes true.
  Result<void> copy(const std::filesystem::path& checkpoint, std::uint64_t step,
                    const Retention& retention, const std::atomic<bool>& stop);

  // Newest first, complete ones only.
  Result<std::vector<std::uint64_t>> steps();

  Result<Loaded, Refusal> load(std::uint64_t step);

  std::string shown(std::uint64_t step) const;

 private:
  using Keys = std::map<std::uint64_t, std::vector<std::string>>;  // by step
  wire::S3Location key(std::uint64_t step, const std::string& name) const;
  Result<Keys> keys();
  Result<bool> is_there(std::uint64_t step, const std::string& manifest);
  bool may_go(std::uint64_t step);
  void apply_retention(const Retention& retention, std::uint64_t just_written);

  wire::S3Location prefix_;
  s3::Client client_;
};

namespace fs = std::filesystem;

// A mapped file; its bytes stay readable if the retention removes it meanwhile.
class Mapped {
 public:
  static Result<Mapped> open(const fs::path& path) {
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) return system_failure("cannot open", path);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return system_failure("cannot look at", path);
    Mapped mapped;
    mapped.size_ = static_cast<std::size_t>(status.st_size);
    if (mapped.size_ == 0) return mapped;
    mapped.data_ = ::mmap(nullptr, mapped.size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (mapped.data_ == MAP_FAILED) {
      mapped.data_ = nullptr;
      return system_failure("cannot map", path);
    }
    return mapped;
  }
  Mapped(Mapped&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  Mapped& operator=(Mapped&&) = delete;
  ~Mapped() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  std::string_view bytes() const {
    return data_ == nullptr ? std::string_view()
                            : std::string_view(static_cast<char*>(data_), size_);
  }

 private:
  Mapped() = default;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

std::string object_name(const PartEntry& part) { return part.xxh3_128 + "-" + part.name; }

tl::unexpected<Error> failed(const s3::Failure& why) { return failure(why.text()); }

std::string S3Place::shown(std::uint64_t step) const {
  return wire::to_url({prefix_.bucket, prefix_.key + directory_name(step)});
}

wire::S3Location S3Place::key(std::uint64_t step, const std::string& name) const {
  return {prefix_.bucket, prefix_.key + directory_name(step) + "/" + name};
}

Result<bool> S3Place::is_there(std::uint64_t step, const std::string& manifest) {
  const auto theirs = s3::read(client_, key(step, std::string(kManifestName)));
  if (!theirs) {
    if (theirs.error().kind == s3::Failure::Kind::NoSuchKey) return false;
    return failed(theirs.error());
  }
  if (theirs->bytes == manifest) return true;
  return failure(shown(step) + " is another run's: give this one a place of its own");
}

Result<void> S3Place::copy(const fs::path& checkpoint, std::uint64_t step,
                           const Retention& retention, const std::atomic<bool>& stop) {
  auto manifest = Mapped::open(checkpoint / kManifestName);
  if (!manifest) return tl::unexpected(manifest.error());
  const std::string bytes(manifest->bytes());
  const auto decoded = decode(bytes);
  if (!decoded) return tl::unexpected(decoded.error());
  const auto before = is_there(step, bytes);
  if (!before) return tl::unexpected(before.error());
  if (*before) return {};
  std::vector<Mapped> files;
  std::vector<s3::NewObject> objects;
  for (const auto& part : decoded->parts) {
    auto file = Mapped::open(checkpoint / part.name);
    if (!file) return tl::unexpected(file.error());
    files.push_back(std::move(*file));
    objects.push_back({key(step, object_name(part)), files.back().bytes(), {}});
  }
  const auto parts = s3::upload(client_, objects, &stop);
  if (!parts) return failed(parts.error());
  const auto committed =
      s3::put(client_, key(step, std::string(kManifestName)), bytes, {.absent = true});
  if (!committed) {
    if (committed.error().kind != s3::Failure::Kind::Exists) return failed(committed.error());
    const auto now = is_there(step, bytes);  // another writer of the same was faster
    if (!now) return tl::unexpected(now.error());
    if (!*now) return failed(committed.error());
  }
  apply_retention(retention, step);
  return {};
}

Result<S3Place::Keys> S3Place::keys() {
  const auto all = s3::list(client_, prefix_);
  if (!all) return failed(all.error());
  Keys keys;
  for (const auto& object : *all) {
    const std::string name = object.key.substr(prefix_.key.size());
    const auto slash = name.find('/');
    if (!name.starts_with("step-") || slash == std::string::npos) continue;
    const auto step = wire::parse_count(name.substr(5, slash - 5));
    if (step && name.substr(0, slash) == directory_name(*step)) keys[*step].push_back(object.key);
  }
  return keys;
}

Result<std::vector<std::uint64_t>> S3Place::steps() {
  const auto all = keys();
  if (!all) return tl::unexpected(all.error());
  std::vector<std::uint64_t> steps;
  for (const auto& [step, names] : *all) {
    const auto manifest = key(step, std::string(kManifestName)).key;
    if (std::ranges::find(names, manifest) != names.end()) steps.push_back(step);
  }
  std::ranges::reverse(steps);
  return steps;
}

// False for one that is unreadable, or a newer Spotter's: see checkpoint.hpp.
bool S3Place::may_go(std::uint64_t step) {
  const auto manifest = s3::read(client_, key(step, std::string(kManifestName)));
  if (!manifest) return manifest.error().kind == s3::Failure::Kind::NoSuchKey;
  const auto decoded = decode(manifest->bytes);
  return decoded || !wire::is_newer(decoded.error());
}

// Failures are ignored until the next call.
void S3Place::apply_retention(const Retention& retention, std::uint64_t just_written) {
  const auto all = keys();
  const auto whole = steps();
  if (!all || !whole) return;
  std::vector<Kept> judged;
  for (const auto step : *whole) {
    judged.push_back({step, std::nullopt});
    if (retention.best == 0) continue;
    const auto manifest = s3::read(client_, key(step, std::string(kManifestName)));
    const auto decoded = manifest ? decode(manifest->bytes) : Result<Manifest>(Manifest{});
    if (decoded) judged.back().metric = decoded->metric;
  }
  const auto keep = kept(std::move(judged), just_written, retention);
  for (const auto& [step, names] : *all) {
    // A later step without a manifest is being written; kept ones stay.
    const bool is_whole = std::ranges::find(*whole, step) != whole->end();
    if (keep.contains(step) || (!is_whole && step > just_written)) continue;
    if (is_whole && !may_go(step)) continue;
    const auto manifest = key(step, std::string(kManifestName));
    if (is_whole && !s3::remove(client_, manifest)) continue;  // first, as written last
    for (const auto& name : names) (void)s3::remove(client_, {prefix_.bucket, name});
  }
}

Result<Loaded, Refusal> S3Place::load(std::uint64_t step) {
  using Kind = s3::Failure::Kind;
  using Why = Refusal::Why;
  const auto refused = [&](const s3::Failure& why) {
    const bool torn =
        why.kind == Kind::NoSuchKey || why.kind == Kind::Changed || why.kind == Kind::Corrupt;
    return tl::unexpected(Refusal{torn ? Why::Torn : Why::Unread, why.text()});
  };
  const auto torn = [](std::string why) { return tl::unexpected(refusal(0, std::move(why))); };
  const auto bytes = s3::read(client_, key(step, std::string(kManifestName)));
  if (!bytes) return refused(bytes.error());
  auto manifest = decode(bytes->bytes);
  if (!manifest && wire::is_newer(manifest.error())) {
    return tl::unexpected(Refusal{Why::Newer, shown(step) + ": " + manifest.error().message});
  }
  if (!manifest) return torn(manifest.error().message);
  if (manifest->step != step) return torn("the manifest says another step");
  Loaded loaded{{step, shown(step), std::move(manifest->meta), std::move(manifest->parts)}, {}};
  for (const auto& part : loaded.checkpoint.parts) {
    const auto at = key(step, object_name(part));
    const auto object = s3::head(client_, at);
    if (!object) return refused(object.error());
    if (object->size != part.bytes) return torn(part.name + " has another size");
    LoadedPart one{.name = part.name, .bytes = {}, .memory = {}};
    if (!one.memory.reserve(part.bytes))
      return tl::unexpected(refusal(ENOMEM, "not enough memory"));
    const std::span<char> into(one.memory.data(), part.bytes);
    if (auto read = s3::read_into(client_, *object, into); !read) return refused(read.error());
    one.bytes = {into.data(), into.size()};
    if (sum_of(one.bytes) != part.xxh3_128) return torn(part.name + " has a wrong sum");
    loaded.parts.push_back(std::move(one));
  }
  return loaded;
}

constexpr int lowest_priority = 19;

class S3Mirror final : public Mirror {
 public:
  S3Mirror(Settings settings, wire::S3Location prefix, s3::Settings client)
      : settings_(std::move(settings)), prefix_(std::move(prefix)), client_(std::move(client)) {
    thread_.begin([this] { work(); });
  }
  ~S3Mirror() override {
    thread_.end(mutex_, [this] { ending_ = true; });
  }

  void offer(const std::filesystem::path& checkpoint, std::uint64_t step) override;
  bool wait(std::chrono::nanoseconds at_most) override;
  Result<std::optional<Loaded>> newest(std::optional<std::uint64_t> after,
                                       std::vector<Torn>& torn) override;

 private:
  struct Offer {
    std::filesystem::path checkpoint;
    std::uint64_t step;
  };

  void work();

  Settings settings_;
  wire::S3Location prefix_;
  s3::Settings client_;
  std::mutex mutex_;
  std::optional<Offer> waiting_;
  bool copying_ = false;
  std::atomic<bool> ending_ = false;
  OwnThread thread_;
};

void S3Mirror::offer(const std::filesystem::path& checkpoint, std::uint64_t step) {
  if (thread_.inherited()) return;
  {
    const std::scoped_lock lock(mutex_);
    waiting_ = {checkpoint, step};
  }
  thread_.changed().notify_all();
}

bool S3Mirror::wait(std::chrono::nanoseconds at_most) {
  if (thread_.inherited()) return true;
  std::unique_lock lock(mutex_);
  return thread_.changed().wait_for(lock, at_most, [this] { return !waiting_ && !copying_; });
}

void S3Mirror::work() {
  // On Linux of this thread, and of those that it starts: training has the processor first.
  ::setpriority(PRIO_PROCESS, 0, lowest_priority);
  S3Place place(prefix_, client_);
  std::unique_lock lock(mutex_);
  while (true) {
    thread_.changed().wait(lock, [this] { return ending_ || waiting_; });
    if (ending_) return;
    const Offer offer = std::move(*waiting_);
    waiting_.reset();
    copying_ = true;
    lock.unlock();
    const auto copied = place.copy(offer.checkpoint, offer.step, settings_.retention, ending_);
    if (!copied && !ending_ && settings_.trouble) {
      settings_.trouble("no copy of step " + std::to_string(offer.step) + " in " + settings_.place +
                        ": " + copied.error().message);
    }
    lock.lock();
    copying_ = false;
    thread_.changed().notify_all();
  }
}

Result<std::optional<Loaded>> S3Mirror::newest(std::optional<std::uint64_t> after,
                                               std::vector<Torn>& torn) {
  S3Place place(prefix_, client_);
  const auto steps = place.steps();
  if (!steps) return tl::unexpected(steps.error());
  for (const auto step : *steps) {
    if (after && step <= *after) break;
    auto loaded = place.load(step);
    if (loaded) return std::optional(std::move(*loaded));
    const Refusal& refused = loaded.error();
    if (refused.why != Refusal::Why::Torn) {
      const bool newer = refused.why == Refusal::Why::Newer;
      return failure(refused.reason, newer ? wire::newer_format : "");
    }
    torn.push_back({place.shown(step), {}, refused.reason});
  }
  return std::optional<Loaded>();
}

}  // namespace

Result<std::unique_ptr<Mirror>> open_s3_mirror(Mirror::Settings settings,
                                               std::optional<s3::Settings> client) {
  auto prefix = wire::parse_s3_url(settings.place);
  if (!prefix) return tl::unexpected(prefix.error());
  if (!prefix->key.empty() && !prefix->key.ends_with('/')) prefix->key += '/';
  if (!client) client = s3::Settings{.environment = act::Environment::of_this_process()};
  return std::make_unique<S3Mirror>(std::move(settings), std::move(*prefix), std::move(*client));
}

}  // namespace spotter::checkpoint
