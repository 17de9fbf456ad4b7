#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>

#include "agent/aws/s3/objects.hpp"
#include "agent/aws/s3/upload.hpp"
#include "agent/guard/keeper.hpp"
#include "agent/guard/place.hpp"
#include "agent/tier/home_files.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::tier {
namespace {

constexpr std::size_t read_whole = 4U << 20;  // what is larger is mapped
// What is mapped and under way at once; a larger file goes alone.
constexpr std::size_t most_sent_at_once = 256;
constexpr std::uint64_t most_bytes_sent_at_once = std::uint64_t{1} << 30;

bool is_of_s3(const Error& error) { return error.kind.starts_with("s3"); }

std::int64_t mtime_of(const struct stat& status) { return guard::found({}, status).mtime_ns; }

// A file's bytes, as they were when it was opened: what is appended later is not of it.
class Content {
 public:
  static Result<std::unique_ptr<Content>> open(const io::Beneath& folder, const Wanted& wanted) {
    auto content = std::make_unique<Content>();
    if (wanted.content) {
      content->text_ = *wanted.content;
      const auto status = folder.look(wanted.from);
      if (status) content->mtime_ns_ = mtime_of(*status);
      return content;
    }
    auto file = folder.file(wanted.from, O_RDONLY);
    struct stat status {};
    if (!file) return wrong(wanted, "cannot be read: " + file.error().message());
    if (::fstat(file->get(), &status) != 0)
      return wrong(wanted, std::string("cannot be read: ") + std::strerror(errno));
    content->file_ = *std::move(file);
    content->mtime_ns_ = mtime_of(status);
    const auto bytes = static_cast<std::size_t>(status.st_size);
    if (bytes > read_whole) {
      void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, content->file_.get(), 0);
      if (data == MAP_FAILED)
        return wrong(wanted, std::string("cannot be mapped: ") + std::strerror(errno));
      content->data_ = data;
      content->mapped_ = bytes;
      return content;
    }
    content->text_.resize(bytes);
    std::size_t got = 0;
    while (got < bytes) {
      const ssize_t more = ::pread(content->file_.get(), content->text_.data() + got, bytes - got,
                                   static_cast<off_t>(got));
      if (more < 0 && errno == EINTR) continue;
      if (more <= 0) return wrong(wanted, "became shorter while it was read");
      got += static_cast<std::size_t>(more);
    }
    return content;
  }
  Content() = default;
  Content(const Content&) = delete;
  Content& operator=(const Content&) = delete;
  ~Content() {
    if (data_ != nullptr) ::munmap(data_, mapped_);
  }

  std::string_view bytes() const {
    return data_ == nullptr ? std::string_view(text_)
                            : std::string_view(static_cast<const char*>(data_), mapped_);
  }
  std::int64_t mtime_ns() const { return mtime_ns_; }
  // What was mapped may have been written to; a log that only grew has the same bytes still.
  bool still_has(const std::string& sum) const {
    if (data_ == nullptr) return true;
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) return false;
    if (mtime_of(status) == mtime_ns_ && static_cast<std::size_t>(status.st_size) == mapped_)
      return true;
    return static_cast<std::size_t>(status.st_size) >= mapped_ &&
           checkpoint::sum_of(bytes()) == sum;
  }

 private:
  static tl::unexpected<Error> wrong(const Wanted& wanted, const std::string& what) {
    return failure(wanted.path + " " + what);
  }

  guard::Descriptor file_;
  std::string text_;
  void* data_ = nullptr;
  std::size_t mapped_ = 0;
  std::int64_t mtime_ns_ = 0;
};

class Keeping {
 public:
  Keeping(const Home& home, const io::Beneath& folder)
      : home_(home), folder_(folder), client_(home.s3) {}

  Result<Kept> keep(const KeepRequest& request);
  s3::Tally requests() const { return client_.tally(); }

 private:
  using Files = std::map<std::string, KeptFile>;
  struct OnItsWay {
    const Wanted* wanted;
    std::unique_ptr<Content> content;
    KeptFile file;
  };

  Result<void> learn(const std::string& committed);
  void add_known(const HomeManifest& manifest);
  void trim(const std::string& committed);
  // All of them, or an error that says which one cannot be.
  Result<Files> bring_up(const std::vector<Wanted>& files);
  Result<void> send(std::vector<OnItsWay>& files);
  std::optional<KeptFile> unchanged(const Wanted& wanted) const;
  Files committed_checkpoints() const;

  const Home& home_;
  const io::Beneath& folder_;
  s3::Client client_;
  std::optional<Mark> mark_;
  HomeManifest committed_;
  std::map<std::pair<std::string, std::uint64_t>, KeptFile> known_;  // what the bucket has
  Kept kept_;
};

void Keeping::add_known(const HomeManifest& manifest) {
  for (const auto& [path, file] : manifest.files)
    known_.emplace(std::pair(file.sum, file.bytes), file);
}

