// The directory of a zip file, as far as a checkpoint needs it. Internal to guard.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spotter::guard {

struct ZipEntry {
  std::uint16_t method = 0;  // 0: stored, 8: deflated
  std::uint32_t crc = 0;
  std::uint64_t packed = 0;    // bytes in the file
  std::uint64_t unpacked = 0;  // bytes of the content
  std::uint64_t header = 0;    // offset of the local header
};

// pread() in full; none when the file is shorter or cannot be read.
std::optional<std::string> read_at(int file, std::uint64_t offset, std::size_t bytes);

// Little-endian, of `text` at `at`; REQUIRES: it fits.
std::uint64_t little_endian(const std::string& text, std::size_t at, int bytes);

// Is the record there that is written last of all?
bool has_zip_end(int file, std::uint64_t bytes);

// None: the end record is missing, or what it says does not fit the file.
std::optional<std::vector<ZipEntry>> read_zip_directory(int file, std::uint64_t bytes);

}  // namespace spotter::guard
