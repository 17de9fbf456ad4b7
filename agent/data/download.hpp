// Mode `file`: a channel's objects as files below one folder, at their keys relative to the
// channel's prefix, as in SageMaker. Each is fetched in parallel ranges, of exactly the object that
// was listed (If-Match), and compared with S3's checksum before it is renamed to its name: a file
// with its name is complete. A restart, also after SIGKILL or on another instance, fetches only
// what is missing. All channels form one queue, so that no channel's last files are fetched alone.
#pragma once

#include "agent/aws/s3/client.hpp"
#include "agent/config/channel.hpp"
#include "agent/data/catalogue.hpp"

namespace spotter::data {

struct DownloadSettings {
  std::vector<wire::Channel> channels;
  std::filesystem::path directory;  // of all channels; the files are below directory/NAME
  // The first listings, and which files are complete. Empty: no listing is kept, and complete files
  // are recorded in directory/.spotter-NAME.files.
  std::filesystem::path state;
  std::filesystem::path ledgers;    // of the record of complete files; empty: in `state`
  std::size_t budget = 256U << 20;  // bytes of memory
  Shard shard;
  s3::Settings s3;
};

struct Downloaded {
  std::string channel;
  std::size_t files = 0;
  std::size_t fetched = 0;  // of the files, by this call
  std::uint64_t bytes = 0;  // received over the network
};

// Returns when all files of the channels are there. Fails with a message that names channel and
// key; also soon after `stop` returns true. Objects that cannot become files are reported before
// anything is fetched.
Result<std::vector<Downloaded>> download(const DownloadSettings& settings,
                                         const std::function<bool()>& stop);

}  // namespace spotter::data
