// RecordIO as MXNet and SageMaker write it: magic, length (29 bits) with a flag (3 bits), both
// little-endian, the bytes, zeros to a multiple of four. No I/O.
// Source: https://mxnet.apache.org/versions/1.9.1/api/architecture/note_data_loading
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::wire {

inline constexpr std::uint32_t recordio_magic = 0xced7230a;
inline constexpr std::size_t recordio_header = 8;
inline constexpr std::uint64_t longest_record = (1U << 29) - 1;

// REQUIRES: bytes <= longest_record.
std::string record_header(std::uint64_t bytes);
inline std::size_t record_padding(std::uint64_t bytes) { return (4 - bytes % 4) % 4; }
std::string whole_record(std::string_view bytes);  // with its header and padding; REQUIRES as above
inline std::uint64_t record_size(std::uint64_t bytes) {
  return recordio_header + bytes + record_padding(bytes);
}

struct RecordHeader {
  std::uint64_t bytes = 0;
  // MXNet splits a record that contains the magic into first, middle and last parts; a reader puts
  // the magic back between them.
  enum class Part : std::uint8_t { Whole, First, Middle, Last } part = Part::Whole;
};
Result<RecordHeader> parse_record_header(std::string_view eight);

}  // namespace spotter::wire

namespace spotter::channel {

// Finds the boundaries of records in a stream. No I/O.

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
