// The optimum: the least that a task costs for whoever knows the whole market.
#pragma once

#include "tests/capacity/market.hpp"

namespace spotter::capacity {

// The least that the task can cost by the same rules for whoever knows the whole market: dynamic
// programming over ticks and work, of which a tick does `parts`. Infinite: nobody is in time.
double optimum(const Market& market, const Task& task, std::size_t parts = 5);

}  // namespace spotter::capacity
