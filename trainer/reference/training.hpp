// One run of the trainer: resume, train, checkpoint, stop on request, finish.
#pragma once

#include "agent/base/result.hpp"
#include "trainer/reference/options.hpp"

namespace spotter::train {

enum class Outcome {
  Finished,  // the result is durable
  Stopped,   // a stop signal came; a checkpoint of the very step is durable
};

// Requires catch_stop_signals(). An error's message says what to do; what was durable before still
// is.
Result<Outcome> train(const Options& options);

}  // namespace spotter::train
