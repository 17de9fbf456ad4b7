#include "agent/guard/changes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include "agent/guard/format.hpp"

namespace spotter::guard {
namespace {

constexpr std::size_t folders_limit = 4096;

// A job's last checkpoints come first.
std::pair<std::uint64_t, std::int64_t> newness(const Unit& unit) {
  return {step_in(unit.name).value_or(0), unit.contents ? unit.contents->mtime_ns : 0};
}

bool is_one_of(std::uint32_t mask, std::uint32_t wanted) { return (mask & wanted) != 0; }

}  // namespace

Result<void> Changes::watch_folder(const std::string& folder) {
  // Of folders that are one checkpoint each, list() has left out what goes beyond.
  if (place_.where().folders.empty() && folders_.size() >= folders_limit) {
    return failure("more than " + std::to_string(folders_limit) + " folders to watch in " +
                   place_.where().directory);
  }
  const Descriptor opened = place_.open(folder, O_PATH | O_DIRECTORY);
  if (!opened) return {};  // gone already
  const std::string path = "/proc/self/fd/" + std::to_string(opened.get());
  const std::uint32_t removed = place_.where().folders.empty() ? 0 : IN_DELETE;
  const int watch = ::inotify_add_watch(
      inotify_.get(), path.c_str(),
      IN_CLOSE_WRITE | IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_ONLYDIR | removed);
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

Result<std::vector<Found>> Changes::list(std::vector<std::string>& folders) const {
  if (place_.where().folders.empty()) return place_.list(&folders);
  auto units = list_units(place_);
  if (!units) return tl::unexpected(units.error());
  std::ranges::stable_sort(*units, std::greater(), newness);
  std::vector<Found> found;
  folders.emplace_back();
  for (const Unit& unit : *units) {
    found.push_back({unit.name, unit.contents ? unit.contents->bytes : 0,
                     unit.contents ? unit.contents->mtime_ns : 0});
    if (!unit.contents) continue;  // it is left alone
    // Old ones hardly change, and the next start looks at them; the newest is always watched.
    if (folders.size() > 1 && folders.size() + unit.contents->folders.size() >= folders_limit)
      continue;
    folders.push_back(unit.name);
    for (const std::string& inner : unit.contents->folders)
      folders.push_back(unit.name + "/" + inner);
  }
  std::ranges::sort(folders);  // whoever writes to one changes their order
  return found;
}

Result<std::vector<Found>> Changes::watch() {
  // Again: the watch of a folder that was moved keeps its old name.
  inotify_ = Descriptor(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify_)
    return failure("cannot watch " + place_.where().directory + ": " + std::strerror(errno));
  folders_.clear();
  // The outer ones first, each before its files are looked at; until no new folder turns up.
  for (std::vector<std::string> before;;) {
    std::vector<std::string> folders;
    auto files = list(folders);
    if (!files) return files;
    if (folders == before) return files;
    for (const std::string& folder : folders) {
      if (auto watched = watch_folder(folder); !watched) return tl::unexpected(watched.error());
    }
    before = std::move(folders);
  }
}

// REQUIRES: `name` is the event's own, which may be longer than its type says.
void Changes::take(const inotify_event& event, const char* name,
                   std::vector<Change>& changes) const {
  const bool folder = is_one_of(event.mask, IN_ISDIR) && event.len > 0;
  if (folder || is_one_of(event.mask, IN_Q_OVERFLOW)) {
    changes.push_back({Change::Kind::Folders, {}});
    return;
  }
  const auto known = folders_.find(event.wd);
  if (known == folders_.end() || event.len == 0) return;
  const bool closed = is_one_of(event.mask, IN_CLOSE_WRITE | IN_MOVED_TO);
  if (!place_.where().folders.empty()) {
    if (known->second.empty()) return;  // a file beside the folders
    const bool removed = is_one_of(event.mask, IN_DELETE);
    const auto kind = removed  ? Change::Kind::Removed
                      : closed ? Change::Kind::Closed
                               : Change::Kind::Modified;
    changes.push_back({kind, known->second.substr(0, known->second.find('/'))});
    return;
  }
  const std::string path = known->second.empty() ? name : known->second + "/" + name;
  if (!matches(place_.where().files, path)) return;
  if (!closed && !is_one_of(event.mask, IN_MODIFY | IN_CREATE)) return;
  changes.push_back({closed ? Change::Kind::Closed : Change::Kind::Modified, path});
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
