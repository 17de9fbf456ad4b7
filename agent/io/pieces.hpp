// Files that may be longer than memory: as files.hpp has them, a piece or a line at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "agent/io/files.hpp"

namespace spotter::io {

// As atomic_write(), of pieces: `next` makes the following one of an empty text, until it leaves it
// empty. So a file may be longer than memory.
using NextPiece = std::function<void(std::string&)>;
Result<void, std::error_code> atomic_write_pieces(const std::filesystem::path& path, mode_t mode,
                                                  const NextPiece& next);

// Each line of a regular file, without its end; `whole` is false of a last one that has none. False
// from `each` ends it. Takes memory for one line. std::errc::file_too_large when a line is longer
// than `longest` bytes.
using EachLine = std::function<bool(std::string_view line, bool whole)>;
Result<void, std::error_code> read_lines(const std::filesystem::path& path, std::size_t longest,
                                         const EachLine& each);

}  // namespace spotter::io
