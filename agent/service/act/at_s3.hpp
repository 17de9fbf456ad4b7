// What S3 answers to the agent itself, as the core represents it.
#pragma once

#include "agent/aws/s3/client.hpp"
#include "agent/decide/event.hpp"

namespace spotter::act {

// `what` was asked for: "the fence". A conditional write of whose condition nothing is left is
// Failure::Conflict.
decide::EffectFailed failed_at_s3(const s3::Failure& failure, const char* what);

// A request that S3 does not answer is repeated for so long; the rest is for looking whether a
// write was carried out.
s3::Settings s3_settings(Duration limit);

}  // namespace spotter::act
