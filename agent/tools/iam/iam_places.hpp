// Of each place in S3 that a job uses what a policy names: objects, buckets, prefixes.
#pragma once

#include <optional>

#include "agent/tools/iam/iam.hpp"

namespace spotter::command {

// For the values `<name>-objects`, `<name>-buckets` and `<name>-prefixes` of scripts/iam.
void add_places(const config::Job& job, const IamScope& scope, wire::IamValues& values);

// Where libspotter copies its checkpoints, as the trainer's environment says. None: nowhere.
std::optional<wire::S3Location> copied_by_libspotter(const config::Job& job);

}  // namespace spotter::command
