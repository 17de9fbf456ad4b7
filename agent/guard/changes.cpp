#include "agent/guard/changes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <utility>

namespace spotter::guard {
namespace {

constexpr std::size_t folders_limit = 4096;

bool is_one_of(std::uint32_t mask, std::uint32_t wanted) { return (mask & wanted) != 0; }

// With the newest member first: old folders hardly change, and the next start looks at them.
std::vector<std::string> newest_first(const Listing& listing) {
  std::map<std::string, std::int64_t> newest;
  for (const Member& member : listing.members)
    for (const std::string& folder : folders_above(member.name)) {
      std::int64_t& time = newest[folder];
      time = std::max(time, member.mtime_ns);
    }
  std::vector<std::string> folders = listing.folders;
  std::ranges::stable_sort(folders, std::greater(), [&newest](const std::string& folder) {
    const auto at = newest.find(folder);
    // One without a file was made just now.
    return at == newest.end() ? std::numeric_limits<std::int64_t>::max() : at->second;
  });
  if (folders.size() > folders_limit) folders.resize(folders_limit);
  return folders;
}

}  // namespace

Result<void> Changes::watch_folder(const std::string& folder) {
  const Descriptor opened = place_.open(folder, O_PATH | O_DIRECTORY);
  if (!opened) return {};  // gone already
  const std::string path = "/proc/self/fd/" + std::to_string(opened.get());
  const int watch =
      ::inotify_add_watch(inotify_.get(), path.c_str(),
                          IN_CLOSE_WRITE | IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM |
                              IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
  if (watch < 0 && errno == ENOSPC) {
    return failure(
        "too many folders are watched on this machine; raise the sysctl "
        "fs.inotify.max_user_watches");
  }
  if (watch < 0)
    return failure("cannot watch " + place_.shown(folder) + ": " + std::strerror(errno));
  folders_[watch] = folder;
  return {};
}

Result<Listing> Changes::watch() {
  // Again: the watch of a folder that was moved keeps its old name.
  inotify_ = Descriptor(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify_)
    return failure("cannot watch " + place_.where().directory + ": " + std::strerror(errno));
  folders_.clear();
  // The outer ones first, each before its files are looked at; until no new folder turns up.
  for (std::vector<std::string> before;;) {
    auto listing = place_.list();
    if (!listing || listing->folders == before) return listing;
    for (const std::string& folder : newest_first(*listing)) {
      if (auto watched = watch_folder(folder); !watched) return tl::unexpected(watched.error());
    }
    before = listing->folders;
  }
}

bool Changes::is_link(const std::string& name) const {
  const auto status = place_.look(name);
  return status && S_ISLNK(status->st_mode);
}

// REQUIRES: `name` is the event's own, which may be longer than its type says.
void Changes::take(const inotify_event& event, const char* name,
                   std::vector<Change>& changes) const {
  const bool folder = is_one_of(event.mask, IN_ISDIR) && event.len > 0;
  const bool itself = is_one_of(event.mask, IN_DELETE_SELF | IN_MOVE_SELF);
  if (folder || itself || is_one_of(event.mask, IN_Q_OVERFLOW)) {
    changes.push_back({Change::Kind::Folders, {}});
    return;
  }
  const auto known = folders_.find(event.wd);
  if (known == folders_.end() || event.len == 0) return;
  const std::string path = known->second.empty() ? name : known->second + "/" + name;
  // Nobody closes a link.
  const bool link = is_one_of(event.mask, IN_CREATE) && is_link(path);
  const bool closed = link || is_one_of(event.mask, IN_CLOSE_WRITE | IN_MOVED_TO);
  const auto kind = closed                                             ? Change::Kind::Closed
                    : is_one_of(event.mask, IN_DELETE | IN_MOVED_FROM) ? Change::Kind::Removed
                                                                       : Change::Kind::Modified;
  changes.push_back({kind, path});
}

std::vector<Change> Changes::read() {
  std::vector<Change> changes;
  alignas(inotify_event) std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (got <= 0) return changes;
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      take(*event, event->name, changes);
    }
  }
}

}  // namespace spotter::guard
