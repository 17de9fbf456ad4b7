// What a job's machines cost: AWS is asked, where there are credentials that allow it.
#pragma once

#include "agent/report/model.hpp"

namespace spotter::command {

// The history of spot prices (ec2:DescribeSpotPriceHistory, of the last 90 days) and the price
// list's (pricing:GetProducts) of the types and zones that `told` has; the latter is not asked for
// when `on_demand` says it. Never fails: what could not be had, its notes say.
report::Prices prices_of(const report::Told& told, report::Number on_demand);

}  // namespace spotter::command
