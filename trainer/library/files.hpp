// The few POSIX mechanisms that the checkpoint format rests on. Every result is checked; an error
// names the path. Not part of what a trainer uses: see checkpoint.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::checkpoint {

// Owns a file descriptor.
class Descriptor {
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

// "WHAT PATH: strerror(errno)": call it before anything else can change errno. Leaves errno as it
// is.
tl::unexpected<Error> system_failure(std::string_view what, const std::filesystem::path& path);

// The same of what was written to `file`; where its file system has no room left, that is said,
// too: sshfs calls whatever its server refuses EIO.
tl::unexpected<Error> write_failure(std::string_view what, const std::filesystem::path& path,
                                    int file);

// Opens a directory for fsync, flock and the *at() calls.
Result<Descriptor> open_directory(const std::filesystem::path& path);

// Creates `name` in `directory` (it must not exist), writes `bytes`, fsyncs, closes. After a
// failure the file may exist with any content: the caller drops its whole directory and never
// fsyncs this file again, because a failed fsync marks the pages clean
// (https://wiki.postgresql.org/wiki/Fsync_Errors).
Result<void> write_new_file(int directory, const std::string& name, std::string_view bytes,
                            const std::filesystem::path& shown);

// Makes the names inside the directory durable.
Result<void> sync_directory(int directory, const std::filesystem::path& shown);

// Creates the directory and its missing parents, each made durable in its own parent.
Result<void> make_directories(const std::filesystem::path& path);

// Whether nobody can have written an opened file of some size: it is larger than its file system,
// or all but a small part of it is a hole. It costs its owner nothing, and who reads it hours.
bool is_hollow(int file);

// Passes the content of a regular file (links are not followed) to `sink`, piece by piece. Returns
// the bytes read. On failure `code`, when given, receives errno, or 0: the file has more than
// `most` bytes, of which none was read, or is hollow.
Result<std::uint64_t> read_pieces(const std::filesystem::path& path,
                                  const std::function<void(std::string_view)>& sink,
                                  int* code = nullptr, std::uint64_t most = UINT64_MAX);

// Whether a failed call says of what it was about that it is not there, or is something else. All
// other codes (no permission, no resources, a share that does not answer, a disk that cannot read)
// say nothing about it: it may be whole.
bool is_absence(int code);

// Replaces a file as a whole, durably: a reader, and a machine after a power cut, see the old
// content or the new one. The directory must exist.
Result<void> replace_file(const std::filesystem::path& path, std::string_view bytes);

// The names in a directory, sorted. A directory that does not exist has none.
Result<std::vector<std::string>> list_names(const std::filesystem::path& directory);

// Empty where the variable is not set.
std::string environment(const char* name);

// "/a:/b" as the two of them.
std::vector<std::filesystem::path> paths_in(const std::string& list);

}  // namespace spotter::checkpoint
