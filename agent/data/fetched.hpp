// The path of an object's file, in mode `file`.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::data {

// Relative to the channel's folder: the key without `prefix`, which is the channel's or its
// manifest's. When the prefix ends inside a name ("data/part-"), the name stays whole. Fails for
// keys that cannot be files: "a//b", "../a", "a/", a name of more than 255 bytes.
Result<std::string> file_name(std::string_view prefix, std::string_view key);

// The record of a channel's complete files in mode `file`, so that none is fetched twice: one JSON
// array a line, append-only.
//   ["a/b.bin",1234,"\"etag\"",1700000000000000000]    complete; its size and modification time
//   ["a/c.bin",268435456,"\"etag\""]                    its first bytes, in its partial file
// A line is written once its bytes are durable. A line that was cut off is ignored.

// After so many bytes of a file they are made durable and recorded.
inline constexpr std::uint64_t bytes_at_risk = 64U << 20;

class Fetched {
 public:
  struct File {
    std::uint64_t size = 0;  // bytes of it that are there
    std::string etag;
    std::optional<std::int64_t> modified;  // ns since 1970; none: it is not complete
    friend bool operator==(const File&, const File&) = default;
  };

  // An empty `path`: nothing is known, and nothing is recorded.
  static Result<Fetched> open(std::filesystem::path path);
  // The last line of each file.
  static std::map<std::string, File> parse(std::string_view text);

  const std::map<std::string, File>& files() const { return files_; }
  // True: the file has this size and is the recorded one, of that ETag.
  bool is_whole(const std::filesystem::path& folder, const std::string& name, std::uint64_t size,
                const std::string& etag) const;
  // The number of the file's first bytes that are in `partial`.
  std::uint64_t begun(const std::filesystem::path& partial, const std::string& name,
                      std::uint64_t size, const std::string& etag) const;

  // False: see errno.
  bool add_whole(const std::filesystem::path& folder, const std::string& name,
                 const std::string& etag);
  void add_begun(const std::string& name, std::uint64_t bytes, const std::string& etag);
  void forget(const std::string& name) { files_.erase(name); }
  // Writes what was added to the file.
  Result<void> keep();

 private:
  explicit Fetched(std::filesystem::path path) : path_(std::move(path)) {}
  void add(const std::string& name, File file);

  std::filesystem::path path_;
  std::map<std::string, File> files_;
  std::string lines_;  // not yet written
};

}  // namespace spotter::data
