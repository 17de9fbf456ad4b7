// Whether a failed attempt is followed by another.
// https://docs.aws.amazon.com/batch/latest/APIReference/API_EvaluateOnExit.html
#pragma once

#include "tests/world/batch/values.hpp"

namespace spotter::world::batch {

// The first rule decides whose patterns all match; without one that does, it is tried again.
// `made`: attempts made so far. A pattern is the whole text, or its beginning and an asterisk.
bool tries_again(const RetryStrategy& strategy, int made, const Ending& ending);

// retryStrategy of a request; null stands for one attempt.
Expected<RetryStrategy> parse_retry(const Json& document);

}  // namespace spotter::world::batch
