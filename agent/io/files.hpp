// Owns a file descriptor, and closes it. libspotter, which links nothing of io, has a copy of it
// (trainer/library/files.hpp).
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>

#include "agent/base/result.hpp"

namespace spotter {
namespace fs = std::filesystem;
}  // namespace spotter

namespace spotter::io {

class [[nodiscard]] Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  // The result of close(), for those who need it: 0, or -1 and errno. Without a file: 0.
  int close() { return number_ >= 0 ? ::close(release()) : 0; }

 private:
  int number_;
};

// A pipe, which no program inherits. False: errno says why there is none.
bool make_pipe(Descriptor& read_end, Descriptor& write_end);

// A write that is whole: a short one is gone on with.

// False: errno says why, and a part may have been written.
inline bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto put = ::write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put == 0) errno = EIO;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

// Reads what an opened file, or a pipe, still has, a piece at a time, until `take` says false.
using TakePiece = std::function<bool(std::string_view)>;
Result<void, std::error_code> each_piece(int file, const TakePiece& take);
// Reads all of it. std::errc::file_too_large when that is more than `limit` bytes.
Result<std::string, std::error_code> read_to_end(int file, std::size_t limit);
// Reads `most` bytes from this offset on; fewer where the file ends, or cannot be read.
std::string read_at(int file, std::uint64_t at, std::size_t most);

// Files that are either whole or absent, also after a power cut. Every failure is the errno of the
// call that failed; nothing is retried (a failed fsync marks pages clean: write again, into a new
// file).

// The failure that errno names.
inline tl::unexpected<std::error_code> last_error() {
  return tl::unexpected(std::error_code(errno, std::generic_category()));
}

// Replaces `path` by a file that holds exactly `bytes` with exactly `mode` (the umask does not
// count). On success it is durable: temporary file in the same directory, fsync, rename, fsync of
// the directory. On failure the old file is as it was and the temporary one is removed.
Result<void, std::error_code> atomic_write(const fs::path& path, std::string_view bytes,
                                           mode_t mode);

// The same for what need not survive a power cut: whoever reads sees all of the new file or of the
// old one. The umask counts. The temporary file is `path`.tmp; what has that name is removed, and a
// link there not followed.
Result<void, std::error_code> replace_file(const std::string& path, std::string_view bytes,
                                           mode_t mode = 0666);

// The whole content of a regular file. std::errc::file_too_large when it is longer than `limit`
// bytes.
Result<std::string, std::error_code> read_file(const fs::path& path, std::size_t limit);
// The same with the failure in words for a person, without the path.
Result<std::string> read_text(const fs::path& path, std::size_t limit);

// A regular file of a folder that others may change, for reading; no other is waited for (EINVAL).
// EPERM: a link there leads to what its owner might not read, as it is neither that user's nor
// everybody's to read. Links of root's and our own user's are followed.
Result<Descriptor, std::error_code> open_for_reading(const fs::path& path);

Result<void, std::error_code> fsync_directory(const fs::path& path);

// mkdir -p; directories that exist are left as they are. std::errc::not_a_directory otherwise.
Result<void, std::error_code> make_directories(const fs::path& path, mode_t mode);

// Whose the name is, be it a link, for words to a person: "alice (uid 1001)"; "nobody known".
std::string owner_in_words(const fs::path& path);
std::string user_in_words(uid_t user);

// Where root works for other users, what is to be read by them must be readable, whatever root's
// own umask is. Of an ordinary user, who works with its own files, the umask is that user's choice.
// Returns the umask from before.
mode_t take_usual_umask();

// Files that may be longer than memory, a piece or a line at a time.

// Does the same as atomic_write(), in pieces: `next` makes the following one of an empty text,
// until it leaves it empty. So a file may be longer than memory.
using NextPiece = std::function<void(std::string&)>;
Result<void, std::error_code> atomic_write_pieces(const fs::path& path, mode_t mode,
                                                  const NextPiece& next);

// Each line of a regular file, without its end; `whole` is false of a last one that has none. False
// from `each` ends it. Takes memory for one line. std::errc::file_too_large when a line is longer
// than `longest` bytes.
using EachLine = std::function<bool(std::string_view line, bool whole)>;
Result<void, std::error_code> read_lines(const fs::path& path, std::size_t longest,
                                         const EachLine& each);

// A folder of this process's own for a moment's work.

// Removed with this object, with all that is in it; also when Ctrl-C, SIGTERM or the terminal's end
// ends a process that has asked for nothing else on these. There is one at a time.
class ScratchFolder : Pinned {
 public:
  // $TMPDIR/spotter-NAME-XXXXXX
  explicit ScratchFolder(std::string_view name);
  ~ScratchFolder();

  // Empty: it cannot be made.
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace spotter::io
