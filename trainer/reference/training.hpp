// The command line and environment of spotter-train, validated whole, and one run of it: resume,
// train, checkpoint, stop on request, finish.
#pragma once

#include <filesystem>
#include <variant>

#include "trainer/reference/feed.hpp"
#include "trainer/reference/network.hpp"

namespace spotter::train {

struct Options {
  Parameters parameters;
  std::filesystem::path data;        // `pipe:...` where it is read from channels
  std::optional<Channels> channels;  // these
  std::uint32_t examples = 0;        // in an epoch of a channel; 0: as many as the data set has
  Order order = Order::Shuffled;     // of examples in memory
  std::filesystem::path checkpoints;
  std::filesystem::path result;
  // Threads: a network as small as the mlp gains nothing from more, and on busy cores is 9 x
  // slower.
  Hardware hardware;
  std::uint64_t checkpoint_every = 0;  // steps; 0: the ends of epochs, and when the agent asks
  std::size_t keep = 2;                // checkpoints
  std::filesystem::path tensorboard;   // default: below the result
  std::filesystem::path steps_log;     // empty: none
  unsigned slow_down = 0;              // milliseconds a step
};

// The program ends at once: after --help (0) or bad usage (2), whose message was printed.
struct Exit {
  int status = 0;
};

std::variant<Options, Exit> read_options(int count, char** arguments);

enum class Outcome {
  Finished,  // the result is durable
  Stopped,   // a stop signal came; a checkpoint of the very step is durable
};

// Requires catch_stop_signals(). An error's message says what to do; what was durable before still
// is.
Result<Outcome> train(const Options& options);

}  // namespace spotter::train
