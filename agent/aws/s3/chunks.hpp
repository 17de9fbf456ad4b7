// A body in chunks, as a server sends it that does not know its length yet (RFC 9112, 7.1).
// Private to agent/aws/s3.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace spotter::s3 {

class Chunks {
 public:
  enum class State : std::uint8_t { Open, Whole, Wrong };
  // `take` gets the content, piece by piece; false: no more is wanted, and it is Wrong. What comes
  // behind the end is left in `bytes`.
  State feed(std::string_view& bytes, const std::function<bool(std::string_view)>& take);

 private:
  bool read_line(std::string_view& bytes);

  enum class Part : std::uint8_t { Size, Content, Border, Trailer } part_ = Part::Size;
  std::uint64_t left_ = 0;  // of a chunk
  std::string line_;
};

}  // namespace spotter::s3
