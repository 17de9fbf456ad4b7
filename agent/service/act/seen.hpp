// Converts a volume of EC2's answer for the core.
#pragma once

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/decide/survey.hpp"
#include "agent/job/job.hpp"

namespace spotter::act {

// Does not fill in whether its holder runs.
decide::SeenVolume seen(const wire::Volume& volume, const config::Job& job);

// True for a volume or snapshot of another job, or of a namesake, whatever else it is tagged with.
// What has job.yaml's tag is ours, even if it was made while job.yaml named another tag.
bool is_foreign(const wire::Tags& tags, const config::Job& job);

// Also true for a free volume of data without an owner's tag, as earlier versions made them: it may
// be a namesake's, and volumes that are seen are used and deleted.
bool is_foreign(const wire::Volume& volume, const config::Job& job);

}  // namespace spotter::act
