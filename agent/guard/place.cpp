#include "agent/guard/place.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <thread>

#include "agent/supervise/run_directory.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

constexpr int depth_limit = 32;
constexpr std::size_t files_limit = 100'000;  // each costs a look at every start
constexpr const char* own_directory = ".spotter";

}  // namespace

bool is_of_libspotter(const std::string& name) {
  const std::string last = last_component(name);
  if (last == checkpoint::kLockName || last.starts_with(checkpoint::kClaimName)) return true;
  const auto slash = name.rfind('/');
  if (slash == std::string::npos || name.substr(slash + 1) != checkpoint::kManifestName)
    return false;
  return checkpoint::step_of(last_component(name.substr(0, slash))).has_value();
}

std::vector<std::string> folders_above(const std::string& name) {
  std::vector<std::string> folders;
  for (auto end = name.rfind('/'); end != std::string::npos && end > 0;
       end = name.rfind('/', end - 1))
    folders.push_back(name.substr(0, end));
  return folders;
}

bool is_out_of_place(int code) { return checkpoint::is_absence(code) || code == EXDEV; }

bool matches(const std::string& patterns, const std::string& path) {
  std::istringstream words(patterns);
  const std::string name = last_component(path);
  for (std::string pattern; words >> pattern;) {
    if (::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0) return true;
  }
  return false;
}

Found found(const std::string& name, const struct stat& status) {
  const auto in_ns = [](const timespec& time) {
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {name, static_cast<std::uint64_t>(status.st_size), in_ns(status.st_mtim),
          in_ns(status.st_ctim)};
}

Result<Place> Place::open(Where where) {
  auto mount = SafeDirectory::open(where.mount);
  if (!mount) {
    return failure("cannot open the directory " + where.mount.string() + ": " +
                   mount.error().message());
  }
  return Place(std::move(where), *std::move(mount));
}

Descriptor Place::open(const std::string& name, int flags) const {
  auto opened = mount_.open(name.empty() ? where_.directory : shown(name), flags);
  if (opened) return *std::move(opened);
  errno = opened.error().value();
  return Descriptor();
}

Result<SafeDirectory, std::error_code> Place::parent(const std::string& name) const {
  return mount_.parent(shown(name));
}

Result<struct stat, std::error_code> Place::look(const std::string& name) const {
  return mount_.look(shown(name));
}

const Member* Listing::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(members, name, {}, &Member::name);
  return at != members.end() && at->name == name ? &*at : nullptr;
}

Result<Listing> Place::list() const {
  Listing listing;
  if (where_.of_all() && where_.directory == ".")
    return Listing{.folders = {""}, .left_alone = "it is all of the storage"};
  auto walked = walk("", 0, listing);
  if (where_.of_all() && listing.members.size() > files_limit) {
    listing.left_alone = "more than " + std::to_string(files_limit) + " files are there";
    walked = {};
  }
  if (!walked) return tl::unexpected(walked.error());
  std::erase_if(listing.members, [&](Member& each) {
    each.role = role(each.name, listing);
    const bool link = !each.link.empty();
    return each.role == Role::None ||
           (each.role == Role::Companion && !link && each.bytes > companion_limit);
  });
  std::ranges::sort(listing.members, {}, &Member::name);
  std::ranges::sort(listing.folders);
  return listing;
}

Role Place::role(const std::string& name, const Listing& listing) const {
  const auto slash = name.find('/');
  const bool outermost = slash == std::string::npos;
  if (!where_.folders.empty()) {
    if (outermost) return Role::Companion;
    return matches(where_.folders, name.substr(0, slash)) ? Role::Member : Role::None;
  }
  if (where_.files.empty() || matches(where_.files, name)) return Role::Member;
  if (outermost) return Role::Companion;
  const std::string folder = name.substr(0, name.rfind('/'));
  if (listing.whole.contains(folder)) return Role::Member;
  return listing.above.contains(folder) ? Role::Companion : Role::None;
}

