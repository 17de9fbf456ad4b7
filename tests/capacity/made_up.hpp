// Markets that are made up by a seed, of kinds that real traces show: capacity that flickers, that
// is gone for hours or days, whose outages are mostly short and sometimes very long.
#pragma once

#include "tests/capacity/market.hpp"

namespace spotter::capacity {

struct Kind {
  std::string name;
  double available = 1;  // hours of a spell on the average
  double absent = 1;
  double shape = 1;  // of the spells' lengths (Weibull): 1 has no memory; less: a heavy tail
  std::size_t pools = 1;
  double spot = 0.3;       // dollars, where on-demand capacity costs 1
  std::size_t places = 1;  // regions, among which the pools are
  double move = 0;         // dollars, from one to another
};

const std::vector<Kind>& kinds();

Market make_up(const Kind& kind, unsigned seed, std::size_t ticks);

}  // namespace spotter::capacity
