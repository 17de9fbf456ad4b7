// Unpacks gzip objects one after the other, as their bytes arrive. Several members in one object
// are unpacked as one, as by gzip(1).
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::data {

class Gunzip : Pinned {
 public:
  Gunzip();
  ~Gunzip();

  // Appends about `room` bytes at most to `out`; returns how many bytes of `in` it used. Fails for
  // input that is not gzip.
  Result<std::size_t> unpack(std::string_view in, std::string& out, std::size_t room);

  // Ends the object: fails when a member was cut off. The next object can then begin.
  Result<void> end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The unpacked sizes of gzip objects, learnt when they are read to their end, as gzip does not
// state them. With them a stream that begins in the middle skips objects without fetching them. An
// object of unknown size is fetched.
//
// The file: a line an object, `"etag" 1234`, append-only; other lines are ignored.
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
