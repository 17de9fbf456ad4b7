// An object's attributes, which S3 keeps besides its bytes, and the file for them beside the
// object's.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/world/s3/documents.hpp"

namespace spotter::emulator::s3 {

namespace api = world::s3;

// Identifies the content that a file had: a user may replace it behind our back.
struct Identity {
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970

  bool operator==(const Identity&) const = default;
};
Identity identity_of(const struct stat& status);
world::WallTime modified_of(const Identity& identity);

struct Attributes {
  std::string etag;          // without quotation marks
  std::string content_type;  // empty: binary/octet-stream
  api::Fields headers = {};  // to be sent back: Cache-Control, x-amz-meta-..., in lower case
  api::Checksums checksums = {};
  bool composite = false;                      // the checksums are of the parts' checksums
  std::vector<std::uint64_t> part_sizes = {};  // of an upload in parts
};

struct Recorded {
  std::string key;
  Identity identity;
  Attributes attributes;
};
// Written to a temporary name and renamed. False, with errno, when that fails.
bool write_record(const std::filesystem::path& path, const Recorded& record);
std::optional<Recorded> read_record(const std::filesystem::path& path);  // nothing: none, or torn

// The attributes of a file that nobody uploaded: the MD5 of its content where it is small, like S3.
// A large or sparse one gets the form of an upload in parts ("...-1"), which promises no MD5, and
// says which file it is: to read a terabyte for a listing would take an hour.
Attributes derive(int descriptor, const struct stat& status);

}  // namespace spotter::emulator::s3
