// Where a training run stands, and how that lies in a checkpoint's parts and meta.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/base/result.hpp"
#include "trainer/library/session.hpp"
#include "trainer/reference/network.hpp"
#include "trainer/reference/parameters.hpp"

namespace spotter::train {

struct Position {
  std::uint64_t step = 0;  // executed since the start of the run
  Score epoch;             // of the training examples so far in this epoch
  Score test;              // after the last whole epoch
  std::string log;         // training.csv, one row each whole epoch
  // For the meta: what was consumed of a channel; an empty object where none is read.
  nlohmann::json consumed = nlohmann::json::object();
};

// What a run is; a checkpoint of another run must not be continued.
struct Identity {
  nlohmann::json parameters;  // without the number of epochs: a run may be prolonged
  std::string data;           // Dataset::sum
  unsigned threads = 1;
  std::size_t devices = 1;
};

nlohmann::json identity_parameters(const Parameters& parameters);

struct Saved {
  Position position;
  Identity identity;
};

// Returns as soon as the state is copied (Session::save()).
Result<checkpoint::Saved> save_snapshot(checkpoint::Session& session, const Network& network,
                                        const Position& position, const Identity& identity);

// Reads all but the network itself.
Result<Saved> read_snapshot(const checkpoint::Loaded& loaded);

Result<void> restore_network(const checkpoint::Loaded& loaded, Network& network);

}  // namespace spotter::train
