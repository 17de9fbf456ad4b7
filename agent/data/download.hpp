// Mode `file`: a channel's objects as files below one folder, each where its key says, relative to
// the channel's prefix as SageMaker has it. Fetched in parallel ranges, of the very object that was
// listed (If-Match), compared with S3's checksum, and only then given its name: what has a name is
// whole. A restart, also after SIGKILL or on another instance, fetches what is missing.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "agent/data/catalogue.hpp"
#include "agent/data/order.hpp"
#include "agent/s3/client.hpp"
#include "agent/wire/channels.hpp"

namespace spotter::data {

struct DownloadSettings {
  wire::Channel channel;
  std::filesystem::path directory;  // of all channels; the files are below directory/NAME
  std::filesystem::path state;      // what was listed and what is whole; empty: all is fetched anew
  std::size_t budget = 256U << 20;  // bytes of memory
  Shard shard;
  s3::Settings s3;
};

struct Downloaded {
  std::size_t files = 0;
  std::size_t fetched = 0;  // of them, now
  std::uint64_t bytes = 0;  // that came over the network
};

// Returns when all of the channel is there, or fails, in words that name channel and key, or ends
// soon after `stop` says true, as a failure.
Result<Downloaded> download(const DownloadSettings& settings, const std::function<bool()>& stop);

}  // namespace spotter::data
