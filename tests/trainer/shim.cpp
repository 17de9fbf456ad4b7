#include "tests/trainer/shim.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

namespace spotter::test {

namespace {

using Key = std::pair<dev_t, ino_t>;

std::recursive_mutex mutex;
Shim* installed = nullptr;
std::map<Key, std::uint64_t> numbers;
std::uint64_t next_number = 0;

template <class Function>
Function* real(const char* name) {
  void* found = ::dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function*>(found);
}

std::optional<std::uint64_t> number_of(const struct stat& status) {
  const auto found = numbers.find({status.st_dev, status.st_ino});
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::uint64_t> number_of(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 ? number_of(status) : std::nullopt;
}

// The directory and name that a path means.
struct Place {
  std::uint64_t directory;
  std::string name;
};

std::optional<Place> place_of(int directory, const char* path) {
  const std::string text = path;
  const auto slash = text.rfind('/');
  struct stat status {};
  const bool known = slash == std::string::npos
                         ? ::fstat(directory, &status) == 0
                         : ::fstatat(directory, text.substr(0, slash + 1).c_str(), &status, 0) == 0;
  const auto number = known ? number_of(status) : std::nullopt;
  if (!number) return std::nullopt;
  return Place{*number, slash == std::string::npos ? text : text.substr(slash + 1)};
}

std::uint64_t number_again(int directory, const char* path) {
  struct stat status {};
  if (::fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW) != 0) std::abort();
  return numbers[{status.st_dev, status.st_ino}] = ++next_number;
}

// Does `action` as the shim will have it. `call` is empty for what lies elsewhere.
template <class Action>
auto through(std::optional<Call>& call, const Action& action) -> decltype(action()) {
  if (!installed || !call) return action();
  if (const int code = installed->before ? installed->before(*call) : 0; code != 0) {
    errno = code;
    return -1;
  }
  const auto result = action();
  if (result >= 0 && installed->after) {
    const int kept = errno;
    if (call->kind == Call::Kind::Write) {
      call->bytes = call->bytes.substr(0, static_cast<std::size_t>(result));
    }
    installed->after(*call);
    errno = kept;
  }
  return result;
}

int open_through(int directory, const char* path, int flags, mode_t mode) {
  const std::scoped_lock lock(mutex);
  const auto open_it = [&] {
    return real<int(int, const char*, int, ...)>("openat")(directory, path, flags, mode);
  };
  if (installed && installed->opening && (flags & O_CREAT) == 0) {
    if (const int code = installed->opening(path); code != 0) {
      errno = code;
      return -1;
    }
  }
  const auto place = installed && (flags & O_CREAT) ? place_of(directory, path) : std::nullopt;
  struct stat status {};
  if (!place || ::fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW) == 0) return open_it();
  Call call{Call::Kind::Create, 0, place->directory, place->name};
  if (const int code = installed->before ? installed->before(call) : 0; code != 0) {
    errno = code;
    return -1;
  }
  const int file = open_it();
  if (file < 0) return file;
  call.node = number_again(directory, path);
  if (installed->after) installed->after(call);
  return file;
}

// The offset of a file that is only appended to says nothing.
std::uint64_t offset_of(int file) {
  const bool appends = (::fcntl(file, F_GETFL) & O_APPEND) != 0;
  struct stat status {};
  if (appends && ::fstat(file, &status) == 0) return static_cast<std::uint64_t>(status.st_size);
  return static_cast<std::uint64_t>(::lseek(file, 0, SEEK_CUR));
}

std::optional<Call> about(Call::Kind kind, int file) {
  const auto node = installed ? number_of(file) : std::nullopt;
  return node ? std::optional(Call{kind, *node, 0, {}}) : std::nullopt;
}

std::optional<Call> about(Call::Kind kind, int directory, const char* path) {
  const auto place = installed ? place_of(directory, path) : std::nullopt;
  return place ? std::optional(Call{kind, 0, place->directory, place->name}) : std::nullopt;
}

int rename_through(int from, const char* old, int to, const char* path, unsigned flags) {
  const std::scoped_lock lock(mutex);
  auto call = about(flags & RENAME_EXCHANGE ? Call::Kind::Exchange : Call::Kind::Rename, from, old);
  const auto target = installed ? place_of(to, path) : std::nullopt;
  if (call && target) call->other_name = target->name;
  return through(call, [&] {
    return real<int(int, const char*, int, const char*, unsigned)>("renameat2")(from, old, to, path,
                                                                                flags);
  });
}

}  // namespace

