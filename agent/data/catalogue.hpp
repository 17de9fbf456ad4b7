// The objects of a channel, frozen when they are listed for the first time: key, size and ETag. A
// restart reads the same ones in the same order, and a prefix that has changed meanwhile is an
// error and not a shift.
//
// The file (atomic, durable): a JSON object that says what was listed, then one array a line:
//   {"format":1,"prefix":"prefix","source":"s3://bucket/prefix","type":0}
//   ["key",1234,"\"etag\"",true,1700000000]   an object, and when it was written; between them
//                                    its bucket, when it is another
//   ["value"]                        bytes that an augmented manifest has itself
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/s3/checksum.hpp"
#include "agent/s3/client.hpp"
#include "agent/wire/channels.hpp"

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

class Catalogue {
 public:
  // `frozen`: where the listing is kept; empty: nowhere.
  Catalogue(wire::Channel channel, std::filesystem::path frozen)
      : channel_(std::move(channel)), frozen_(std::move(frozen)) {}

  // Numbers of a manifest's objects, each once, what is to be known first at the front; empty: in
  // their order. Called when they are counted().
  using Order = std::function<std::vector<std::uint32_t>()>;

  // Asks S3, while the client is turned; a frozen listing is there at once, and what S3 says is
  // compared with it. REQUIRES: neither this nor the client moves or ends before complete().
  void begin(s3::Client& client, Order order = {});
  // The order is now another one.
  void reorder();

  // In the order of their keys' bytes, or of the manifest. They come page by page. An augmented
  // manifest's line gives as many as the channel has attributes.
  const std::vector<Entry>& entries() const { return first_.entries; }
  const std::string& prefix() const { return first_.prefix; }
  // No more will come: those of a manifest are then named, but not all of them known().
  bool counted() const { return counted_ || complete_; }
  bool complete() const { return complete_; }
  // S3 has said, in this life, that it is still so. Before that no epoch may end.
  bool confirmed() const { return confirmed_; }
  // A text that names the channel and what is wrong.
  const std::optional<std::string>& failed() const { return failed_; }

 private:
  Result<void> thaw();
  void ask(s3::Client& client, const std::string& token);
  void take(s3::Client& client, const s3::Answer& answer);
  void read_manifest(s3::Client& client);
  void fetch_manifest(s3::Client& client, std::uint64_t size, const std::string& etag);
  void take_manifest(s3::Client& client);
  bool parse_plain();
  bool parse_augmented();
  void look_further(s3::Client& client);
  void look_at(s3::Client& client, std::size_t index);
  std::string url(const Entry& entry) const;
  void all_listed();
  void fail(const std::string& what);
  Listing& listed() { return thawed_ ? again_ : first_; }

  wire::Channel channel_;
  std::filesystem::path frozen_;
  Listing first_;
  Listing again_;  // what S3 lists now, where first_ was frozen
  bool thawed_ = false;
  bool counted_ = false;
  bool complete_ = false;
  bool confirmed_ = false;
  std::string manifest_;  // its text, while it is fetched
  std::size_t open_ = 0;  // requests of one step
  Order ask_order_;
  // Of a manifest's entries: which come first, which is next of them, and which were looked at.
  std::vector<std::uint32_t> order_;
  std::size_t next_ = 0;
  std::vector<bool> looked_at_;
  std::optional<std::string> failed_;
};

}  // namespace spotter::data
