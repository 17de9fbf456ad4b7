// What of a channel is frozen: its objects, as they were listed for the first time.
//
// The file (atomic, durable): a JSON object that says what was listed, then one array a line:
//   {"format":1,"prefix":"prefix","source":"s3://bucket/prefix","type":0}
//   ["key",1234,"\"etag\"",true,1700000000]   an object, and when it was written; between them
//                                    its bucket, when it is another
//   ["value"]                        bytes that an augmented manifest has itself
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
  bool checksum = false;             // S3 has one of it
  std::string bucket;                // empty: the channel's
  std::optional<std::string> value;  // it is no object, but these bytes
  // What a manifest names is known some time after its name.
  bool known() const { return value || !etag.empty(); }
  std::int64_t modified = 0;  // seconds since 1970; 0: not known
  // Is the same data: also when it was written again, later.
  friend bool operator==(const Entry& one, const Entry& other) {
    return one.key == other.key && one.size == other.size && one.etag == other.etag &&
           one.checksum == other.checksum && one.bucket == other.bucket && one.value == other.value;
  }
};

// Its own, or the channel's.
inline const std::string& bucket_of(const Entry& entry, const wire::Channel& channel) {
  return entry.bucket.empty() ? channel.source.bucket : entry.bucket;
}

struct Listing {
  std::string prefix;  // of the keys: the channel's, or its manifest's
  std::vector<Entry> entries;
  friend bool operator==(const Listing&, const Listing&) = default;
};

std::string encode_listing(const wire::Channel& channel, const Listing& listing);
// Fails on one of another source, and on what encode_listing() has not written.
Result<Listing> decode_listing(const wire::Channel& channel, std::string_view text);

// The same as a durable file, a line at a time: of ten million keys it has more than 1 GiB.
Result<void> write_listing(const std::filesystem::path& path, const wire::Channel& channel,
                           const Listing& listing);
// Nothing where there is no such file.
Result<std::optional<Listing>> read_listing(const std::filesystem::path& path,
                                            const wire::Channel& channel);

}  // namespace spotter::data