// What the bucket has: what is committed, and what this epoch brought for a commit that failed.
Result<void> Keeping::learn(const std::string& committed) {
  mark_ = read_mark(home_, folder_);
  if (mark_ && mark_->epoch != home_.epoch) mark_.reset();
  if (mark_ && mark_->name == committed) {
    committed_ = mark_->manifest;
  } else if (!committed.empty()) {
    auto manifest = read_manifest(client_, home_, committed);
    if (!manifest) return tl::unexpected(manifest.error());
    committed_ = *std::move(manifest);
  }
  add_known(committed_);
  if (mark_) add_known(mark_->manifest);
  return {};
}

// The epoch in "data/7/..." and "manifests/7-...".
std::optional<std::uint32_t> epoch_in(std::string_view key) {
  for (const std::string_view begin : {"data/", "manifests/"}) {
    if (!key.starts_with(begin)) continue;
    key.remove_prefix(begin.size());
    std::uint32_t epoch = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), epoch);
    if (error == std::errc() && end < key.data() + key.size()) return epoch;
  }
  return std::nullopt;
}

// Only what this epoch or one before it brought, and neither the committed manifest names nor the
// one that follows it will: of a later epoch, whose session this one does not know of yet, nothing.
// A failure costs only what is stored a little longer.
void Keeping::trim(const std::string& committed) {
  std::set<std::string> needed{committed};
  if (mark_) needed.insert(mark_->name);
  for (const auto& [content, file] : known_) needed.insert(file.key());
  for (const auto& [path, file] : committed_.files) needed.insert(file.key());
  for (const char* folder : {"data/", "manifests/"}) {
    const auto objects = s3::list(client_, {home_.at.bucket, home_.at.key + folder});
    if (!objects) return;
    for (const wire::ListedObject& object : *objects) {
      const std::string name = object.key.substr(home_.at.key.size());
      const auto epoch = epoch_in(name);
      if (!epoch || *epoch > home_.epoch || needed.contains(name)) continue;
      if (!s3::remove(client_, {home_.at.bucket, object.key})) return;
    }
  }
}

// As it was when it was kept last: its size and time say so, and nothing is read.
std::optional<KeptFile> Keeping::unchanged(const Wanted& wanted) const {
  if (wanted.content || !mark_) return std::nullopt;
  const auto before = mark_->manifest.files.find(wanted.path);
  if (before == mark_->manifest.files.end()) return std::nullopt;
  const KeptFile& file = before->second;
  if (!wanted.sum.empty() && wanted.sum != file.sum) return std::nullopt;
  const auto status = folder_.look(wanted.from);
  const bool same = status && S_ISREG(status->st_mode) && mtime_of(*status) == file.mtime_ns &&
                    static_cast<std::uint64_t>(status->st_size) == file.bytes;
  if (!same || !known_.contains({file.sum, file.bytes})) return std::nullopt;
  return file;
}

Result<Keeping::Files> Keeping::bring_up(const std::vector<Wanted>& files) {
  Files done;
  std::vector<OnItsWay> under_way;
  std::uint64_t bytes = 0;
  const auto flush = [&]() -> Result<void> {
    if (auto sent = send(under_way); !sent) return sent;
    for (OnItsWay& each : under_way) done[each.wanted->path] = each.file;
    under_way.clear();
    bytes = 0;
    return {};
  };
  for (const Wanted& wanted : files) {
    if (const auto same = unchanged(wanted)) {
      done[wanted.path] = *same;
      continue;
    }
    auto content = Content::open(folder_, wanted);
    if (!content && wanted.from != wanted.path) {  // the copy beside is gone: its own file, then
      Wanted own = wanted;
      own.from = own.path;
      content = Content::open(folder_, own);
    }
    if (!content) return tl::unexpected(content.error());
    const std::string sum = checkpoint::sum_of((*content)->bytes());
    if (!wanted.sum.empty() && sum != wanted.sum)
      return failure(wanted.path + " is not what was recorded");
    KeptFile file{(*content)->bytes().size(), (*content)->mtime_ns(), sum, home_.epoch};
    if (const auto known = known_.find({file.sum, file.bytes}); known != known_.end()) {
      file.epoch = known->second.epoch;
      done[wanted.path] = file;
      continue;
    }
    bytes += file.bytes;
    under_way.push_back({&wanted, *std::move(content), std::move(file)});
    if (under_way.size() >= most_sent_at_once || bytes >= most_bytes_sent_at_once)
      if (auto flushed = flush(); !flushed) return tl::unexpected(flushed.error());
  }
  if (auto flushed = flush(); !flushed) return tl::unexpected(flushed.error());
  return done;
}

