// Mode `file`: a channel's objects as files below one folder, each where its key says, relative to
// the channel's prefix as SageMaker has it. Fetched in parallel ranges, of the very object that was
// listed (If-Match), compared with S3's checksum, and only then given its name: what has a name is
// whole. A restart, also after SIGKILL or on another instance, fetches what is missing. All
// channels are one queue: the end of one does not wait alone.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "agent/aws/s3/client.hpp"
#include "agent/data/order.hpp"
#include "agent/job/channel.hpp"

namespace spotter::data {

struct DownloadSettings {
  std::vector<wire::Channel> channels;
  std::filesystem::path directory;  // of all channels; the files are below directory/NAME
  // What was listed first, and what is whole. Empty: nothing is listed for good, and what is whole
  // is noted in directory/.spotter-NAME.files.
  std::filesystem::path state;
  std::filesystem::path ledgers;    // of what is whole alone; empty: in `state`
  std::size_t budget = 256U << 20;  // bytes of memory
  Shard shard;
  s3::Settings s3;
};

struct Downloaded {
  std::string channel;
  std::size_t files = 0;
  std::size_t fetched = 0;  // of them, now
  std::uint64_t bytes = 0;  // that came over the network
};

// Returns when all of the channels is there, or fails, in words that name channel and key, or ends
// soon after `stop` says true, as a failure. What cannot become files is told before anything is
// fetched.
Result<std::vector<Downloaded>> download(const DownloadSettings& settings,
                                         const std::function<bool()>& stop);

}  // namespace spotter::data
