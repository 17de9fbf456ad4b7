// A volume of EC2's answer as the core sees it.
#pragma once

#include "agent/aws/formats/ec2_values.hpp"
#include "agent/decide/survey.hpp"
#include "agent/job/job.hpp"

namespace spotter::act {

// Whether its holder lives is not known from it.
decide::SeenVolume seen(const wire::Volume& volume, const config::Job& job);

// Another job's volume or snapshot is none of ours, whatever else it is tagged with: a namesake's
// neither. What job.yaml's tag names is ours, also when it was made while that tag was another.
bool is_foreign(const wire::Tags& tags, const config::Job& job);

// Nor is a volume of data that lies free and does not say whose it is, as earlier versions made
// them: it may be a namesake's, and what is seen is used and deleted.
bool is_foreign(const wire::Volume& volume, const config::Job& job);

}  // namespace spotter::act