Result<void> Keeping::send(std::vector<OnItsWay>& files) {
  std::vector<s3::NewObject> objects;
  std::set<std::string> keys;  // of files with the same bytes one goes
  for (const OnItsWay& each : files) {
    std::string key = each.file.key();
    if (each.file.bytes == 0 || !keys.insert(key).second) continue;
    objects.push_back(
        {{home_.at.bucket, home_.at.key + std::move(key)}, each.content->bytes(), {}});
    kept_.sent += each.file.bytes;
  }
  if (objects.empty()) return {};
  if (const auto sent = s3::upload(client_, objects); !sent) return failed_at_s3(sent.error());
  for (const OnItsWay& each : files) {
    if (!each.content->still_has(each.file.sum))
      return failure(each.wanted->path + " was changed while it was copied");
    known_.emplace(std::pair(each.file.sum, each.file.bytes), each.file);
  }
  return {};
}

Keeping::Files Keeping::committed_checkpoints() const {
  Files files;
  const std::string begin = home_.checkpoints + "/";
  for (auto at = committed_.files.lower_bound(begin);
       at != committed_.files.end() && at->first.starts_with(begin); ++at)
    files.insert(*at);
  return files;
}

Result<Kept> Keeping::keep(const KeepRequest& request) {
  const auto& [committed, whole, trims] = request;
  if (auto learned = learn(committed); !learned) return tl::unexpected(learned.error());
  const auto inventory = look_over(home_, folder_, whole);
  if (!inventory) return tl::unexpected(inventory.error());
  if (!committed.empty() && trims) trim(committed);
  HomeManifest manifest{home_.job, -1, {}};
  const auto take = [&](Files files) {
    for (auto& [path, file] : files) manifest.files.insert_or_assign(path, std::move(file));
  };
  // The trainer may remove a checkpoint while it is read: then it is none that counts. S3's own
  // trouble is not that, and ends all of it.
  bool taken = false, missed = false;
  for (const WantedCheckpoint& checkpoint : inventory->checkpoints) {
    auto files = bring_up(checkpoint.files);
    if (!files && is_of_s3(files.error())) return tl::unexpected(files.error());
    missed = missed || !files;
    const bool is_newest = &checkpoint == &inventory->checkpoints.front();
    if (!files && !is_newest) continue;  // its retention may have removed it
    if (!files) {
      kept_.said.push_back("the checkpoint " + checkpoint.name +
                           " is not taken along: " + files.error().message);
      continue;
    }
    taken = true;
    take(*std::move(files));
    manifest.newest = std::max(manifest.newest, checkpoint.step);
  }
  // Of a trainer with a format of its own its end leaves some.
  const bool left = whole && inventory->checkpoints.empty() &&
                    std::ranges::any_of(inventory->others, [&](const Wanted& wanted) {
                      return wanted.path.starts_with(home_.checkpoints + "/");
                    });
  // What is committed is worth more than nothing, or than an older one: it stays, as it is
  // recorded.
  const bool stays = (!taken && !left) || (missed && manifest.newest < committed_.newest);
  if (stays) {
    manifest.files = committed_checkpoints();
    manifest.newest = committed_.newest;
  }
  for (const Wanted& wanted : inventory->others) {
    auto file = bring_up({wanted});
    if (!file && (whole || is_of_s3(file.error()))) return tl::unexpected(file.error());
    if (file) take(*std::move(file));  // else it is being written: the next time
  }
  const auto record = committed_.files.find(std::string(own_folder) + "/" + guard::record_name);
  if (stays && record != committed_.files.end()) take({*record});
  for (const auto& [path, file] : manifest.files) kept_.bytes += file.bytes;
  kept_.newest = manifest.newest;
  if (!committed.empty() && manifest == committed_) {
    kept_.manifest = committed;
    return kept_;
  }
  const std::string text = encode(manifest);
  if (text.size() > home_manifest_limit || manifest.files.size() > most_kept_files)
    return failure("the home has too many files to be kept in a bucket: " +
                   std::to_string(manifest.files.size()));
  kept_.manifest =
      "manifests/" + std::to_string(home_.epoch) + "-" + checkpoint::sum_of(text) + ".json";
  const auto put = s3::put(client_, {home_.at.bucket, home_.at.key + kept_.manifest}, text);
  if (!put) return failed_at_s3(put.error());
  const Mark made{home_.epoch, kept_.manifest, std::move(manifest)};
  if (auto marked = write_mark(home_, folder_, made); !marked)
    return tl::unexpected(marked.error());
  return kept_;
}

}  // namespace

Result<Kept> keep(const Home& home, const KeepRequest& request) {
  const auto folder = io::Beneath::open(home.folder);
  if (!folder)
    return failure("cannot open " + home.folder.string() + ": " + folder.error().message());
  Keeping keeping(home, *folder);
  auto kept = keeping.keep(request);
  if (kept) kept->requests = keeping.requests();
  return kept;
}

}  // namespace spotter::tier
