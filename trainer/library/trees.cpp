#include "trainer/library/trees.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "trainer/library/files.hpp"

namespace spotter::checkpoint {

namespace fs = std::filesystem;

namespace {

// All names are read before one is removed: a share may leave some out of a listing that changes.
std::vector<std::string> names_in(Descriptor folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::fdopendir(folder.get()), ::closedir);
  if (!listing) return {};
  folder.release();  // closedir() closes it
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  return names;
}

Descriptor folder_at(int directory, const char* name) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  return Descriptor(::openat(directory, name, kFlags));
}

bool remove_at(int directory, const std::string& name) {
  if (::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return true;
  if (errno != EISDIR && errno != EPERM) return false;  // of a folder Linux, and POSIX
  const int refused = errno;
  const Descriptor folder = folder_at(directory, name.c_str());
  if (!folder) {
    if (errno == ENOTDIR || errno == ELOOP) errno = refused;
    return false;
  }
  int first = 0;
  for (const auto& each : names_in(folder_at(folder.get(), ".")))
    if (!remove_at(folder.get(), each) && first == 0) first = errno;
  if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return true;
  if (first != 0) errno = first;
  return false;
}

Result<std::uint64_t> sync_file(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return system_failure("cannot open", path);
  if (::fsync(file.get()) != 0) return write_failure("cannot make durable", path, file.get());
  return static_cast<std::uint64_t>(status.st_size);
}

Result<void> sync_folder(const fs::path& path) {
  auto directory = open_directory(path);
  if (!directory) return tl::unexpected(directory.error());
  return sync_directory(directory->get(), path);
}

struct Tree {
  std::vector<fs::path> folders, files;
};

// A name that is gone by now is left out, as is all that is neither a file nor a folder.
Result<void> add(const fs::path& path, Tree& tree) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0)
    return errno == ENOENT ? Result<void>{} : system_failure("cannot look at", path);
  if (S_ISDIR(status.st_mode)) tree.folders.push_back(path);
  if (S_ISREG(status.st_mode)) tree.files.push_back(path);
  return {};
}

Result<Tree> tree_of(const fs::path& top) {
  Tree tree{{top}, {}};
  for (std::size_t at = 0; at < tree.folders.size(); ++at) {
    const fs::path folder = tree.folders[at];  // a copy: add() moves them
    const auto names = list_names(folder);
    if (!names) return tl::unexpected(names.error());
    for (const auto& name : *names)
      if (auto added = add(folder / name, tree); !added) return tl::unexpected(added.error());
  }
  return tree;
}

}  // namespace

bool remove_tree(const fs::path& path) { return remove_at(AT_FDCWD, path.string()); }

Result<std::uint64_t> make_durable(const fs::path& path) {
  std::error_code code;
  const fs::path absolute = fs::absolute(path, code).lexically_normal();
  const fs::path clean = absolute.has_filename() ? absolute : absolute.parent_path();
  struct stat status {};
  const bool is_folder = ::lstat(clean.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  auto tree = is_folder ? tree_of(clean) : Tree{{}, {clean}};
  if (!tree) return tl::unexpected(tree.error());
  tree->folders.insert(tree->folders.begin(), clean.parent_path());
  std::uint64_t bytes = 0;
  for (const auto& file : tree->files) {
    auto synced = sync_file(file);
    if (!synced) return synced;
    bytes += *synced;
  }
  for (const auto& folder : tree->folders) {
    if (auto synced = sync_folder(folder); !synced) return tl::unexpected(synced.error());
  }
  return bytes;
}

}  // namespace spotter::checkpoint
