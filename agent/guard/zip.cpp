#include "agent/guard/zip.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace spotter::guard {
namespace {

constexpr std::size_t end_size = 22;      // of the end record without its comment
constexpr std::size_t end64_size = 56;    // of its form for large files
constexpr std::size_t locator_size = 20;  // which names that one
constexpr std::size_t entry_size = 46;    // of an entry of the directory without its texts
constexpr std::size_t longest_comment = 65535;
constexpr std::uint64_t directory_limit = 16U << 20;  // of 100,000 tensors; more proves nothing
constexpr std::uint64_t in_extra_32 = 0xffffffff;

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;  // where the end records begin
};

std::optional<Directory> find_large_directory(int file, std::uint64_t end_record) {
  if (end_record < locator_size + end64_size) return std::nullopt;
  const auto locator = read_at(file, end_record - locator_size, locator_size);
  if (!locator || little_endian(*locator, 0, 4) != 0x07064b50) return std::nullopt;
  const std::uint64_t at = little_endian(*locator, 8, 8);
  const auto end = read_at(file, at, end64_size);
  if (!end || little_endian(*end, 0, 4) != 0x06064b50) return std::nullopt;
  return Directory{little_endian(*end, 32, 8), little_endian(*end, 40, 8),
                   little_endian(*end, 48, 8), at};
}

std::optional<Directory> find_directory(int file, std::uint64_t bytes) {
  const std::uint64_t tail = std::min<std::uint64_t>(bytes, end_size + longest_comment);
  if (tail < end_size) return std::nullopt;
  const auto text = read_at(file, bytes - tail, tail);
  if (!text) return std::nullopt;
  for (std::size_t at = tail - end_size + 1; at-- > 0;) {
    const bool found = text->compare(at, 4, "PK\x05\x06", 4) == 0 &&
                       little_endian(*text, at + 20, 2) == tail - at - end_size;
    if (!found) continue;
    const std::uint64_t position = bytes - tail + at;
    // Some writers (torch.save) write the large form beside the small one, whatever the size.
    if (const auto large = find_large_directory(file, position)) return large;
    return Directory{little_endian(*text, at + 10, 2), little_endian(*text, at + 12, 4),
                     little_endian(*text, at + 16, 4), position};
  }
  return std::nullopt;
}

// Numbers that do not fit into 32 bits stand in the extra field 1, in this order.
bool read_large_numbers(const std::string& extra, ZipEntry& entry) {
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const std::uint64_t id = little_endian(extra, at, 2);
    const std::size_t size = little_endian(extra, at + 2, 2);
    at += 4;
    if (at + size > extra.size()) return false;
    if (id == 1) {
      std::size_t next = at;
      for (std::uint64_t* number : {&entry.unpacked, &entry.packed, &entry.header}) {
        if (*number != in_extra_32) continue;
        if (next + 8 > at + size) return false;
        *number = little_endian(extra, next, 8);
        next += 8;
      }
    }
    at += size;
  }
  return true;
}

}  // namespace

std::optional<std::string> read_at(int file, std::uint64_t offset, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::size_t have = 0;
  while (have < bytes) {
    const ssize_t got =
        ::pread(file, text.data() + have, bytes - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    have += static_cast<std::size_t>(got);
  }
  return text;
}

std::uint64_t little_endian(const std::string& text, std::size_t at, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(text[at + static_cast<std::size_t>(i)]);
  }
  return value;
}

bool has_zip_end(int file, std::uint64_t bytes) { return find_directory(file, bytes).has_value(); }

std::optional<std::vector<ZipEntry>> read_zip_directory(int file, std::uint64_t bytes) {
  const auto directory = find_directory(file, bytes);
  const bool fits = directory && directory->bytes <= directory_limit &&
                    directory->offset <= directory->end &&
                    directory->end - directory->offset >= directory->bytes;
  if (!fits) return std::nullopt;
  const auto text = read_at(file, directory->offset, directory->bytes);
  if (!text) return std::nullopt;
  std::vector<ZipEntry> entries;
  std::uint64_t left = bytes;  // entries that share their content would have it read for each
  for (std::size_t at = 0; at < text->size();) {
    if (at + entry_size > text->size()) return std::nullopt;
    if (little_endian(*text, at, 4) != 0x02014b50) return std::nullopt;
    ZipEntry entry{static_cast<std::uint16_t>(little_endian(*text, at + 10, 2)),
                   static_cast<std::uint32_t>(little_endian(*text, at + 16, 4)),
                   little_endian(*text, at + 20, 4), little_endian(*text, at + 24, 4),
                   little_endian(*text, at + 42, 4)};
    const std::size_t name = little_endian(*text, at + 28, 2);
    const std::size_t extra = little_endian(*text, at + 30, 2);
    const std::size_t comment = little_endian(*text, at + 32, 2);
    at += entry_size;
    if (at + name + extra + comment > text->size()) return std::nullopt;
    if (!read_large_numbers(text->substr(at + name, extra), entry)) return std::nullopt;
    at += name + extra + comment;
    if (entry.header > directory->offset || entry.packed > directory->offset) return std::nullopt;
    if (entry.packed > left) return std::nullopt;
    left -= entry.packed;
    entries.push_back(entry);
  }
  if (entries.size() != directory->entries) return std::nullopt;
  return entries;
}

}  // namespace spotter::guard
