#include "agent/guard/file_completeness.hpp"

#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/io/files.hpp"
#include "trainer/library/files.hpp"

namespace spotter::guard {
namespace {

constexpr std::string_view hdf5_signature = "\x89HDF\r\n\x1a\n";
constexpr std::uint64_t json_limit = 64U << 20;
constexpr std::uint64_t header_limit = 100U << 20;  // safetensors' own
constexpr std::uint64_t header_read = 16U << 20;    // of 100,000 tensors; more tells us nothing

bool ends_with(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

// Little-endian; REQUIRES: it fits.
std::uint64_t little_endian(const std::string& text, std::size_t at, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(text[at + static_cast<std::size_t>(i)]);
  return value;
}

Look torn(std::string why) { return {Shape::Torn, std::move(why)}; }

// At 0, or after a block of the user's own at 512, 1024, 2048 ...
std::optional<std::uint64_t> find_superblock(int file, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at + 8 <= bytes; at = at == 0 ? 512 : at * 2) {
    if (read_at(file, at, 8) == std::string(hdf5_signature)) return at;
  }
  return std::nullopt;
}

Look look_at_hdf5(int file, std::uint64_t bytes, std::uint64_t superblock) {
  const auto head = read_at(file, superblock, 48);
  if (!head) return torn("its HDF5 superblock is cut off");
  const auto version = little_endian(*head, 8, 1);
  const bool old = version <= 1;
  const auto width = little_endian(*head, old ? 13 : 9, 1);
  if (version > 3 || width != 8) return {};  // files of more than 4 GiB: 8 bytes are the default
  std::size_t base = 12;
  if (version == 0) base = 24;
  if (version == 1) base = 28;
  const auto end = read_at(file, superblock + base + 16, 8);
  if (!end) return torn("its HDF5 superblock is cut off");
  const std::uint64_t needed = little_endian(*end, 0, 8);
  // A file that was never flushed has an end that is not yet known (all ones).
  // Its writer cuts the file there when it closes it. A block of the user's own comes before.
  const bool elsewhere = superblock == 0 ? needed != bytes : needed > bytes - superblock;
  if (elsewhere || needed == 0)
    return torn("its HDF5 superblock names an end that the file does not have");
  return {};
}

// The end of the last tensor, {"NAME": {"data_offsets": [BEGIN, END], ...}, ...}, found while the
// header is read: as a tree of values it would need twenty times its size.
class LastOffset : public nlohmann::json::json_sax_t {
 public:
  std::uint64_t end() const { return end_; }
  bool null() override { return value(0); }
  bool boolean(bool) override { return value(0); }
  bool number_integer(number_integer_t) override { return value(0); }
  bool number_unsigned(number_unsigned_t number) override { return value(number); }
  bool number_float(number_float_t, const string_t&) override { return value(0); }
  bool string(string_t&) override { return value(0); }
  bool binary(binary_t&) override { return value(0); }
  bool start_object(std::size_t) override { return begin(); }
  bool key(string_t& name) override {
    offsets_ = depth_ == 2 && name == "data_offsets";
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return false;  // the header is an object
    count_ = 0;
    return begin();
  }
  bool end_array() override {
    if (offsets_ && depth_ == 3 && count_ == 2) end_ = std::max(end_, last_);
    return close();
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  bool value(std::uint64_t number) {
    ++count_;
    last_ = number;
    return depth_ > 0;
  }
  bool begin() {
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    ++count_;
    last_ = 0;
    return true;
  }

  int depth_ = 0;
  int count_ = 0;
  bool offsets_ = false;
  std::uint64_t last_ = 0;
  std::uint64_t end_ = 0;
};

Look look_at_safetensors(int file, std::uint64_t bytes) {
  const auto length = bytes >= 8 ? read_at(file, 0, 8) : std::nullopt;
  const std::uint64_t header = length ? little_endian(*length, 0, 8) : header_limit + 1;
  if (header > header_limit || header > bytes - 8) return torn("its safetensors header is cut off");
  if (header > header_read) return {};
  const auto text = read_at(file, 8, header);
  LastOffset last;
  if (!text || !nlohmann::json::sax_parse(*text, &last))
    return torn("its safetensors header is no JSON");
  if (last.end() != bytes - 8 - header) return torn("its safetensors header names another length");
  return {Shape::Sealed, {}};
}

// Is every bracket and string closed that a JSON text opens? Python's own writer says NaN, which is
// no JSON: what the values are is not looked at. A NUL is in none: a block that was never written.
bool is_closed_json(std::string_view text) {
  std::uint64_t depth = 0;
  bool in_string = false;
  bool escaped = false;
  for (const char each : text) {
    if (each == '\0') return false;
    if (escaped) {
      escaped = false;
    } else if (in_string) {
      escaped = each == '\\';
      in_string = each != '"';
    } else if (each == '"') {
      in_string = true;
    } else if (each == '{' || each == '[') {
      ++depth;
    } else if ((each == '}' || each == ']') && depth > 0) {
      --depth;
    }
  }
  return depth == 0 && !in_string;
}

// An entry of a zip's directory, as far as a checkpoint needs it.
struct ZipEntry {
  std::uint16_t method = 0;  // 0: stored, 8: deflated
  std::uint32_t crc = 0;
  std::uint64_t packed = 0;    // bytes in the file
  std::uint64_t unpacked = 0;  // bytes of the content
  std::uint64_t header = 0;    // offset of the local header
};

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

// None: the end record is missing, or what it says does not fit the file.
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

// The content of one entry, piece by piece, stored or deflated.
bool has_its_sum(int file, const ZipEntry& entry) {
  constexpr std::size_t local_size = 30;
  const auto local = read_at(file, entry.header, local_size);
  if (!local || little_endian(*local, 0, 4) != 0x04034b50) return false;
  std::uint64_t at =
      entry.header + local_size + little_endian(*local, 26, 2) + little_endian(*local, 28, 2);
  if (entry.method != Z_DEFLATED && entry.method != 0) return false;
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  constexpr std::size_t piece_size = 1U << 20;
  std::vector<unsigned char> unpacked(piece_size);
  auto crc = ::crc32(0, nullptr, 0);
  bool good = true;
  for (std::uint64_t left = entry.packed; good && left > 0;) {
    auto piece = read_at(file, at, std::min<std::uint64_t>(left, piece_size));
    good = piece.has_value();
    if (!good) break;
    auto* bytes = reinterpret_cast<unsigned char*>(piece->data());
    const auto size = static_cast<unsigned>(piece->size());
    at += size;
    left -= size;
    if (entry.method == 0) {
      crc = ::crc32(crc, bytes, size);
      continue;
    }
    stream.next_in = bytes;
    stream.avail_in = size;
    do {
      stream.next_out = unpacked.data();
      stream.avail_out = piece_size;
      const int state = ::inflate(&stream, Z_NO_FLUSH);
      good = state == Z_OK || state == Z_STREAM_END || state == Z_BUF_ERROR;
      crc = ::crc32(crc, unpacked.data(), piece_size - stream.avail_out);
      good = good && stream.total_out <= entry.unpacked;  // a few bytes may say terabytes
    } while (good && stream.avail_out == 0);
  }
  ::inflateEnd(&stream);
  return good && crc == entry.crc;
}

}  // namespace

std::optional<std::string> read_at(int file, std::uint64_t offset, std::size_t bytes) {
  std::string text = io::read_at(file, offset, bytes);
  return text.size() == bytes ? std::optional(std::move(text)) : std::nullopt;
}

Look look_at(int file, std::uint64_t bytes, std::string_view name) {
  const bool content = ends_with(name, {".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".json",
                                        ".npz", ".keras", ".h5", ".hdf5", ".pkl"});
  if (bytes == 0) return content ? torn("it is empty") : Look{};  // a marker, say
  if (ends_with(name, {".safetensors"})) return look_at_safetensors(file, bytes);
  if (ends_with(name, {".json"}) && bytes <= json_limit) {
    const auto text = read_at(file, 0, bytes);
    if (!text || !is_closed_json(*text)) return torn("the end of its JSON is missing");
    return {Shape::Sealed, {}};
  }
  const auto head = read_at(file, 0, std::min<std::uint64_t>(bytes, 4));
  const bool zip = head == "PK\x03\x04" || ends_with(name, {".npz", ".keras"});
  if (zip && !find_directory(file, bytes)) return torn("the end of its zip archive is missing");
  if (zip) return {Shape::Sealed, {}};
  const bool hdf5 = ends_with(name, {".h5", ".hdf5"});
  const auto superblock = find_superblock(file, bytes);
  if (superblock) return look_at_hdf5(file, bytes, *superblock);
  return hdf5 ? torn("it has no HDF5 superblock") : Look{};
}

bool is_database(int file) {
  constexpr std::string_view signature = "SQLite format 3";
  return read_at(file, 0, signature.size()) == std::string(signature);
}

bool is_known_complete(int file, std::uint64_t bytes) {
  if (checkpoint::is_mostly_unwritten(file)) return false;
  const auto entries = read_zip_directory(file, bytes);
  return entries && !entries->empty() &&
         std::all_of(entries->begin(), entries->end(),
                     [file](const ZipEntry& entry) { return has_its_sum(file, entry); });
}

}  // namespace spotter::guard
