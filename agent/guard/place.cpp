#include "agent/guard/place.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>

#include "trainer/library/files.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

constexpr int depth_limit = 32;
constexpr std::size_t files_limit = 100'000;  // each costs a look; more are no checkpoints
constexpr const char* own_directory = ".spotter";

// What JSON cannot hold as it is, the record cannot: not UTF-8, control characters, quotes.
bool is_plain(const std::string& text) {
  return text.find_first_of("\"\\") == std::string::npos &&
         nlohmann::json::accept("\"" + text + "\"");
}

}  // namespace

bool is_out_of_place(int code) { return checkpoint::is_absence(code) || code == EXDEV; }

bool matches(const std::string& patterns, const std::string& path) {
  std::istringstream words(patterns);
  const std::string name = last_component(path);
  if (!is_plain(path)) return false;
  for (std::string pattern; words >> pattern;) {
    if (::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0) return true;
  }
  return false;
}

Found found(const std::string& name, const struct stat& status) {
  return {name, static_cast<std::uint64_t>(status.st_size),
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

Result<Place> Place::open(Where where) {
  auto mount = Beneath::open(where.mount);
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

io::Expected<Beneath> Place::parent(const std::string& name) const {
  return mount_.parent(shown(name));
}

Result<std::vector<Found>> Place::list(std::vector<std::string>* folders) const {
  std::vector<Found> files;
  if (auto walked = walk("", 0, files, folders); !walked) return tl::unexpected(walked.error());
  std::sort(files.begin(), files.end(),
            [](const Found& a, const Found& b) { return a.name < b.name; });
  return files;
}

Result<void> Place::walk(const std::string& folder, int depth, std::vector<Found>& files,
                         std::vector<std::string>* folders) const {
  const auto wrong = [&](const std::error_code& error, const std::string& name) {
    return failure("cannot list " + (where_.mount / shown(name)).string() + ": " + error.message());
  };
  const auto opened = mount_.folder(folder.empty() ? where_.directory : shown(folder));
  if (!opened && is_out_of_place(opened.error().value())) return {};
  if (!opened) return wrong(opened.error(), folder);
  if (folders != nullptr) folders->push_back(folder);
  Result<void> walked;
  // What is there and cannot be looked at is not gone: an incomplete list is none.
  const auto listed = opened->each_name([&](const std::string& name) {
    const std::string path = folder.empty() ? name : folder + "/" + name;
    const auto status = opened->look(name);
    if (!status) {
      if (!is_out_of_place(status.error().value())) walked = wrong(status.error(), path);
      return walked.has_value();
    }
    if (S_ISREG(status->st_mode) && matches(where_.files, name))
      files.push_back(found(path, *status));
    if (files.size() > files_limit) {
      walked =
          failure("more than " + std::to_string(files_limit) + " files match '" + where_.files +
                  "' in " + where_.directory + "; give checkpoints.files a narrower pattern");
    } else if (S_ISDIR(status->st_mode) && depth < depth_limit) {
      walked = walk(path, depth + 1, files, folders);
    }
    return walked.has_value();
  });
  if (walked && !listed) return wrong(listed.error(), folder);
  return walked;
}

bool Place::is_root() const { return ::geteuid() == 0 && !where_.as_trainer; }

io::Expected<Beneath> Place::own() const {
  auto opened = mount_.folder(own_directory);
  if (!opened || !is_root()) return opened;
  const auto status = opened->status();
  if (!status) return tl::unexpected(status.error());
  if (status->st_uid == 0) return opened;
  return tl::unexpected(std::make_error_code(std::errc::operation_not_permitted));
}

io::Expected<Beneath> Place::own(const std::string& name) const {
  const auto above = own();
  if (!above) return tl::unexpected(above.error());
  return above->make_folder(name, 0755);
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

}  // namespace spotter::guard
