// The data plane: the process that feeds a trainer's channels.
#pragma once

#include <map>

#include "agent/data/stream.hpp"

namespace spotter::data {

struct PlaneSettings {
  std::vector<wire::Channel> channels;
  std::filesystem::path directory;  // of the FIFOs: /opt/ml/input/data
  std::filesystem::path state;      // of the frozen listings; empty: none is kept
  std::filesystem::path cache;      // for the files of mode `file`; empty: they are in `directory`
  std::size_t budget = 256U << 20;  // bytes of memory, for all channels together
  bool splice = true;
  Shard shard;
  std::map<std::string, Position> start;  // by channel; all others begin at 0:0
  s3::Settings s3;
  // Gets the totals of a channel: every ten seconds, and at the end. May be empty.
  std::function<void(const Stream&)> flows;
  // The holder has died. Called before any FIFO closes, with the trainer's pid (0: unknown). It
  // must end the trainer, which would otherwise take the closing for the end of an epoch.
  std::function<void(int trainer)> orphaned;
};

// Each channel's memory; with less it is slower, since pieces are smaller and copied into the pipe,
inline constexpr std::size_t good_budget = 32U << 20;
inline constexpr std::size_t least_budget = 1U << 20;  // and with less than this it fails.

// Feeds the channels until the holder at the other end of `socket` leaves. When data cannot be
// fetched, reports that and keeps running: the FIFOs stay open, so that no reader takes that for an
// end. Fails when it cannot even begin.
Result<void> run_plane(const PlaneSettings& settings, int socket);

}  // namespace spotter::data
