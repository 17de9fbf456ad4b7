// Tells from the bytes of a checkpoint file whether its end is there. Four formats show it; no
// other does.
//   zip (torch.save since 1.6, .npz, .keras): the end-of-central-directory record is written last,
//     and each entry carries a CRC-32 (PKWARE APPNOTE.TXT, 4.3.6 to 4.3.16)
//   safetensors: the header names the last byte
//     (https://github.com/huggingface/safetensors, "Format")
//   HDF5: the superblock names the end of the file (HDF5 File Format Specification, II.A)
//   JSON: each bracket and string is closed
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace spotter::guard {

enum class Shape : std::uint8_t {
  Torn,    // its own format says that bytes are missing
  Sealed,  // of a format whose end is written last, and the end is there
  Open,    // nothing speaks against it, nothing proves it
};

struct Look {
  Shape shape = Shape::Open;
  std::string why;  // of a torn one, for a person
};

// Reads a few kilobytes. `name` tells what the content must be where the extension is certain (.h5,
// .hdf5, .keras, .npz, .safetensors). `file` is a descriptor of a regular file of `bytes` bytes.
Look look_at(int file, std::uint64_t bytes, std::string_view name);

// A database of SQLite's (https://www.sqlite.org/fileformat.html, 1.3), which recovers by itself.
bool is_database(int file);

// Reads all of a zip and compares each entry's CRC-32: true when every byte is as it was written.
// This is what is left to believe in after a power cut, when a length alone proves nothing.
bool is_known_complete(int file, std::uint64_t bytes);

// pread() in full; none when the file is shorter or cannot be read.
std::optional<std::string> read_at(int file, std::uint64_t offset, std::size_t bytes);

}  // namespace spotter::guard
