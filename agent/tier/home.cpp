#include "agent/tier/home.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "agent/aws/s3/objects.hpp"
#include "agent/aws/s3/upload.hpp"
#include "agent/guard/keeper.hpp"
#include "agent/guard/place.hpp"
#include "agent/guard/removal.hpp"
#include "agent/tier/home_files.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::tier {
namespace {

constexpr std::size_t brought_piece = 8U << 20;
constexpr std::uint64_t most_bytes_brought_at_once = std::uint64_t{1} << 30;
constexpr std::size_t most_brought_at_once = 256;
constexpr int range_beyond_the_end = 416;

// A new file of the right size, mapped.
class Target {
 public:
  static Result<Target> make(const io::SafeDirectory& folder, const std::string& name,
                             const KeptFile& file) {
    Target target;
    auto made = folder.file(name, O_RDWR | O_CREAT | O_EXCL, 0644);
    if (!made) return failure("cannot make " + name + ": " + made.error().message());
    target.file_ = *std::move(made);
    target.bytes_ = file.bytes;
    if (file.bytes == 0) return target;
    // Makes the kernel say now that there is no room, and not by a SIGBUS later.
    const int room = ::posix_fallocate(target.file_.get(), 0, static_cast<off_t>(file.bytes));
    if (room != 0) return failure("no room for " + name + ": " + std::strerror(room));
    void* data =
        ::mmap(nullptr, file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, target.file_.get(), 0);
    if (data == MAP_FAILED) return failure("cannot map " + name + ": " + std::strerror(errno));
    target.data_ = data;
    return target;
  }
  Target(Target&& other) noexcept
      : file_(std::move(other.file_)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(other.bytes_) {}
  Target& operator=(Target&&) = delete;
  ~Target() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }

  std::span<char> bytes() const {
    return data_ == nullptr ? std::span<char>() : std::span(static_cast<char*>(data_), bytes_);
  }
  // Restores the file's time: the order in which a framework wrote may show in the times alone.
  void date(const KeptFile& file) const {
    constexpr std::int64_t second = 1'000'000'000;
    timespec time{file.mtime_ns / second, file.mtime_ns % second};
    if (time.tv_nsec < 0) time = {time.tv_sec - 1, time.tv_nsec + second};
    const timespec times[2] = {time, time};
    ::futimens(file_.get(), times);
  }

 private:
  Target() = default;
  guard::Descriptor file_;
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

class Bringing {
 public:
  Bringing(const Home& home, const io::SafeDirectory& folder)
      : home_(home), folder_(folder), client_(home.s3), kept_(kept_roots(home, folder)) {
    kept_.push_back(home.checkpoints);
  }

  Result<Brought> bring(const std::string& name, std::uint32_t held);
  s3::Tally requests() const { return client_.tally(); }

 private:
  using Each = std::pair<const std::string, KeptFile>;

  Result<void> leave_other(bool of_this_home);
  bool set_aside(const std::string& name) const;
  bool may_be_kept(const std::string& path) const;
  Result<void> clear(const HomeManifest& manifest, const std::string& path);
  bool is_here(const Each& file, bool newer) const;
  Result<void> fetch(const std::vector<const Each*>& files);
  Result<void> fetch_together(std::span<const Each* const> files);
  Result<void> make_folders(const std::string& path);
  Result<void> put_in_place(const std::string& from, const std::string& path);
  std::string checkpoint_of(const std::string& path) const;
  Result<void> drop_torn(HomeManifest& manifest);
  Result<void> make_durable() const;

