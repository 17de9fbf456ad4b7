// The S3 clients of a process that fetches several channels: one signs, one is anonymous, one pays.
// Channels share them and their connections.
#pragma once

#include <array>
#include <filesystem>

#include "agent/aws/formats/pages.hpp"
#include "agent/aws/s3/checksum.hpp"
#include "agent/aws/s3/client.hpp"
#include "agent/config/channel.hpp"

namespace spotter::data {

class Clients {
 public:
  explicit Clients(s3::Settings settings) : settings_(std::move(settings)) {}

  s3::Client& of(const wire::Channel& channel) {
    auto& client = clients_.at(channel.anonymous ? 1 : channel.requester_pays ? 2 : 0);
    if (!client) {
      s3::Settings settings = settings_;
      settings.anonymous = settings.anonymous || channel.anonymous;
      settings.requester_pays = channel.requester_pays;
      client = std::make_unique<s3::Client>(std::move(settings));
    }
    return *client;
  }

  // Null: no channel has used it.
  const std::array<std::unique_ptr<s3::Client>, 3>& all() const { return clients_; }

 private:
  s3::Settings settings_;
  std::array<std::unique_ptr<s3::Client>, 3> clients_;
};

// An epoch's objects and their order: the same on every instance and after every restart.

// This instance's part of the objects: those whose number is `index` modulo `count`.
struct Shard {
  std::size_t index = 0;
  std::size_t count = 1;
};

// Numbers 0 .. count - 1 in an order that depends on seed and epoch only.
std::vector<std::uint32_t> shuffled(std::size_t count, std::uint64_t seed, std::uint64_t epoch);

// The number of the `objects` objects that are in the shard.
std::size_t share(std::size_t objects, const Shard& shard);

// The frozen part of a channel: its objects, as they were listed for the first time.
//
// The file (atomic, durable): a JSON object that names the source, then one array a line:
//   {"format":1,"prefix":"prefix","source":"s3://bucket/prefix","type":0}
//   ["key",1234,"\"etag\"",true,1700000000]   an object, and when it was written; between them
//                                    its bucket, when it is another
//   ["value"]                        bytes that an augmented manifest itself contains

struct Entry {
  std::string key;
  std::uint64_t size = 0;
  std::string etag;
  bool checksum = false;             // S3 has one
  std::string bucket;                // empty: the channel's
  std::optional<std::string> value;  // these bytes, in place of an object
  // A manifest names an object before its size and ETag are known.
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

// Writes a durable file, line by line: for ten million keys it has more than 1 GiB.
Result<void> write_listing(const std::filesystem::path& path, const wire::Channel& channel,
                           const Listing& listing);
// None: there is no such file. Fails for a listing of another source, and for what write_listing()
// did not write.
Result<std::optional<Listing>> read_listing(const std::filesystem::path& path,
                                            const wire::Channel& channel);

// The objects of a channel, frozen when they are listed for the first time: key, size and ETag. A
// restart reads the same objects in the same order. If the prefix has changed meanwhile, that is an
// error, and not a shifted stream.
class Catalogue {
 public:
  // `frozen`: the file that keeps the listing; empty: none.
  Catalogue(wire::Channel channel, std::filesystem::path frozen)
      : channel_(std::move(channel)), frozen_(std::move(frozen)) {}

  // Numbers of a manifest's objects, each once, those needed first at the front; empty: in the
  // manifest's order. Called once counted() is true.
  using Order = std::function<std::vector<std::uint32_t>()>;

  // Asks S3; answers come while the client is turned. A frozen listing is there at once, and S3's
  // is compared with it. REQUIRES: neither this nor the client moves or ends before complete() or
  // abandon().
  void begin(s3::Client& client, Order order = {});
  // Drops the calls whose answers are written into this.
  void abandon();
  // Calls Order again, whose result has changed.
  void reorder();

  // In the order of their keys' bytes, or of the manifest; they arrive page by page. A line of an
  // augmented manifest gives as many entries as the channel has attributes.
  const std::vector<Entry>& entries() const { return first_.entries; }
  const std::string& prefix() const { return first_.prefix; }
  // No more entries will come. Those of a manifest then have names, but not all are known().
  bool counted() const { return counted_ || complete_; }
  bool complete() const { return complete_; }
  // S3 has confirmed to this process that the objects are unchanged. No epoch may end before.
  bool confirmed() const { return confirmed_; }
  // S3 has given this process a page, or the whole manifest.
  bool answered() const { return answered_; }
  // A message that names the channel and what is wrong.
  const std::optional<std::string>& failed() const { return failed_; }

 private:
  Result<void> thaw();
  // Sends a request whose answer is written into a member.
  void start(s3::Request request, s3::Client::Done done);
  void ask(const std::string& token);
  void take(const s3::Answer& answer);
  void read_archived(const std::string& key, std::string next);
  void ask_next(const std::string& next);
  void add(Entry entry);
  void compare(const Entry* now);
  void read_manifest();
  void fetch_manifest(std::uint64_t size, const std::string& etag);
  void take_manifest();
  bool parse_plain();
  bool parse_augmented();
  void look_further();
  void look_at(std::size_t index);
  std::string url(const Entry& entry) const;
  void all_listed();
  void fail(const std::string& what);
  Listing& listed() { return thawed_ ? again_ : first_; }

  wire::Channel channel_;
  s3::Client* client_ = nullptr;  // from begin() on
  std::filesystem::path frozen_;
  Listing first_;
  Listing again_;  // what a manifest names now, to be compared with a frozen first_
  // The number of unchanged objects of a prefix, which come in order.
  std::size_t compared_ = 0;
  wire::Pages pages_{wire::object_pages};
  bool thawed_ = false;
  bool counted_ = false;
  bool complete_ = false;
  bool confirmed_ = false;
  bool answered_ = false;
  bool reads_archived_ = false;  // objects of a class that says that they must be restored first
  char byte_ = 0;                // of one of them
  std::string manifest_;         // the manifest's text, while it is fetched
  std::size_t open_ = 0;         // requests of the current step
  std::vector<s3::Client::CallId> into_ours_;  // calls whose answers go into the two above
  Order ask_order_;
  // A manifest's entries: the order to look at them, the next one in it, and those looked at.
  std::vector<std::uint32_t> order_;
  std::size_t next_ = 0;
  std::vector<bool> looked_at_;
  std::optional<std::string> failed_;
};

}  // namespace spotter::data
