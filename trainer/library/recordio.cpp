#include "trainer/library/recordio.hpp"

#include <cassert>

namespace spotter::wire {
namespace {

void append_word(std::string& out, std::uint32_t word) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(word >> shift & 255);
}

std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t word = 0;
  for (std::size_t i = 4; i-- > 0;) word = word << 8 | static_cast<unsigned char>(bytes[at + i]);
  return word;
}

}  // namespace

std::string record_header(std::uint64_t bytes) {
  std::string out;
  append_word(out, recordio_magic);
  append_word(out, static_cast<std::uint32_t>(bytes));
  return out;
}

std::string whole_record(std::string_view bytes) {
  std::string out = record_header(bytes.size());
  out.append(bytes).append(record_padding(bytes.size()), '\0');
  return out;
}

Result<RecordHeader> parse_record_header(std::string_view eight) {
  if (eight.size() < recordio_header) return failure("a RecordIO record ends inside its header");
  if (word_at(eight, 0) != recordio_magic) return failure("no RecordIO record begins here");
  const std::uint32_t word = word_at(eight, 4);
  const std::uint32_t part = word >> 29;
  if (part > 3) return failure("a RecordIO record with an unknown flag");
  return RecordHeader{word & longest_record, static_cast<RecordHeader::Part>(part)};
}

}  // namespace spotter::wire

namespace spotter::channel {
namespace {

using wire::RecordHeader;

// Stands between two parts: the writer splits a record where it contains these bytes.
std::string magic() { return wire::record_header(0).substr(0, 4); }

}  // namespace

Framing::Cut Framing::cut(std::string_view bytes) {
  switch (format_.kind) {
    case Format::Kind::Fixed:
      return cut_fixed(bytes);
    case Format::Kind::Lines:
      return cut_line(bytes);
    case Format::Kind::RecordIo:
      break;
  }
  return cut_record_io(bytes);
}

Framing::Cut Framing::cut_fixed(std::string_view bytes) const {
  assert(format_.bytes > 0);
  if (bytes.size() < format_.bytes) return std::nullopt;
  return Record{bytes.substr(0, format_.bytes), format_.bytes};
}

Framing::Cut Framing::cut_line(std::string_view bytes) {
  const std::size_t end = bytes.find('\n', seen_);
  if (end == std::string_view::npos) {
    if (bytes.size() > kLongest) return failure("a line of more than 1 GiB");
    seen_ = bytes.size();
    return std::nullopt;
  }
  seen_ = 0;
  return Record{bytes.substr(0, end), end + 1};
}

Framing::Cut Framing::cut_record_io(std::string_view bytes) {
  if (seen_ == 0) joined_.clear();
  while (true) {
    const std::string_view rest = bytes.substr(seen_);
    if (rest.size() < wire::recordio_header) return std::nullopt;
    const auto header = TRY(wire::parse_record_header(rest.substr(0, wire::recordio_header)));
    using Part = RecordHeader::Part;
    const bool begins = header.part == Part::Whole || header.part == Part::First;
    if (begins != (seen_ == 0)) {
      return failure(begins ? "a RecordIO record begins inside another one"
                            : "a part of a RecordIO record, without its begin");
    }
    if (seen_ + header.bytes > kLongest) return failure("a RecordIO record of more than 1 GiB");
    const std::uint64_t size = wire::record_size(header.bytes);
    if (rest.size() < size) return std::nullopt;
    const auto part = rest.substr(wire::recordio_header, header.bytes);
    seen_ += size;
    if (header.part == Part::Whole) return Record{part, std::exchange(seen_, 0)};
    if (header.part != Part::First) joined_ += magic();
    joined_ += part;
    if (header.part == Part::Last) return Record{joined_, std::exchange(seen_, 0)};
  }
}

}  // namespace spotter::channel