void Shim::install(const std::string& directory) {
  const std::scoped_lock lock(mutex);
  numbers.clear();
  next_number = 0;
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) std::abort();
  numbers[{status.st_dev, status.st_ino}] = 0;
  installed = this;
}

void Shim::follow(const std::string& directory) {
  const std::scoped_lock lock(mutex);
  for (const auto& each : std::filesystem::recursive_directory_iterator(directory))
    number_again(AT_FDCWD, each.path().c_str());
}

void Shim::remove() {
  const std::scoped_lock lock(mutex);
  installed = nullptr;
}

}  // namespace spotter::test

using namespace spotter::test;  // NOLINT: the functions below are libc's, by name

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = flags & O_CREAT ? va_arg(more, mode_t) : mode_t{};
  va_end(more);
  return open_through(AT_FDCWD, path, flags, mode);
}

// glibc's, by which a hardened program opens with flags that the compiler does not know.
int __open_2(const char* path, int flags) {  // NOLINT: its name
  return open_through(AT_FDCWD, path, flags, 0);
}
int __openat_2(int directory, const char* path, int flags) {  // NOLINT: its name
  return open_through(directory, path, flags, 0);
}

int openat(int directory, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = flags & O_CREAT ? va_arg(more, mode_t) : mode_t{};
  va_end(more);
  return open_through(directory, path, flags, mode);
}

ssize_t pwrite(int file, const void* data, size_t size, off_t offset) {
  const std::scoped_lock lock(mutex);
  auto call = about(Call::Kind::Write, file);
  if (call) {
    call->offset = static_cast<std::uint64_t>(offset);
    call->bytes = {static_cast<const char*>(data), size};
  }
  return through(call, [&] {
    return real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(file, data, size, offset);
  });
}

ssize_t write(int file, const void* data, size_t size) {
  const std::scoped_lock lock(mutex);
  auto call = about(Call::Kind::Write, file);
  if (call) {
    call->offset = offset_of(file);
    call->bytes = {static_cast<const char*>(data), size};
    if (installed->shorten) size = std::min(size, installed->shorten(*call));
  }
  return through(
      call, [&] { return real<ssize_t(int, const void*, size_t)>("write")(file, data, size); });
}

int fallocate(int file, int mode, off_t offset, off_t length) {
  const std::scoped_lock lock(mutex);
  const bool punches = (mode & FALLOC_FL_PUNCH_HOLE) != 0;
  auto call = about(punches ? Call::Kind::Punch : Call::Kind::Resize, file);
  if (call) call->offset = static_cast<std::uint64_t>(offset + length);
  return through(call, [&] {
    return real<int(int, int, off_t, off_t)>("fallocate")(file, mode, offset, length);
  });
}

// Between two files; the offset of the one that is written is given.
ssize_t copy_file_range(int from, off_t* at, int to, off_t* target, size_t size, unsigned flags) {
  const std::scoped_lock lock(mutex);
  auto call = target != nullptr && at != nullptr ? about(Call::Kind::Write, to) : std::nullopt;
  std::string bytes;
  if (call) {
    bytes.resize(size);
    bytes.resize(
        static_cast<std::size_t>(std::max<ssize_t>(0, ::pread(from, bytes.data(), size, *at))));
    call->offset = static_cast<std::uint64_t>(*target);
    call->bytes = bytes;
    if (installed->shorten) size = std::min(size, installed->shorten(*call));
  }
  return through(call, [&] {
    return real<ssize_t(int, off_t*, int, off_t*, size_t, unsigned)>("copy_file_range")(
        from, at, to, target, size, flags);
  });
}

