#include "trainer/library/s3_mirror.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "agent/aws/s3/objects.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/own_thread.hpp"
#include "trainer/library/transfer.hpp"

namespace spotter::checkpoint {
namespace {

constexpr std::size_t opened_at_first = 64;

using Opened = Result<Descriptor, std::error_code>;

Opened open_file(const fs::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return tl::unexpected(std::error_code(errno, std::generic_category()));
  return file;
}

tl::unexpected<Error> torn(std::string why) { return failure(std::move(why), bucket::torn); }

// Copies of checkpoints, calls block: the files of each, libspotter's own manifest among them.
class S3Place {
 public:
  S3Place(wire::S3Location at, s3::Settings settings)
      : bucket_(std::move(at), "", std::move(settings)) {}

  // Copies the checkpoint in that directory, then applies the retention. Succeeds if it is there
  // already; fails for a different one of the same step. Gives up when `stop` becomes true.
  Result<void> copy(const fs::path& checkpoint, std::uint64_t step, const Retention& retention,
                    const std::atomic<bool>& stop) {
    const std::string own = TRY(read_whole(checkpoint / kManifestName, kManifestLimit));
    const auto manifest = TRY(decode(own));
    bucket::Manifest made{"", directory_name(step), static_cast<std::int64_t>(step),
                          0,  manifest.metric,      {}};
    made.files[std::string(kManifestName)] = {own.size(), 0, sum_of(own), made.name};
    for (const auto& part : manifest.parts)
      made.files[part.name] = {part.bytes, 0, part.xxh3_128, made.name};
    std::vector<bucket::Wanted> wanted;
    // At first, as the retention may remove them meanwhile; of many not all, as the trainer's
    // process has so many descriptors at most.
    std::map<std::string, Opened> opened;
    for (const auto& [name, file] : made.files) {
      wanted.push_back({name, name, file.sum, std::nullopt});
      if (opened.size() < opened_at_first) opened.emplace(name, open_file(checkpoint / name));
    }
    const auto before = TRY(bucket_.has(name_of(step), made));
    if (before) return {};
    bucket::Sender sender(bucket_, made.name, [&](const std::string& name) {
      const auto early = opened.find(name);
      return early == opened.end() ? open_file(checkpoint / name) : std::move(early->second);
    });
    made.files = TRY(sender.send(wanted, &stop));
    TRY(bucket_.commit(name_of(step), made));
    apply_retention(retention, step);
    return {};
  }

  // Newest first.
  Result<std::vector<std::uint64_t>> steps() {
    const auto stems = TRY(bucket_.stems());
    std::vector<std::uint64_t> steps;
    for (const std::string& stem : stems)
      if (const auto step = step_of(stem)) steps.push_back(*step);
    std::ranges::sort(steps, std::greater());
    return steps;
  }

  // None: it was removed meanwhile. Fails as bucket::torn, and as Bucket::read() does.
  Result<std::optional<Loaded>> load(std::uint64_t step) {
    const auto stored = TRY(bucket_.read(name_of(step)));
    if (!stored) return std::optional<Loaded>();
    // No room is made for what a manifest says and S3 does not have.
    const auto data = TRY(bucket_.data(directory_name(step)));
    std::map<std::string, std::uint64_t> sizes;
    for (const auto& each : data) sizes.emplace(each.name, each.bytes);
    for (const auto& [name, file] : stored->files) {
      const auto found = sizes.find(file.key());
      const bool fits = found == sizes.end() ? file.bytes == 0 : found->second == file.bytes;
      if (!fits) return torn(name + " is not there with the manifest's size");
    }
    std::vector<const bucket::Files::value_type*> files;
    std::map<std::string, LoadedPart> parts;
    std::vector<LoadedPart*> targets;
    for (const auto& file : stored->files) {
      files.push_back(&file);
      LoadedPart& part = parts.emplace(file.first, LoadedPart{file.first, {}, {}}).first->second;
      const auto bytes = static_cast<std::size_t>(file.second.bytes);
      if (!part.memory.reserve(bytes)) return failure("not enough memory");
      part.bytes = {part.memory.data(), bytes};
      targets.push_back(&part);
    }
    bucket::Receiver receiver;
    receiver.memory = [&](std::size_t i) {
      return std::span(targets[i]->memory.data(), targets[i]->bytes.size());
    };
    receiver.ended = [](std::size_t, const Result<void>& verified) { return verified; };
    TRY(bucket::fetch(bucket_, files, receiver));
    const auto own = parts.find(std::string(kManifestName));
    auto manifest =
        own == parts.end() ? torn("it has no manifest.json") : decode(own->second.bytes);
    if (!manifest && wire::is_newer(manifest.error()))
      return failure(shown(step) + ": " + manifest.error().message, manifest.error().kind);
    if (!manifest) return torn(manifest.error().message);
    if (manifest->step != step) return torn("the manifest says another step");
    Loaded loaded{{step, shown(step), std::move(manifest->meta), std::move(manifest->parts)}, {}};
    for (const auto& part : loaded.checkpoint.parts) {
      const auto file = stored->files.find(part.name);
      const bool fits = file != stored->files.end() && file->second.bytes == part.bytes &&
                        file->second.sum == part.xxh3_128;
      if (!fits) return torn(part.name + " is not what the manifest says");
      loaded.parts.push_back(std::move(parts.at(part.name)));
    }
    return loaded;
  }

