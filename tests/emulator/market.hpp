// `spotter-emulator market TRACE...`: a priced trace of spot capacity, of one pool a file
// (tests/capacity/trace.hpp), is replayed against a running emulator: its pools have capacity, or
// none, at the trace's prices. The files are read here: the emulator may be elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/base/names.hpp"
#include "agent/base/result.hpp"
#include "tests/emulator/client.hpp"

namespace spotter::emulator {

struct MarketOptions {
  std::vector<std::string> places;  // files, or folders of them
  double speed = 1;                 // seconds of the trace in one of this machine's
  std::string tick = "1m";          // of the trace's time, as are these:
  std::string from = "0s";
  std::string until;   // empty: the end of the trace
  std::string lead;    // from the notice to an instance's end, of the emulator's time; empty: AWS's
  double usual = 0.3;  // dollars an hour where a trace has no prices
};

struct PoolName {
  std::string type, zone;
};
// `stem`: the name of a trace's file without its ending, "g5.xlarge_us-west-2a".
Result<PoolName> pool_named(std::string_view stem);

// Prints each change. Returns when the trace has been played, or with why it cannot be.
Result<void> replay(const Client& client, const MarketOptions& options);

}  // namespace spotter::emulator
