#include "agent/io/files.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <vector>

#include "agent/curl/loop.hpp"
#include "agent/io/child.hpp"

namespace spotter::io {
namespace {

// Removes the temporary file unless it has become the real one; keeps errno.
class Temporary : Pinned {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  ~Temporary() {
    const int saved = errno;
    if (!path_.empty()) ::unlink(path_.c_str());
    errno = saved;
  }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

tl::unexpected<std::error_code> refused(std::errc why) {
  return tl::unexpected<std::error_code>(std::make_error_code(why));
}

constexpr std::size_t piece_size = 65536;

Result<Descriptor, std::error_code> open_regular(const fs::path& path, struct stat& status) {
  // O_NONBLOCK: a FIFO of that name must not hang us.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file || ::fstat(file.get(), &status) != 0) return last_error();
  if (!S_ISREG(status.st_mode)) return refused(std::errc::invalid_argument);
  return file;
}

fs::path directory_of(const fs::path& path) {
  const auto parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

std::unique_ptr<Program> remove_scratch;  // read by a signal's handler

void remove_and_end(int signal) {
  if (remove_scratch) {
    const pid_t child = fork_child([] {
      remove_scratch->execute();
      return 1;
    });
    if (child > 0) ::waitpid(child, nullptr, 0);
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void remove_when_interrupted(const std::string& folder) {
  remove_scratch =
      std::make_unique<Program>(std::vector<std::string>{"/bin/rm", "-r", "-f", "--", folder});
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (::sigaction(each, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = remove_and_end;
    ::sigaction(each, &action, nullptr);
  }
}

}  // namespace

bool make_pipe(Descriptor& read_end, Descriptor& write_end) {
  std::array<int, 2> ends{};
  if (!curl::open_pipe(ends)) return false;
  read_end = Descriptor(ends[0]);
  write_end = Descriptor(ends[1]);
  return true;
}

Result<void, std::error_code> atomic_write(const fs::path& path, std::string_view bytes,
                                           mode_t mode) {
  return atomic_write_pieces(path, mode, [&bytes](std::string& piece) {
    piece.assign(bytes.substr(0, piece_size));
    bytes.remove_prefix(piece.size());
  });
}

Result<void, std::error_code> atomic_write_pieces(const fs::path& path, mode_t mode,
                                                  const NextPiece& next) {
  const auto directory = directory_of(path);
  std::string name = (directory / (".tmp-" + path.filename().string() + "-XXXXXX")).string();
  Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (file.get() < 0) return last_error();
  Temporary temporary(name);
  std::string piece;
  for (next(piece); !piece.empty(); piece.clear(), next(piece))
    if (!write_all(file.get(), piece)) return last_error();
  if (::fchmod(file.get(), mode) != 0) return last_error();
  if (::fsync(file.get()) != 0) return last_error();
  if (file.close() != 0) return last_error();
  if (::rename(name.c_str(), path.c_str()) != 0) return last_error();
  temporary.keep();
  return fsync_directory(directory);
}

Result<void, std::error_code> replace_file(const std::string& path, std::string_view bytes,
                                           mode_t mode) {
  const std::string name = path + ".tmp";
  if (::unlink(name.c_str()) != 0 && errno != ENOENT) return last_error();
  Descriptor file(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (file.get() < 0) return last_error();
  Temporary temporary(name);
  if (!write_all(file.get(), bytes) || file.close() != 0) return last_error();
  if (::rename(name.c_str(), path.c_str()) != 0) return last_error();
  temporary.keep();
  return {};
}

Result<void, std::error_code> each_piece(int file, const TakePiece& take) {
  std::vector<char> buffer(piece_size);
  for (;;) {
    const auto n = ::read(file, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return last_error();
    if (n == 0 || !take({buffer.data(), static_cast<std::size_t>(n)})) return {};
  }
}

Result<std::string, std::error_code> read_to_end(int file, std::size_t limit) {
  std::string bytes;  // read into directly: what may be a secret is nowhere else
  for (std::size_t size = 0; size <= limit;) {
    bytes.resize(size + std::min(piece_size, limit - size) + 1);
    const auto n = ::read(file, bytes.data() + size, bytes.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return last_error();
    size += static_cast<std::size_t>(n);
    if (n == 0) {
      bytes.resize(size);
      return bytes;
    }
  }
  return refused(std::errc::file_too_large);
}

std::string read_at(int file, std::uint64_t at, std::size_t most) {
  std::string bytes(most, '\0');
  std::size_t have = 0;
  while (have < most) {
    const auto got = ::pread(file, bytes.data() + have, most - have, static_cast<off_t>(at + have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

Result<std::string, std::error_code> read_file(const fs::path& path, std::size_t limit) {
  struct stat status {};
  const Descriptor file = TRY(open_regular(path, status));
  return read_to_end(file.get(), limit);
}

Result<std::string> read_text(const fs::path& path, std::size_t limit) {
  return read_file(path, limit).map_error([limit](const std::error_code& it) {
    if (it == std::errc::invalid_argument) return Error{"not a regular file"};
    if (it != std::errc::file_too_large) return Error{it.message()};
    return Error{"larger than " + std::to_string(limit / 1024) + " KiB"};
  });
}

Result<void, std::error_code> read_lines(const fs::path& path, std::size_t longest,
                                         const EachLine& each) {
  struct stat status {};
  const Descriptor file = TRY(open_regular(path, status));
  std::string begun;  // a line whose end has not come yet
  bool fits = true;
  bool more = true;
  TRY(each_piece(file.get(), [&](std::string_view piece) {
    for (auto end = piece.find('\n'); more && end != piece.npos; end = piece.find('\n')) {
      begun.append(piece.substr(0, end));
      piece.remove_prefix(end + 1);
      fits = begun.size() <= longest;
      more = fits && each(begun, true);
      begun.clear();
    }
    if (more) begun.append(piece);
    fits = fits && begun.size() <= longest;
    return more && fits;
  }));
  if (!fits) return refused(std::errc::file_too_large);
  if (more && !begun.empty()) each(begun, false);
  return {};
}

Result<void, std::error_code> fsync_directory(const fs::path& path) {
  Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) return last_error();
  if (::fsync(directory.get()) != 0) return last_error();
  return {};
}

mode_t take_usual_umask() {
  const mode_t before = ::umask(022);
  if (::geteuid() != 0) ::umask(before);
  return before;
}

std::string user_in_words(uid_t user) {
  const passwd* account = ::getpwuid(user);
  const std::string number = "uid " + std::to_string(user);
  return account != nullptr ? account->pw_name + (" (" + number + ")") : number;
}

std::string owner_in_words(const fs::path& path) {
  struct stat seen {};
  return ::lstat(path.c_str(), &seen) == 0 ? user_in_words(seen.st_uid) : "nobody known";
}

Result<Descriptor, std::error_code> open_for_reading(const fs::path& path) {
  struct stat opened {
  }, named{};
  auto file = TRY(open_regular(path, opened));
  if (::lstat(path.c_str(), &named) != 0) return last_error();
  const bool is_itself = named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
  const bool is_owners = named.st_uid == opened.st_uid || named.st_uid == 0 ||
                         named.st_uid == ::geteuid() || (opened.st_mode & S_IROTH) != 0;
  if (!is_itself && !(S_ISLNK(named.st_mode) && is_owners))
    return refused(std::errc::operation_not_permitted);
  return file;
}

Result<void, std::error_code> make_directories(const fs::path& path, mode_t mode) {
  fs::path so_far;
  for (const auto& part : path) {
    so_far /= part;
    if (part.empty() || ::mkdir(so_far.c_str(), mode) == 0) continue;
    const int error = errno;
    struct stat status {};
    if (::stat(so_far.c_str(), &status) == 0) {
      if (S_ISDIR(status.st_mode)) continue;
      return refused(std::errc::not_a_directory);
    }
    return tl::unexpected<std::error_code>(std::error_code(error, std::generic_category()));
  }
  return {};
}

ScratchFolder::ScratchFolder(std::string_view name) {
  std::string path =
      (fs::temp_directory_path() / ("spotter-" + std::string(name) + "-XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr) return;
  remove_when_interrupted(path);
  path_ = std::move(path);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  remove_scratch.reset();
}

}  // namespace spotter::io
