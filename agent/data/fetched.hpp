// Which files of a channel in mode `file` are whole, so that none is fetched twice: one JSON array
// a line, only ever appended.
//   ["a/b.bin",1234,"\"etag\"",1700000000000000000]    whole; its size and modification time
//   ["a/c.bin",268435456,"\"etag\""]                    the first bytes of it, in its partial file
// A line is written when the bytes it speaks of are durable. One that is cut off says nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::data {

class Fetched {
 public:
  struct File {
    std::uint64_t size = 0;  // so much of it
    std::string etag;
    std::optional<std::int64_t> modified;  // ns since 1970; none: it is not whole
    friend bool operator==(const File&, const File&) = default;
  };

  // `path` empty: nothing is known, and nothing kept.
  static Result<Fetched> open(std::filesystem::path path);
  // What the lines say, the last one about a file.
  static std::map<std::string, File> parse(std::string_view text);

  const std::map<std::string, File>& files() const { return files_; }
  // The file has this size and is the one that was noted, of that ETag.
  bool is_whole(const std::filesystem::path& folder, const std::string& name, std::uint64_t size,
                const std::string& etag) const;
  // So many of the first bytes are in `partial`.
  std::uint64_t begun(const std::filesystem::path& partial, const std::string& name,
                      std::uint64_t size, const std::string& etag) const;

  // False: errno.
  bool add_whole(const std::filesystem::path& folder, const std::string& name,
                 const std::string& etag);
  void add_begun(const std::string& name, std::uint64_t bytes, const std::string& etag);
  void forget(const std::string& name) { files_.erase(name); }
  // Writes down what was added.
  Result<void> keep();

 private:
  explicit Fetched(std::filesystem::path path) : path_(std::move(path)) {}
  void add(const std::string& name, File file);

  std::filesystem::path path_;
  std::map<std::string, File> files_;
  std::string lines_;  // not yet written
};

}  // namespace spotter::data
