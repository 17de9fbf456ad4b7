// The data plane: the process that feeds a trainer's channels.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/data/stream.hpp"

namespace spotter::data {

struct PlaneSettings {
  std::vector<wire::Channel> channels;
  std::filesystem::path directory;  // of the FIFOs: /opt/ml/input/data
  std::filesystem::path state;      // of the frozen listings; empty: none are kept
  std::filesystem::path cache;      // of the files of mode `file`; empty: they are in the directory
  std::size_t budget = 256U << 20;  // bytes of memory, for all channels together
  bool splice = true;
  Shard shard;
  std::map<std::string, Position> start;  // by channel; others begin at the begin
  s3::Settings s3;
  // How much has gone through the channel since the begin: every ten seconds, and at the end. May
  // be empty.
  std::function<void(const Stream&)> flows;
  // The holder has died. Called before any FIFO closes, with the trainer's process (0: none was
  // told): has to end it, so that it does not take that for the end of an epoch.
  std::function<void(int trainer)> orphaned;
};

// For each channel: with less it goes slower, as pieces are smaller and are copied into the pipe,
inline constexpr std::size_t good_budget = 32U << 20;
inline constexpr std::size_t least_budget = 1U << 20;  // and with less than this not at all.

// Feeds the channels until the holder at the other end of `socket` leaves. When data cannot be had
// it says so and stays: the FIFOs stay open, so that nobody takes that for an end. Fails when it
// cannot even begin.
Result<void> run_plane(const PlaneSettings& settings, int socket);

}  // namespace spotter::data
