// A volume of EC2's answer as the core sees it.
#pragma once

#include "agent/config/job.hpp"
#include "agent/decide/survey.hpp"
#include "agent/wire/ec2_values.hpp"

namespace spotter::act {

// Whether its holder lives is not known from it.
decide::SeenVolume seen(const wire::Volume& volume, const config::Job& job);

}  // namespace spotter::act
