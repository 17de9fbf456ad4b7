#include "trainer/library/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>

namespace spotter::checkpoint {

namespace {

constexpr std::size_t kReadAtOnce = std::size_t{1}
                                    << 20;  // bytes a read(); large enough for any disk

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
  auto directory = TRY(open_directory(path));
  return sync_directory(directory.get(), path);
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
    const auto names = TRY(list_names(folder));
    for (const auto& name : names) TRY(add(folder / name, tree));
  }
  return tree;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);  // errors of writes were checked before
}

tl::unexpected<Error> system_failure(std::string_view what, const fs::path& path) {
  const int code = errno;
  const std::string reason = std::system_category().message(code);
  auto failed = failure(std::string(what) + " " + path.string() + ": " + reason);
  errno = code;
  return failed;
}

tl::unexpected<Error> write_failure(std::string_view what, const fs::path& path, int file) {
  const int code = errno;
  auto failed = system_failure(what, path);
  struct statvfs space {};
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 20;  // a file system with less left is full
  const bool full = ::fstatvfs(file, &space) == 0 && space.f_blocks > 0 &&
                    std::uint64_t{space.f_bavail} * space.f_frsize < kLeast;
  if (full && code != ENOSPC) failed.value().message += " (no room is left)";
  errno = code;
  return failed;
}

Result<void> write_at(int file, std::string_view bytes, std::size_t at, const fs::path& shown) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return write_failure("cannot write", shown, file);
    bytes.remove_prefix(static_cast<std::size_t>(written));
    at += static_cast<std::size_t>(written);
  }
  return {};
}

Result<Descriptor> open_directory(const fs::path& path) {
  Descriptor opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return system_failure("cannot open the directory", path);
  return opened;
}

Result<void> write_new_file(int directory, const std::string& name, std::string_view bytes,
                            const fs::path& shown) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  Descriptor file(::openat(directory, name.c_str(), kFlags, 0644));
  if (!file) return system_failure("cannot create", shown);
  TRY(write_at(file.get(), bytes, 0, shown));
  if (::fsync(file.get()) != 0) return write_failure("cannot make durable", shown, file.get());
  // close() reports late write errors of network file systems.
  if (::close(file.release()) != 0) return system_failure("cannot close", shown);
  return {};
}

Result<void> sync_directory(int directory, const fs::path& shown) {
  if (::fsync(directory) != 0) return system_failure("cannot make durable", shown);
  return {};
}

Result<void> make_directories(const fs::path& path) {
  std::error_code ignored;
  if (path.empty() || fs::is_directory(path, ignored)) return {};
  const fs::path absolute = fs::absolute(path, ignored).lexically_normal();
  const fs::path clean = absolute.has_filename() ? absolute : absolute.parent_path();
  TRY(make_directories(clean.parent_path()));
  if (::mkdir(clean.c_str(), 0755) != 0 && errno != EEXIST)
    return system_failure("cannot create the directory", clean);
  auto parent = TRY(open_directory(clean.parent_path()));
  return sync_directory(parent.get(), clean.parent_path());
}

bool is_mostly_unwritten(int file) {
  constexpr std::uint64_t kSmall = std::uint64_t{1} << 30;  // read within a second in any case
  constexpr std::uint64_t kPart = 64;                       // no learned state compresses so well
  struct stat status {};
  struct statvfs space {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes <= kSmall) return false;
  if (static_cast<std::uint64_t>(status.st_blocks) * 512 < bytes / kPart) return true;
  return ::fstatvfs(file, &space) == 0 && space.f_blocks > 0 &&
         bytes / space.f_frsize > space.f_blocks;
}

Result<std::uint64_t> read_pieces(const fs::path& path,
                                  const std::function<void(std::string_view)>& sink, int* code,
                                  std::uint64_t most) {
  const auto failed = [&](std::string_view what) {
    if (code != nullptr) *code = errno;
    return system_failure(what, path);
  };
  const auto wrong = [&](const std::string& what) {
    if (code != nullptr) *code = 0;
    return failure(path.string() + " " + what);
  };
  // Non-blocking, so that a FIFO in place of a part cannot block.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return failed("cannot open");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed("cannot look at");
  const std::string too_many = "has more than " + std::to_string(most) + " bytes";
  if (static_cast<std::uint64_t>(status.st_size) > most) return wrong(too_many);
  if (is_mostly_unwritten(file.get())) return wrong("is hollow: nobody wrote most of its bytes");
  const auto buffer = std::make_unique<char[]>(kReadAtOnce);
  std::uint64_t total = 0;
  while (true) {
    const ssize_t got = ::read(file.get(), buffer.get(), kReadAtOnce);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("cannot read");
    if (got == 0) return total;
    total += static_cast<std::uint64_t>(got);
    if (total > most) return wrong(too_many);  // it is growing
    sink({buffer.get(), static_cast<std::size_t>(got)});
  }
}

Result<std::string> read_whole(const fs::path& path, std::uint64_t most, int* code) {
  std::string bytes;
  TRY(read_pieces(
      path, [&](std::string_view piece) { bytes += piece; }, code, most));
  return bytes;
}

bool is_absence(int code) {
  return code == ENOENT || code == ENOTDIR || code == EISDIR || code == ELOOP || code == ENXIO;
}

Result<void> replace_file(const fs::path& path, std::string_view bytes) {
  auto directory = TRY(open_directory(path.parent_path().empty() ? "." : path.parent_path()));
  const std::string name = path.filename().string();
  const std::string temporary = ".tmp-" + name;
  if (::unlinkat(directory.get(), temporary.c_str(), 0) != 0 && errno != ENOENT)
    return system_failure("cannot remove the leftover of", path);
  auto written = write_new_file(directory.get(), temporary, bytes, path);
  if (written && ::renameat(directory.get(), temporary.c_str(), directory.get(), name.c_str()))
    written = system_failure("cannot rename to", path);
  if (!written) {
    ::unlinkat(directory.get(), temporary.c_str(), 0);  // the first error is reported
    return written;
  }
  return sync_directory(directory.get(), path.parent_path());
}

Result<std::vector<std::string>> list_names(const fs::path& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(directory.c_str()), ::closedir);
  if (!opened) {
    if (errno == ENOENT) return std::vector<std::string>{};
    return system_failure("cannot list", directory);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(opened.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) return system_failure("cannot list", directory);
  std::sort(names.begin(), names.end());
  return names;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<fs::path> paths_in(const std::string& list) {
  std::vector<fs::path> paths;
  for (std::size_t at = 0; at < list.size();) {
    const auto end = std::min(list.find(':', at), list.size());
    if (end > at) paths.emplace_back(list.substr(at, end - at));
    at = end + 1;
  }
  return paths;
}

bool remove_tree(const fs::path& path) { return remove_at(AT_FDCWD, path.string()); }

Result<std::uint64_t> make_durable(const fs::path& path) {
  std::error_code code;
  const fs::path absolute = fs::absolute(path, code).lexically_normal();
  const fs::path clean = absolute.has_filename() ? absolute : absolute.parent_path();
  struct stat status {};
  const bool is_folder = ::lstat(clean.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  auto tree = TRY(is_folder ? tree_of(clean) : Tree{{}, {clean}});
  tree.folders.insert(tree.folders.begin(), clean.parent_path());
  std::uint64_t bytes = 0;
  for (const auto& file : tree.files) {
    auto synced = TRY(sync_file(file));
    bytes += synced;
  }
  for (const auto& folder : tree.folders) TRY(sync_folder(folder));
  return bytes;
}

}  // namespace spotter::checkpoint
