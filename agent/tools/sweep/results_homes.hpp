// The outcomes of experiments whose homes are in a bucket, as these say themselves: the head of
// each, and the account and the curve of what it names.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/aws/s3/client.hpp"
#include "agent/job/job.hpp"
#include "agent/sweep/summary.hpp"

namespace spotter::command {

struct InHomes {
  std::map<std::size_t, sweep::Summary> found;
  std::vector<std::string> warnings;  // what could not be read
};

// Of all homes that are there, without those in `known`. REQUIRES: job.storage.in_bucket().
InHomes read_homes(s3::Client& client, const config::Job& job, const std::set<std::size_t>& known);

}  // namespace spotter::command
