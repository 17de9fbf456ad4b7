// The objects of a channel, frozen when they are listed for the first time: key, size and ETag. A
// restart reads the same ones in the same order, and a prefix that has changed meanwhile is an
// error and not a shift.
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
  Listing again_;  // what a manifest names now, where first_ was frozen
  // Of a prefix's objects, which come in order: how many are as they were.
  std::size_t compared_ = 0;
  wire::Pages pages_{wire::object_pages};
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
