// The POSIX operations that the checkpoint format needs. Every result is checked; errors name the
// path. Trainers use checkpoint.hpp instead.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter {
namespace fs = std::filesystem;
}  // namespace spotter

namespace spotter::checkpoint {

// Owns a file descriptor.
class [[nodiscard]] Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

// "WHAT PATH: strerror(errno)". REQUIRES: nothing has changed errno since. Keeps errno.
tl::unexpected<Error> system_failure(std::string_view what, const fs::path& path);

// The same for a failed write to `file`; also says if its file system is full, as sshfs reports all
// of its server's errors as EIO.
tl::unexpected<Error> write_failure(std::string_view what, const fs::path& path, int file);

// Writes all of `bytes` from there on.
Result<void> write_at(int file, std::string_view bytes, std::size_t at, const fs::path& shown);

// Opens a directory for fsync, flock and the *at() calls.
Result<Descriptor> open_directory(const fs::path& path);

// Creates `name` in `directory` (it must not exist), writes `bytes`, fsyncs, closes. After a
// failure the file may exist with any content: the caller removes its whole directory and never
// fsyncs this file again, because a failed fsync marks the pages clean
// (https://wiki.postgresql.org/wiki/Fsync_Errors).
Result<void> write_new_file(int directory, const std::string& name, std::string_view bytes,
                            const fs::path& shown);

// Makes the names in the directory durable.
Result<void> sync_directory(int directory, const fs::path& shown);

// Creates the directory and its missing parents, each made durable in its own parent.
Result<void> make_directories(const fs::path& path);

// True if the file cannot have been written in full: it is larger than its file system, or nearly
// all of it is a hole. Such a file is cheap to make, and takes hours to read.
bool is_mostly_unwritten(int file);

// Passes the content of a regular file (links are not followed) to `sink`, piece by piece. Returns
// the number of bytes. On failure `code`, if given, becomes errno, or 0 for a file that is hollow
// or has more than `most` bytes; of the latter none was read.
Result<std::uint64_t> read_pieces(const fs::path& path,
                                  const std::function<void(std::string_view)>& sink,
                                  int* code = nullptr, std::uint64_t most = UINT64_MAX);
// The same as one text.
Result<std::string> read_whole(const fs::path& path, std::uint64_t most = UINT64_MAX,
                               int* code = nullptr);

// True: this errno of a failed call means that the file does not exist, or is of another kind. All
// other codes (no permission, no resources, a share without an answer, a disk error) do not tell:
// the file may be undamaged.
bool is_absence(int code);

// Replaces a file atomically and durably: a reader, also after a power failure, sees the old or the
// new content. The directory must exist.
Result<void> replace_file(const fs::path& path, std::string_view bytes);

// The names in a directory, sorted. Empty if it does not exist.
Result<std::vector<std::string>> list_names(const fs::path& directory);

// The variable's value; empty if it is not set.
std::string environment(const char* name);

// "/a:/b" -> two paths.
std::vector<fs::path> paths_in(const std::string& list);

// A file or a folder with all that is in it. No link is followed.
//
// In the place of std::filesystem::remove_all() and the directory iterators, which libspotter and
// its programs must not call: PyTorch's libtorch.so exports its own, which call through a null
// pointer, and a program that is linked with it before libstdc++ gets those. tests/trainer
// (symbols_test.py, other_filesystem_test.cpp) finds who calls them.

// Removes it. False: something is left, and errno says why the first was not removed; the rest is
// gone as far as it could be. True where nothing is there.
bool remove_tree(const fs::path& path);

// Makes a file durable, or a folder with all in it, and its name. Returns the bytes of the files.
Result<std::uint64_t> make_durable(const fs::path& path);

}  // namespace spotter::checkpoint
