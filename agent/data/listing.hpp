// The frozen part of a channel: its objects, as they were listed for the first time.
//
// The file (atomic, durable): a JSON object that names the source, then one array a line:
//   {"format":1,"prefix":"prefix","source":"s3://bucket/prefix","type":0}
//   ["key",1234,"\"etag\"",true,1700000000]   an object, and when it was written; between them
//                                    its bucket, when it is another
//   ["value"]                        bytes that an augmented manifest itself contains
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/job/channel.hpp"

namespace spotter::data {

struct Entry {
  std::string key;
  std::uint64_t size = 0;
  std::string etag;
  bool checksum = false;             // S3 has one
  std::string bucket;                // empty: the channel's
  std::optional<std::string> value;  // these bytes, in place of an object
  // Of an object that a manifest names, size and ETag come later than the name.
  bool known() const { return value || !etag.empty(); }
  std::int64_t modified = 0;  // seconds since 1970; 0: not known
  // True for the same data, even if it was written again later.
  friend bool operator==(const Entry& one, const Entry& other) {
    return one.key == other.key && one.size == other.size && one.etag == other.etag &&
           one.checksum == other.checksum && one.bucket == other.bucket && one.value == other.value;
  }
};

// The entry's own bucket, or the channel's.
inline const std::string& bucket_of(const Entry& entry, const wire::Channel& channel) {
  return entry.bucket.empty() ? channel.source.bucket : entry.bucket;
}

struct Listing {
  std::string prefix;  // of the keys: the channel's, or its manifest's
  std::vector<Entry> entries;
  friend bool operator==(const Listing&, const Listing&) = default;
};

std::string encode_listing(const wire::Channel& channel, const Listing& listing);
// Fails for a listing of another source, and for what encode_listing() did not write.
Result<Listing> decode_listing(const wire::Channel& channel, std::string_view text);

// Writes a durable file, line by line: for ten million keys it has more than 1 GiB.
Result<void> write_listing(const std::filesystem::path& path, const wire::Channel& channel,
                           const Listing& listing);
// None: there is no such file.
Result<std::optional<Listing>> read_listing(const std::filesystem::path& path,
                                            const wire::Channel& channel);

}  // namespace spotter::data
