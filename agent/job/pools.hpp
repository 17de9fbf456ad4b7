// launch.pools: where the job may run, by region.
//
//   pools: [{types: [g5.xlarge, g6.xlarge], zones: [us-west-2a, us-west-2b]},
//           {region: us-east-2, types: [g5.xlarge]}]
//
// An entry is a place: a region with its types, and what else is of one region only. Of several
// places one has the job's instance; `spotter watch` moves it to another (launch/places.hpp).
#pragma once

#include <string>

#include "agent/job/launch.hpp"
#include "agent/job/reader.hpp"

namespace spotter::config {

// Of launch.cpp.
extern const Scalar<std::string> image, plain_name, instance_type;

Reader::Take pools(Reader& reader, Launch& launch);

// What does not fit together; then the launch is that of the first place, whatever the others are.
// REQUIRES: launch_fields() are read.
void settle_pools(Reader& reader, const Node& node, const std::string& path, Launch& launch);
// Checks that involve other parts of the job.
void check_pools(Reader& reader, const Node& node, const Job& job);

}  // namespace spotter::config
