// Prices of a job's machines, asked of AWS if credentials allow it.
#pragma once

#include "agent/report/model.hpp"

namespace spotter::command {

// The spot prices (ec2:DescribeSpotPriceHistory, of the last 90 days) and on-demand prices
// (pricing:GetProducts) of the types and zones in `input`. A given `on_demand` replaces the latter.
// Never fails: its notes say what is missing.
report::Prices prices_of(const report::Input& input, report::Number on_demand);

}  // namespace spotter::command
