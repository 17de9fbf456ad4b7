// One gzip object after the other, unpacked as its bytes come. Several members in one are one, as
// gzip(1) has it.
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

  // Appends at most about `room` bytes to `out`; says how many of `in` were used. Fails on what is
  // no gzip.
  Result<std::size_t> unpack(std::string_view in, std::string& out, std::size_t room);

  // The object's bytes are over: fails when a member is cut off. Ready for the next one.
  Result<void> end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace spotter::data
