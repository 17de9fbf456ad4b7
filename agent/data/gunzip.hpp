// Unpacks gzip objects one after the other, as their bytes arrive. Several members in one object
// are unpacked as one, as by gzip(1).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::data {

class Gunzip {
 public:
  Gunzip();
  ~Gunzip();
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  // Appends about `room` bytes at most to `out`; returns how many bytes of `in` it used. Fails for
  // input that is not gzip.
  Result<std::size_t> unpack(std::string_view in, std::string& out, std::size_t room);

  // Ends the object: fails when a member was cut off. The next object can then begin.
  Result<void> end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace spotter::data
