// The unpacked sizes of gzip objects, learnt when they are read to their end, as gzip does not
// state them. With them a stream that begins in the middle skips objects without fetching them.
// Where a size is unknown the object is fetched.
//
// The file: a line an object, `"etag" 1234`, append-only; other lines are ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace spotter::data {

class Unpacked {
 public:
  // Empty: sizes are kept in memory only.
  explicit Unpacked(std::filesystem::path file);

  // An object with another ETag is another object.
  std::optional<std::uint64_t> bytes_of(const std::string& etag) const;
  void learn(const std::string& etag, std::uint64_t bytes);

 private:
  std::filesystem::path file_;
  std::map<std::string, std::uint64_t> bytes_;
};

}  // namespace spotter::data