  const Home& home_;
  const io::SafeDirectory& folder_;
  s3::Client client_;
  std::vector<std::string> kept_;
  std::map<std::string, std::string> torn_;  // paths, and why
  Brought brought_;
};

// True if a file of another history at that path would say how far the job is, or be kept as if it
// were of this one.
bool Bringing::may_be_kept(const std::string& path) const {
  return std::ranges::any_of(kept_, [&](const std::string& root) {
    return path == root || path.starts_with(root + "/") || root.starts_with(path + "/");
  });
}

// Renames what its user cannot remove, such as what a container wrote as root: it is of no home
// then. Names directly in the folder only: elsewhere the user may not be able to rename.
bool Bringing::set_aside(const std::string& name) const {
  int number = 0;
  while (folder_.look(std::string(left_behind) + std::to_string(number))) ++number;
  return folder_.rename(name, folder_, std::string(left_behind) + std::to_string(number))
      .has_value();
}

// Removes what the manifest does not have.
Result<void> Bringing::clear(const HomeManifest& manifest, const std::string& path) {
  const auto at = path.empty() ? folder_.folder("") : folder_.folder(path);
  const auto names = at ? at->names() : tl::unexpected(at.error());
  if (!names) return failure("cannot list " + path + ": " + names.error().message());
  std::size_t left = guard::removals_limit;
  for (const std::string& name : *names) {
    if (path.empty() && is_left_alone(name)) continue;
    const std::string below = path.empty() ? name : path + "/" + name;
    const auto status = at->look(name);
    const auto next = manifest.files.lower_bound(below + "/");
    const bool leads = next != manifest.files.end() && next->first.starts_with(below + "/");
    // The job's own folders stay, if empty: they were laid out for the trainer.
    const bool of_layout = path.empty();
    const bool is_folder = status && S_ISDIR(status->st_mode);
    Result<void> cleared;
    if (is_folder && (leads || of_layout)) {
      cleared = clear(manifest, below);
    } else if (!manifest.files.contains(below) || !status || !S_ISREG(status->st_mode)) {
      guard::remove_any(*at, name, left);
      if (at->look(name))
        cleared = failure("cannot remove " + below + ", which is not of this home");
    }
    if (cleared) continue;
    const bool aside = path.empty() && set_aside(name);
    if (aside && (!is_folder || folder_.make_folder(name, 0755))) continue;
    if (!path.empty() || may_be_kept(name)) return cleared;
  }
  return {};
}

// Removes the mark until all is here, and the code of another home, among which its trainer may
// have written: experiments that are claimed one after the other are in one folder. Code without a
// mark may be any home's, and is fetched again.
Result<void> Bringing::leave_other(bool of_this_home) {
  const std::string mark = std::string(own_folder) + "/" + mark_name;
  std::size_t left = guard::removals_limit;
  if (!of_this_home) guard::remove_any(folder_, code_folder, left);
  if (!of_this_home && folder_.look(code_folder) && !set_aside(code_folder))
    return failure("cannot remove " + std::string(code_folder) + ", which is of another home");
  if (!folder_.look(mark) || folder_.remove(mark)) return {};
  return failure("cannot remove " + mark);
}

bool Bringing::is_here(const Each& file, bool newer) const {
  const auto status = folder_.look(file.first);
  if (!status || !S_ISREG(status->st_mode)) return false;
  const auto found = guard::found({}, *status);
  const bool as_kept = found.bytes == file.second.bytes && found.mtime_ns == file.second.mtime_ns;
  // Also where what is here is newer: after a power cut a file may have all but its bytes.
  if (!as_kept) return newer;
  const auto opened = folder_.file(file.first, O_RDONLY);
  if (!opened || file.second.bytes == 0) return opened.has_value();
  void* data = ::mmap(nullptr, file.second.bytes, PROT_READ, MAP_SHARED, opened->get(), 0);
  if (data == MAP_FAILED) return false;
  const auto sum =
      checkpoint::sum_of(std::string_view(static_cast<const char*>(data), file.second.bytes));
  ::munmap(data, file.second.bytes);
  return sum == file.second.sum;
}

Result<void> Bringing::fetch(const std::vector<const Each*>& files) {
  for (std::size_t first = 0; first < files.size();) {
    std::size_t count = 0;
    std::uint64_t bytes = 0;
    do {
      bytes += files[first + count]->second.bytes;
      ++count;
    } while (first + count < files.size() && count < most_brought_at_once &&
             bytes + files[first + count]->second.bytes <= most_bytes_brought_at_once);
    auto fetched = fetch_together(std::span(files).subspan(first, count));
    if (!fetched) return fetched;
    first += count;
  }
  return {};
}

Result<void> Bringing::fetch_together(std::span<const Each* const> files) {
  std::vector<Target> targets;
  targets.reserve(files.size());
  std::size_t open = 0;
  std::optional<s3::Failure> failed;
  std::vector<s3::Client::CallId> calls;
  const std::string folder = std::string(fetching) + "/";
  for (std::size_t i = 0; i < files.size(); ++i) {
    auto target = Target::make(folder_, folder + std::to_string(i), files[i]->second);
    if (!target) {
      for (const auto call : calls) client_.drop(call);
      return tl::unexpected(target.error());
    }
    targets.push_back(*std::move(target));
    const auto whole = targets.back().bytes();
    for (std::size_t at = 0; at < whole.size(); at += brought_piece) {
      s3::Request request{.bucket = home_.at.bucket, .key = home_.at.key + files[i]->second.key()};
      request.into = whole.subspan(at, std::min(brought_piece, whole.size() - at));
      request.offset = at;
      ++open;
      calls.push_back(client_.start(std::move(request), [&, i](const auto& answer) {
        --open;
        if (answer) return;
        using Kind = s3::Failure::Kind;
        const s3::Failure& why = answer.error();
        const bool torn = why.kind == Kind::NoSuchKey || why.kind == Kind::Changed ||
                          why.kind == Kind::Corrupt || why.status == range_beyond_the_end;
        if (torn) torn_.emplace(files[i]->first, why.text());
        if (!torn && !failed) failed = why;
      }));
    }
  }
  while (open > 0 && !failed) client_.turn(std::chrono::seconds(1));
  for (const auto call : calls) client_.drop(call);
  if (failed) return failed_at_s3(*failed);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& [path, file] = *files[i];
    const auto bytes = targets[i].bytes();
    const bool whole = checkpoint::sum_of({bytes.data(), bytes.size()}) == file.sum;
    if (!whole) torn_.emplace(path, path + " has a wrong sum in the bucket");
    targets[i].date(file);
    const std::string name = folder + std::to_string(i);
    if (torn_.contains(path)) {
      (void)folder_.remove(name);
      continue;
    }
    if (auto placed = put_in_place(name, path); !placed) return placed;
    ++brought_.files;
    brought_.bytes += file.bytes;
  }
  return {};
}

// Those that lead to it.
Result<void> Bringing::make_folders(const std::string& path) {
  for (auto slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1)) {
    const auto made = folder_.make_folder(path.substr(0, slash), 0755);
    if (!made) return failure("cannot make the folder of " + path + ": " + made.error().message());
  }
  return {};
}

