// The objects of a channel, frozen when they are listed for the first time: key, size and ETag. A
// restart reads the same ones in the same order, and a prefix that has changed meanwhile is an
// error and not a shift.
//
// The file (atomic, durable): a JSON object that says what was listed, then one array a line:
//   {"format":1,"source":"s3://bucket/prefix","type":0}
//   ["key",1234,"\"etag\"",true]
#pragma once

#include <cstdint>
#include <filesystem>
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
  bool checksum = false;  // S3 has one of it
  friend bool operator==(const Entry&, const Entry&) = default;
};

std::string encode_listing(const wire::Channel& channel, const std::vector<Entry>& entries);
// Fails on one of another source, and on what encode_listing() has not written.
Result<std::vector<Entry>> decode_listing(const wire::Channel& channel, std::string_view text);

class Catalogue {
 public:
  // `frozen`: where the listing is kept; empty: nowhere.
  Catalogue(wire::Channel channel, std::filesystem::path frozen)
      : channel_(std::move(channel)), frozen_(std::move(frozen)) {}

  // Asks S3, while the client is turned; a frozen listing is there at once, and what S3 says is
  // compared with it. REQUIRES: neither this nor the client moves or ends before complete().
  void begin(s3::Client& client);

  // In the order of their keys' bytes, or of the manifest. They come page by page.
  const std::vector<Entry>& entries() const { return entries_; }
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
  void look_at(s3::Client& client, const std::vector<wire::S3Location>& objects);
  void all_listed();
  void fail(const std::string& what);
  std::vector<Entry>& listed() { return thawed_ ? again_ : entries_; }

  wire::Channel channel_;
  std::filesystem::path frozen_;
  std::vector<Entry> entries_;
  std::vector<Entry> again_;  // what S3 lists now, where entries_ is the frozen listing
  bool thawed_ = false;
  bool complete_ = false;
  bool confirmed_ = false;
  std::size_t open_ = 0;
  std::optional<std::string> failed_;
};

}  // namespace spotter::data
