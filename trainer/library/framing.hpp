// Finds the boundaries of records in a stream. No I/O.
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
    Lines,     // each ends with "\n", which is not part of it, the last one included
    RecordIo,  // MXNet's, as in SageMaker (trainer/library/recordio.hpp)
  } kind = Kind::RecordIo;
  std::size_t bytes = 0;  // of Fixed: at least 1
};

// A longer record means a broken stream, and would fill the memory.
inline constexpr std::size_t kLongest = std::size_t{1} << 30;

class Framing {
 public:
  // REQUIRES: format.bytes > 0 where the kind is Fixed.
  explicit Framing(Format format) : format_(format) {}

  struct Record {
    std::string_view bytes;  // in what was given, or (one of several parts) in this Framing
    std::size_t taken = 0;   // of what was given
  };
  // The record at the start of `bytes`; none: more bytes are needed, and the next call must begin
  // with the same ones. Fails for bytes that begin no record.
  Result<std::optional<Record>> cut(std::string_view bytes);

 private:
  using Cut = Result<std::optional<Record>>;
  Cut cut_fixed(std::string_view bytes) const;
  Cut cut_line(std::string_view bytes);
  Cut cut_record_io(std::string_view bytes);

  Format format_;
  std::size_t seen_ = 0;  // bytes of this record that were examined
  std::string joined_;    // its earlier parts
};

}  // namespace spotter::channel
