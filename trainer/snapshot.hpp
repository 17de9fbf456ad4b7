// Where a training run stands, and how that lies in a checkpoint's parts and meta.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/wire/result.hpp"
#include "trainer/checkpoint/checkpoint.hpp"
#include "trainer/mlp.hpp"
#include "trainer/parameters.hpp"

namespace spotter::train {

struct Position {
  std::uint64_t step = 0;  // executed since the start of the run
  Score epoch;             // of the training examples so far in this epoch
  Score test;              // after the last whole epoch
  std::string log;         // training.csv, one row each whole epoch
};

// What a run is; a checkpoint of another run must not be continued.
struct Identity {
  nlohmann::json parameters;  // without the number of epochs: a run may be prolonged
  std::string data;           // Mnist::sum
  unsigned threads = 1;
};

nlohmann::json identity_parameters(const Parameters& parameters);

struct Saved {
  Position position;
  Identity identity;
};

Result<std::filesystem::path> save_snapshot(const std::filesystem::path& directory,
                                            std::size_t keep, const Mlp& mlp,
                                            const Position& position, const Identity& identity);

// Reads all but the network itself.
Result<Saved> read_snapshot(const checkpoint::Checkpoint& checkpoint);

Result<void> restore_network(const checkpoint::Checkpoint& checkpoint, Mlp& mlp);

}  // namespace spotter::train
