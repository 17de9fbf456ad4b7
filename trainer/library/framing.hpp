// Where a record ends and the next one begins. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::channel {

struct Format {
  enum class Kind : std::uint8_t {
    Fixed,     // `bytes` each, nothing between them
    Lines,     // each ends with "\n", which is not part of it; the last one, too
    RecordIo,  // MXNet's, as SageMaker has it (trainer/library/recordio.hpp)
  } kind = Kind::RecordIo;
  std::size_t bytes = 0;  // of Fixed: at least 1
};

// More is no record but a broken stream: it would fill the memory.
inline constexpr std::size_t kLongest = std::size_t{1} << 30;

class Framing {
 public:
  // REQUIRES: format.bytes > 0 where the kind is Fixed.
  explicit Framing(Format format) : format_(format) {}

  struct Record {
    std::string_view bytes;  // in what was given, or (one of several parts) in this Framing
    std::size_t taken = 0;   // of what was given
  };
  // The record that `bytes` begin with; none: it needs more of them. Until there is one, each call
  // has to begin with the same bytes as the one before. Fails on what no record begins with.
  Result<std::optional<Record>> cut(std::string_view bytes);

 private:
  using Cut = Result<std::optional<Record>>;
  Cut cut_fixed(std::string_view bytes) const;
  Cut cut_line(std::string_view bytes);
  Cut cut_record_io(std::string_view bytes);

  Format format_;
  std::size_t seen_ = 0;  // bytes of this record that need not be looked at again
  std::string joined_;    // its parts so far
};

}  // namespace spotter::channel
