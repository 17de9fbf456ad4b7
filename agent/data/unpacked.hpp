// How long gzip objects are when they are unpacked, learnt from those that came to their end: gzip
// does not say it. With it a stream that begins in the middle passes over the objects before, as of
// any others, and nothing of them is fetched. What is not known costs that only.
//
// The file: a line an object, `"etag" 1234`, appended; what is no such line is passed over.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace spotter::data {

class Unpacked {
 public:
  // Empty: it is remembered in this life only.
  explicit Unpacked(std::filesystem::path file);

  // By ETag: what has another one is another object.
  std::optional<std::uint64_t> bytes_of(const std::string& etag) const;
  void learn(const std::string& etag, std::uint64_t bytes);

 private:
  std::filesystem::path file_;
  std::map<std::string, std::uint64_t> bytes_;
};

}  // namespace spotter::data
