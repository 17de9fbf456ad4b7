// Writes RecordIO as MXNet's writer does, by its documentation: a record in which the magic stands
// at a multiple of four is cut there, and the magic is left out.
#pragma once

#include <string>

#include "trainer/library/recordio.hpp"

namespace spotter::test {

inline std::string record_part(std::string_view bytes, unsigned flag) {
  std::string out = wire::record_header(bytes.size() | std::uint64_t{flag} << 29);
  out += bytes;
  out.append(wire::record_padding(bytes.size()), '\0');
  return out;
}

inline std::string record_of(std::string_view bytes) {
  const std::string magic = wire::record_header(0).substr(0, 4);
  std::string out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    if (bytes.substr(at, 4) != magic) continue;
    out += record_part(bytes.substr(begin, at - begin), begin == 0 ? 1 : 2);
    begin = at + 4;
  }
  return out + record_part(bytes.substr(begin), begin == 0 ? 0 : 3);
}

}  // namespace spotter::test