Result<void> Bringing::put_in_place(const std::string& from, const std::string& path) {
  if (auto made = make_folders(path); !made) return made;
  const auto moved = folder_.rename(from, folder_, path);
  if (!moved) return failure("cannot make " + path + ": " + moved.error().message());
  return {};
}

// The file or folder directly below the checkpoints' directory; empty: it is of none.
std::string Bringing::checkpoint_of(const std::string& path) const {
  const std::string begin = home_.checkpoints + "/";
  if (!path.starts_with(begin)) return {};
  return path.substr(0, path.find('/', begin.size()));
}

// A checkpoint is there as a whole or not at all; without its ledger no job may begin.
Result<void> Bringing::drop_torn(HomeManifest& manifest) {
  std::set<std::string> all, broken;
  for (const auto& [path, file] : manifest.files)
    if (auto name = checkpoint_of(path); !name.empty()) all.insert(std::move(name));
  std::size_t left = guard::removals_limit;
  for (const auto& [path, why] : torn_) {
    const std::string name = checkpoint_of(path);
    if (name.empty() && path == std::string(own_folder) + "/ledger.json")
      return failure("the job's ledger in the bucket is torn: " + why);
    if (!name.empty() && !broken.insert(name).second) continue;
    brought_.torn.push_back((name.empty() ? path : name) + " is torn in the bucket: " + why);
    manifest.files.erase(path);
    if (!name.empty()) guard::remove_any(folder_, name, left);
  }
  if (!broken.empty()) manifest.newest = -1;  // nobody knows: the files do not say their steps
  std::erase_if(manifest.files, [&](const Each& file) {
    const std::string name = checkpoint_of(file.first);
    return !name.empty() && broken.contains(name);
  });
  if (!all.empty() && broken.size() == all.size())
    return failure("all checkpoints in " + wire::to_url(home_.at) +
                   " are torn: remove what lies below it to begin from scratch");
  return {};
}