Result<void> Place::walk(const std::string& folder, int depth, Listing& into) const {
  const auto wrong = [&](const std::error_code& error, const std::string& name) {
    return failure("cannot list " + (where_.mount / shown(name)).string() + ": " + error.message());
  };
  const auto opened = this->folder(folder);
  if (!opened && is_out_of_place(opened.error().value())) return {};
  if (!opened) return wrong(opened.error(), folder);
  into.folders.push_back(folder);
  Result<void> walked;
  std::vector<std::string> inner;
  const auto listed = opened->each_name([&](const std::string& name) {
    const std::string path = folder.empty() ? name : folder + "/" + name;
    if (path == own_directory && where_.directory == ".") return true;
    const auto status = opened->look(name);
    if (!status) {
      if (!is_out_of_place(status.error().value())) walked = wrong(status.error(), path);
      return walked.has_value();
    }
    if (S_ISDIR(status->st_mode)) {
      if (where_.folders.empty() || depth > 0 || matches(where_.folders, name))
        inner.push_back(path);
    } else if (S_ISREG(status->st_mode) || S_ISLNK(status->st_mode)) {
      if (where_.of_all() && is_of_libspotter(path)) into.left_alone = libspotter_saves;
      Member member{found(path, *status)};
      if (S_ISLNK(status->st_mode)) member.link = opened->read_link(name).value_or("");
      if (S_ISLNK(status->st_mode) && member.link.empty()) return true;
      into.members.push_back(std::move(member));
      const bool is_plain = !folder.empty() && !into.whole.contains(folder);
      if (is_plain && role(path, into) == Role::Member) {
        into.whole.insert(folder);
        for (std::string& above : folders_above(folder)) into.above.insert(std::move(above));
      }
    }
    if (into.members.size() > files_limit)
      walked = failure("more than " + std::to_string(files_limit) + " files are in " +
                       where_.directory + "; give checkpoints.files a narrower pattern");
    return walked.has_value();
  });
  if (walked && !listed) return wrong(listed.error(), folder);
  for (const std::string& each : inner) {
    if (!walked || depth >= depth_limit) break;
    walked = walk(each, depth + 1, into);
  }
  return walked;
}

std::string Place::patterns() const {
  return where_.directory +
         (where_.folders.empty() ? " files " + where_.files : " folders " + where_.folders);
}

Result<SafeDirectory, std::error_code> Place::folder(const std::string& name) const {
  return mount_.folder(name.empty() ? where_.directory : shown(name));
}

void Place::sync_log() const {
  for (std::string name : mount_.matching(where_.log, logs_limit)) {
    const auto file = mount_.file(name, O_RDONLY);
    if (!file || ::fdatasync(file->get()) != 0) continue;
    for (auto end = name.size(); end != name.npos; end = name.rfind('/')) {
      name.resize(end);
      if (const auto above = mount_.parent(name)) (void)above->sync();
    }
  }
}

bool Place::is_root() const { return ::geteuid() == 0 && !where_.as_trainer; }

Result<SafeDirectory, std::error_code> Place::own() const {
  auto opened = mount_.folder(own_directory);
  if (!opened || !is_root()) return opened;
  const auto status = opened->status();
  if (!status) return tl::unexpected(status.error());
  if (status->st_uid == 0) return opened;
  return tl::unexpected(std::make_error_code(std::errc::operation_not_permitted));
}

Result<SafeDirectory, std::error_code> Place::own(const std::string& name) const {
  const auto above = TRY(own());
  return above.make_folder(name, 0755);
}

fs::path Place::shown_own(const std::string& name) const {
  return where_.mount / own_directory / name;
}

bool Place::is_trainers(const struct stat& status) const {
  if (!is_root() || status.st_nlink == 1) return true;
  const auto folder = mount_.folder(where_.directory);
  const auto its = folder ? folder->status() : tl::unexpected(folder.error());
  return its && its->st_uid == status.st_uid;
}

namespace {

constexpr std::chrono::milliseconds between_looks(100);

Result<Descriptor, std::error_code> open_lock(const Place& place, const char* name) {
  const auto own = TRY(place.own());
  return own.file(name, O_RDWR | O_CREAT, supervise::private_mode);
}

}  // namespace

Result<Descriptor> lock_as_guard(const Place& place, std::chrono::milliseconds patience) {
  auto mine = open_lock(place, guards_lock);
  Descriptor held;
  if (mine && supervise::try_lock(*mine)) held = *std::move(mine);
  const auto other = open_lock(place, persons_lock);
  for (auto left = patience; other && supervise::is_locked(*other); left -= between_looks) {
    if (left <= std::chrono::milliseconds(0))
      return failure("`spotter checkpoints` is at work in " + place.where().mount.string());
    std::this_thread::sleep_for(between_looks);
  }
  return held;
}

Result<Descriptor> lock_as_person(const Place& place) {
  const std::string home = place.where().mount.string();
  auto mine = open_lock(place, persons_lock);
  const auto guards = mine ? open_lock(place, guards_lock) : tl::unexpected(mine.error());
  if (!guards) {
    const bool rights = guards.error() == std::errc::permission_denied;
    return failure("cannot lock the checkpoints of " + home + ": " + guards.error().message() +
                   (rights ? "; run it as whoever owns " + place.shown_own("").string() : ""));
  }
  if (!supervise::try_lock(*mine)) {
    return failure(supervise::is_locked(*mine)
                       ? "another `spotter checkpoints` is at work in " + home
                       : "the file system of " + home +
                             " has no locks: whether a guard is at work there is not known");
  }
  if (supervise::is_locked(*guards))
    return failure("a guard watches the checkpoints of " + home +
                   ": stop its trainer first (`spotter status` shows the job)");
  return *std::move(mine);
}

}  // namespace spotter::guard