// That two files share their blocks is no matter of every file system.
int ioctl(int file, unsigned long request, ...) noexcept {
  va_list more;
  va_start(more, request);
  void* argument = va_arg(more, void*);
  va_end(more);
  const std::scoped_lock lock(mutex);
  if (installed && request == FICLONE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return real<int(int, unsigned long, void*)>("ioctl")(file, request, argument);
}

int futimens(int file, const timespec* times) noexcept {
  const std::scoped_lock lock(mutex);
  auto call = about(Call::Kind::Mode, file);
  return through(call, [&] { return real<int(int, const timespec*)>("futimens")(file, times); });
}

int fsync(int file) {
  const std::scoped_lock lock(mutex);
  auto call = about(Call::Kind::Sync, file);
  return through(call, [&] { return real<int(int)>("fsync")(file); });
}

int fdatasync(int file) {
  const std::scoped_lock lock(mutex);
  auto call = about(Call::Kind::Sync, file);
  return through(call, [&] { return real<int(int)>("fdatasync")(file); });
}

int ftruncate(int file, off_t size) noexcept {
  const std::scoped_lock lock(mutex);
  auto call = about(Call::Kind::Truncate, file);
  if (call) call->offset = static_cast<std::uint64_t>(size);
  return through(call, [&] { return real<int(int, off_t)>("ftruncate")(file, size); });
}

int fchmod(int file, mode_t mode) noexcept {
  const std::scoped_lock lock(mutex);
  auto call = about(Call::Kind::Mode, file);
  return through(call, [&] { return real<int(int, mode_t)>("fchmod")(file, mode); });
}

// glibc's own opens the file without open().
int mkostemp(char* path, int flags) {
  const std::scoped_lock lock(mutex);
  std::string name(path);
  for (;;) {
    static unsigned next = 0;
    std::string number = std::to_string(++next);
    number.insert(0, 6 - std::min<std::size_t>(6, number.size()), '0');
    name.replace(name.size() - 6, 6, number);
    const int file = open_through(AT_FDCWD, name.c_str(), flags | O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0 && errno == EEXIST) continue;
    name.copy(path, name.size());
    return file;
  }
}

// A new file is seen in openat(): openat2(2), which libc does not have, is not there.
long syscall(long number, ...) noexcept {
  va_list more;
  va_start(more, number);
  long words[6];
  for (long& each : words) each = va_arg(more, long);
  va_end(more);
  const std::scoped_lock lock(mutex);
  if (installed && number == SYS_openat2) {
    errno = ENOSYS;
    return -1;
  }
  return real<long(long, ...)>("syscall")(number, words[0], words[1], words[2], words[3], words[4],
                                          words[5]);
}

int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  const std::scoped_lock lock(mutex);
  auto call = about(Call::Kind::MakeDirectory, directory, path);
  return through(call, [&] {
    const int done = real<int(int, const char*, mode_t)>("mkdirat")(directory, path, mode);
    if (done == 0 && call) call->node = number_again(directory, path);
    return done;
  });
}

int mkdir(const char* path, mode_t mode) {
  const std::scoped_lock lock(mutex);
  auto call = about(Call::Kind::MakeDirectory, AT_FDCWD, path);
  return through(call, [&] {
    const int done = real<int(const char*, mode_t)>("mkdir")(path, mode);
    if (done == 0 && call) call->node = number_again(AT_FDCWD, path);
    return done;
  });
}

int linkat(int from, const char* old, int to, const char* path, int flags) {
  const std::scoped_lock lock(mutex);
  auto call = about(Call::Kind::Link, to, path);
  struct stat status {};
  const int follow = (flags & AT_SYMLINK_FOLLOW) != 0 ? 0 : AT_SYMLINK_NOFOLLOW;
  if (call && ::fstatat(from, old, &status, follow) == 0) {
    call->node = number_of(status).value_or(0);
  }
  return through(call, [&] {
    return real<int(int, const char*, int, const char*, int)>("linkat")(from, old, to, path, flags);
  });
}

int unlinkat(int directory, const char* path, int flags) {
  const std::scoped_lock lock(mutex);
  auto call = about(Call::Kind::Unlink, directory, path);
  return through(
      call, [&] { return real<int(int, const char*, int)>("unlinkat")(directory, path, flags); });
}

int unlink(const char* path) noexcept {
  const std::scoped_lock lock(mutex);
  auto call = about(Call::Kind::Unlink, AT_FDCWD, path);
  return through(call, [&] { return real<int(const char*)>("unlink")(path); });
}

int renameat(int from, const char* old, int to, const char* path) noexcept {
  return rename_through(from, old, to, path, 0);
}

int rename(const char* old, const char* path) noexcept {
  return rename_through(AT_FDCWD, old, AT_FDCWD, path, 0);
}

int renameat2(int from, const char* old, int to, const char* path, unsigned flags) noexcept {
  return rename_through(from, old, to, path, flags);
}

}  // extern "C"