Result<Brought> Bringing::bring(const std::string& name, std::uint32_t held) {
  const auto mark = read_mark(home_, folder_);
  const bool newer = mark && (mark->epoch == home_.epoch || (held != 0 && mark->epoch == held));
  HomeManifest manifest{home_.job, -1, {}};
  if (!name.empty()) {
    auto read = read_manifest(client_, home_, name);
    if (!read) return tl::unexpected(read.error());
    manifest = *std::move(read);
  }
  std::size_t left = guard::removals_limit;
  guard::remove_any(folder_, fetching, left);  // of one that was interrupted
  if (const auto own = folder_.make_folder(own_folder, 0755); !own)
    return failure("cannot make " + std::string(own_folder) + ": " + own.error().message());
  brought_.cleared = !newer || mark->cleared;
  if (!newer) {
    if (auto left_it = leave_other(mark.has_value()); !left_it)
      return tl::unexpected(left_it.error());
    if (auto cleared = clear(manifest, ""); !cleared) return tl::unexpected(cleared.error());
    if (auto cleared = clear(manifest, own_folder); !cleared)
      return tl::unexpected(cleared.error());
    if (auto made = make_folders(home_.checkpoints + "/"); !made)
      return tl::unexpected(made.error());
  }
  std::vector<const Each*> missing;
  for (const Each& file : manifest.files)
    if (!is_here(file, newer)) missing.push_back(&file);
  if (const auto made = folder_.make_folder(fetching, 0755); !made)
    return failure("cannot make " + std::string(fetching) + ": " + made.error().message());
  const auto fetched = fetch(missing);
  guard::remove_any(folder_, fetching, left);
  if (!fetched) return tl::unexpected(fetched.error());
  if (auto dropped = drop_torn(manifest); !dropped) return tl::unexpected(dropped.error());
  if (auto durable = make_durable(); !durable) return tl::unexpected(durable.error());
  const Mark made{home_.epoch, name, std::move(manifest), brought_.cleared};
  if (auto marked = write_mark(home_, folder_, made); !marked)
    return tl::unexpected(marked.error());
  return brought_;
}

// Nothing says that the files are here before they are durable.
Result<void> Bringing::make_durable() const {
  const auto opened = folder_.open("", O_RDONLY | O_DIRECTORY);
  if (!opened) return failure("cannot open the home: " + opened.error().message());
  if (::syncfs(opened->get()) != 0)
    return failure(std::string("cannot sync the home: ") + std::strerror(errno));
  return {};
}

}  // namespace

Result<Brought> bring(const Home& home, const std::string& manifest, std::uint32_t held) {
  const auto folder = io::SafeDirectory::open(home.folder);
  if (!folder)
    return failure("cannot open " + home.folder.string() + ": " + folder.error().message());
  Bringing bringing(home, *folder);
  auto brought = bringing.bring(manifest, held);
  if (brought) brought->requests = bringing.requests();
  return brought;
}

namespace {

constexpr std::size_t read_whole = 4U << 20;  // what is larger is mapped
// Limits of what is mapped and under way at once; a larger file goes alone.
constexpr std::size_t most_sent_at_once = 256;
constexpr std::uint64_t most_bytes_sent_at_once = std::uint64_t{1} << 30;

bool is_of_s3(const Error& error) { return error.kind.starts_with("s3"); }

std::int64_t mtime_of(const struct stat& status) { return guard::found({}, status).mtime_ns; }

// A file's bytes, as they were when it was opened: what is appended later is not of it.
class Content {
 public:
  static Result<std::unique_ptr<Content>> open(const io::SafeDirectory& folder,
                                               const Wanted& wanted) {
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
  // A mapped file may have been written to; a log that only grew still has the same bytes.
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
  Keeping(const Home& home, const io::SafeDirectory& folder)
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
  const io::SafeDirectory& folder_;
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

// Reads what is in the bucket: what is committed, and what this epoch brought for a commit that
// failed.
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

// The file as it was kept last, if its size and time are the same: nothing is read.
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
  // A trainer with a format of its own leaves some when it ends.
  const bool left = whole && inventory->checkpoints.empty() &&
                    std::ranges::any_of(inventory->others, [&](const Wanted& wanted) {
                      return wanted.path.starts_with(home_.checkpoints + "/");
                    });
  // A committed checkpoint is worth more than none, or than an older one: it stays as it is
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
  const auto folder = io::SafeDirectory::open(home.folder);
  if (!folder)
    return failure("cannot open " + home.folder.string() + ": " + folder.error().message());
  Keeping keeping(home, *folder);
  auto kept = keeping.keep(request);
  if (kept) kept->requests = keeping.requests();
  return kept;
}

}  // namespace spotter::tier
