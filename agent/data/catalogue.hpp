// The objects of a channel, frozen when they are listed for the first time: key, size and ETag. A
// restart reads the same objects in the same order. If the prefix has changed meanwhile, that is an
// error, and not a shifted stream.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/aws/formats/pages.hpp"
#include "agent/aws/s3/checksum.hpp"
#include "agent/aws/s3/client.hpp"
#include "agent/data/listing.hpp"
#include "agent/job/channel.hpp"

namespace spotter::data {

class Catalogue {
 public:
  // `frozen`: the file that keeps the listing; empty: none.
  Catalogue(wire::Channel channel, std::filesystem::path frozen)
      : channel_(std::move(channel)), frozen_(std::move(frozen)) {}

  // Numbers of a manifest's objects, each once, those needed first at the front; empty: in the
  // manifest's order. Called once counted() is true.
  using Order = std::function<std::vector<std::uint32_t>()>;

  // Asks S3; answers come while the client is turned. A frozen listing is there at once, and S3's
  // is compared with it. REQUIRES: neither this nor the client moves or ends before complete().
  void begin(s3::Client& client, Order order = {});
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
  // A message that names the channel and what is wrong.
  const std::optional<std::string>& failed() const { return failed_; }

 private:
  Result<void> thaw();
  void ask(s3::Client& client, const std::string& token);
  void take(s3::Client& client, const s3::Answer& answer);
  void add(Entry entry);
  void compare(const Entry* now);
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
  Listing again_;  // what a manifest names now, to be compared with a frozen first_
  // Of a prefix's objects, which come in order: how many are unchanged.
  std::size_t compared_ = 0;
  wire::Pages pages_{wire::object_pages};
  bool thawed_ = false;
  bool counted_ = false;
  bool complete_ = false;
  bool confirmed_ = false;
  std::string manifest_;  // the manifest's text, while it is fetched
  std::size_t open_ = 0;  // requests of the current step
  Order ask_order_;
  // Of a manifest's entries: the order to look at them, the next one in it, and those looked at.
  std::vector<std::uint32_t> order_;
  std::size_t next_ = 0;
  std::vector<bool> looked_at_;
  std::optional<std::string> failed_;
};

}  // namespace spotter::data