  std::string shown(std::uint64_t step) const { return bucket_.shown(name_of(step)); }

 private:
  static std::string name_of(std::uint64_t step) {
    return bucket::manifest_name(directory_name(step));
  }

  // Failures are ignored until the next call.
  void apply_retention(const Retention& retention, std::uint64_t just_written) {
    const auto data =
        bucket_.data();  // before the manifests: else their data may be newer than they
    const auto steps = this->steps();
    if (!data || !steps) return;
    std::set<std::uint64_t> there(steps->begin(), steps->end());
    std::vector<Kept> judged;
    for (const auto step : *steps) judged.push_back({step, std::nullopt});
    for (Kept& each : judged) {
      if (retention.best == 0) break;
      const auto manifest = bucket_.read(name_of(each.step));
      if (manifest && *manifest) each.metric = (*manifest)->metric;
    }
    const auto keep = kept(std::move(judged), just_written, retention);
    std::set<std::uint64_t> go;
    std::vector<std::string> gone;
    for (const auto step : *steps) {
      if (keep.contains(step) || !may_go(step)) continue;
      go.insert(step);
      gone.push_back(name_of(step));
    }
    for (const auto& each : *data) {
      const auto step = step_of(each.group);
      if (!step || keep.contains(*step)) continue;
      // A later step without a manifest is being written.
      const bool is_left = each.is_old && !there.contains(*step) && *step <= just_written;
      if (is_left || go.contains(*step)) gone.push_back(each.name);
    }
    bucket_.remove(gone);
  }

  // What cannot be read, or a newer Spotter wrote, stays: see checkpoint.hpp. The manifest within
  // may be newer than the one in S3.
  bool may_go(std::uint64_t step) {
    const auto stored = bucket_.read(name_of(step));
    if (!stored || !*stored) return false;
    const auto own = (*stored)->files.find(std::string(kManifestName));
    if (own == (*stored)->files.end()) return false;
    const auto content = s3::read(bucket_.client(), bucket_.where(own->second.key()));
    return content && decode(content->bytes);
  }

  bucket::Bucket bucket_;
};

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

  void offer(const fs::path& checkpoint, std::uint64_t step) override {
    if (thread_.inherited()) return;
    {
      const std::scoped_lock lock(mutex_);
      waiting_ = {checkpoint, step};
    }
    thread_.changed().notify_all();
  }

  bool wait(std::chrono::nanoseconds at_most) override {
    if (thread_.inherited()) return true;
    std::unique_lock lock(mutex_);
    return thread_.changed().wait_for(lock, at_most, [this] { return !waiting_ && !copying_; });
  }

  Result<std::optional<Loaded>> newest(std::optional<std::uint64_t> after,
                                       std::vector<Torn>& torn) override {
    S3Place place(prefix_, client_);
    const auto steps = TRY(place.steps());
    for (const auto step : steps) {
      if (after && step <= *after) break;
      auto loaded = place.load(step);
      if (loaded && *loaded) return loaded;
      if (!loaded && loaded.error().kind != bucket::torn) return tl::unexpected(loaded.error());
      if (!loaded) torn.push_back({place.shown(step), {}, loaded.error().message});
    }
    return std::optional<Loaded>();
  }

 private:
  struct Offer {
    fs::path checkpoint;
    std::uint64_t step;
  };

  void work() {
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
        settings_.trouble("no copy of step " + std::to_string(offer.step) + " in " +
                          settings_.place + ": " + copied.error().message);
      }
      lock.lock();
      copying_ = false;
      thread_.changed().notify_all();
    }
  }

  Settings settings_;
  wire::S3Location prefix_;
  s3::Settings client_;
  std::mutex mutex_;
  std::optional<Offer> waiting_;
  bool copying_ = false;
  std::atomic<bool> ending_ = false;
  OwnThread thread_;
};

}  // namespace

Result<std::unique_ptr<Mirror>> open_s3_mirror(Mirror::Settings settings,
                                               std::optional<s3::Settings> client) {
  auto prefix = TRY(wire::parse_s3_url(settings.place));
  if (!prefix.key.empty() && !prefix.key.ends_with('/')) prefix.key += '/';
  if (!client) client = s3::Settings{.environment = act::Environment::of_this_process()};
  return std::make_unique<S3Mirror>(std::move(settings), std::move(prefix), std::move(*client));
}

}  // namespace spotter::checkpoint
