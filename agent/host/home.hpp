// A job's home in a bucket, as its verbs describe it.
#pragma once

#include "agent/tier/home.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::act::host {

// Fails for a place that is none in S3.
Result<tier::Home> home_of(const verbs::Home& home);

}  // namespace spotter::act::host
