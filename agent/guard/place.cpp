#include "agent/guard/place.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

bool is_numbered(std::string_view name) {
  for (const std::string_view prefix : {"checkpoint-", "checkpoint_", "global_step", "iter_"}) {
    const std::string_view number = name.substr(std::min(prefix.size(), name.size()));
    if (name.starts_with(prefix) && !number.empty() &&
        number.find_first_not_of("0123456789") == std::string_view::npos)
      return true;
  }
  return false;
}

}  // namespace

// What JSON cannot hold as it is, the record cannot.
bool is_one(const Beneath& folder, const std::string& name) {
  if (is_numbered(name)) return true;
  // Not optimizer.pt: a plain loop of PyTorch's names a file so, too.
  constexpr std::array<const char*, 11> files = {"trainer_state.json",
                                                 "training_args.bin",
                                                 "model.safetensors.index.json",
                                                 "pytorch_model.bin.index.json",
                                                 "adapter_config.json",
                                                 "random_states_0.pkl",
                                                 ".metadata",
                                                 ".metadata.tmp",
                                                 "__0_0.distcp",
                                                 "mp_rank_00_model_states.pt",
                                                 "_CHECKPOINT_METADATA"};
  return std::ranges::any_of(files,
                             [&folder](const char* file) { return folder.look(file).has_value(); });
}

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

Result<Beneath, std::error_code> Place::parent(const std::string& name) const {
  return mount_.parent(shown(name));
}

struct Place::Walk {
  std::vector<Found> files;
  std::vector<std::string>* folders;
  std::vector<std::string>* ones;
};

Result<std::vector<Found>> Place::list(std::vector<std::string>* folders,
                                       std::vector<std::string>* ones) const {
  Walk into{{}, folders, ones};
  if (auto walked = walk("", 0, into); !walked) return tl::unexpected(walked.error());
  std::ranges::sort(into.files, {}, &Found::name);
  return std::move(into.files);
}

Result<void> Place::walk(const std::string& folder, int depth, Walk& into) const {
  const auto wrong = [&](const std::error_code& error, const std::string& name) {
    return failure("cannot list " + (where_.mount / shown(name)).string() + ": " + error.message());
  };
  const auto opened = this->folder(folder);
  if (!opened && is_out_of_place(opened.error().value())) return {};
  if (!opened) return wrong(opened.error(), folder);
  if (!folder.empty() && is_one(*opened, last_component(folder))) {
    if (into.ones != nullptr) into.ones->push_back(folder);
    return {};
  }
  if (into.folders != nullptr) into.folders->push_back(folder);
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
      into.files.push_back(found(path, *status));
    if (into.files.size() > files_limit) {
      walked =
          failure("more than " + std::to_string(files_limit) + " files match '" + where_.files +
                  "' in " + where_.directory + "; give checkpoints.files a narrower pattern");
    } else if (S_ISDIR(status->st_mode) && depth < depth_limit) {
      walked = walk(path, depth + 1, into);
    }
    return walked.has_value();
  });
  if (walked && !listed) return wrong(listed.error(), folder);
  return walked;
}

Result<Beneath, std::error_code> Place::folder(const std::string& name) const {
  return mount_.folder(name.empty() ? where_.directory : shown(name));
}

Result<std::vector<std::string>> Place::folders() const {
  std::vector<std::string> names;
  const auto opened = folder("");
  if (!opened && is_out_of_place(opened.error().value())) return names;
  std::error_code wrong = opened ? std::error_code() : opened.error();
  const auto listed =
      !opened ? Result<void, std::error_code>() : opened->each_name([&](const auto& name) {
        if (!matches(where_.folders, name)) return true;
        const auto status = opened->look(name);
        if (!status && !is_out_of_place(status.error().value())) wrong = status.error();
        if (status && S_ISDIR(status->st_mode)) names.push_back(name);
        return !wrong && names.size() <= units_limit;
      });
  if (!listed) wrong = listed.error();
  if (wrong) {
    return failure("cannot list " + (where_.mount / where_.directory).string() + ": " +
                   wrong.message());
  }
  std::ranges::sort(names);
  return names;
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

Result<Beneath, std::error_code> Place::own() const {
  auto opened = mount_.folder(own_directory);
  if (!opened || !is_root()) return opened;
  const auto status = opened->status();
  if (!status) return tl::unexpected(status.error());
  if (status->st_uid == 0) return opened;
  return tl::unexpected(std::make_error_code(std::errc::operation_not_permitted));
}

Result<Beneath, std::error_code> Place::own(const std::string& name) const {
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
