#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>

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
  static Result<Target> make(const io::Beneath& folder, const std::string& name,
                             const KeptFile& file) {
    Target target;
    auto made = folder.file(name, O_RDWR | O_CREAT | O_EXCL, 0644);
    if (!made) return failure("cannot make " + name + ": " + made.error().message());
    target.file_ = *std::move(made);
    target.bytes_ = file.bytes;
    if (file.bytes == 0) return target;
    // Where there is no room the kernel says so now, and not by a SIGBUS later.
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
  // Where what is kept has a time, a framework's order of writing can be seen by the times alone.
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
  Bringing(const Home& home, const io::Beneath& folder)
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
  const io::Beneath& folder_;
  s3::Client client_;
  std::vector<std::string> kept_;
  std::map<std::string, std::string> torn_;  // paths, and why
  Brought brought_;
};

// What says how far a job is, of another history, or would be kept as if it were of this one.
bool Bringing::may_be_kept(const std::string& path) const {
  return std::ranges::any_of(kept_, [&](const std::string& root) {
    return path == root || path.starts_with(root + "/") || root.starts_with(path + "/");
  });
}

// What its user cannot remove, such as what a container wrote as root, and can still rename: it is
// of no home then. Of the folder itself, as only there the name is always this user's to change.
bool Bringing::set_aside(const std::string& name) const {
  int number = 0;
  while (folder_.look(std::string(left_behind) + std::to_string(number))) ++number;
  return folder_.rename(name, folder_, std::string(left_behind) + std::to_string(number))
      .has_value();
}

// Of a mirror: what the manifest does not have goes.
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

// Until all is here nothing says that it is. What another home's trainer wrote among its code is
// not this one's: experiments that are claimed one after the other are in one folder. Without a
// mark nobody knows whose it is, and it is fetched again.
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
  const auto folder = io::Beneath::open(home.folder);
  if (!folder)
    return failure("cannot open " + home.folder.string() + ": " + folder.error().message());
  Bringing bringing(home, *folder);
  auto brought = bringing.bring(manifest, held);
  if (brought) brought->requests = bringing.requests();
  return brought;
}

}  // namespace spotter::tier
