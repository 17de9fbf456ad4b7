#include "trainer/library/recordio.hpp"

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
