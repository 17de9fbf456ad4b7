// The output of `spotter sweep results`: order and formats. No I/O.
#pragma once

#include "agent/sweep/summary.hpp"

namespace spotter::command {

using Summaries = std::vector<sweep::Summary>;

struct SortOrder {
  // A metric, epoch, step, seconds, attempts, index, or a parameter
  std::string metric;
  bool largest_first = false;
  std::string note = {};  // why it is not by the sweep's objective
};

// Parses "accuracy", "loss:max"; empty: as the objective says, see sweep/summary.hpp. Fails for a
// metric that none has, listing those that exist.
Result<SortOrder> sort_order(const Summaries& all, const std::string& asked,
                             const std::optional<sweep::Objective>& objective = {});

// Finished ones first, the best at the top; then unfinished, failed, and waiting ones. Those
// without the metric come after those with it.
void sort(Summaries& all, const SortOrder& order);

// A table for a terminal of that size; 0: unlimited. The last line has the counts.
struct Screen {
  std::size_t columns = 0;
  std::size_t rows = 0;
};
std::string to_table(const Summaries& sorted, const SortOrder& order, const Screen& screen);

// RFC 4180, with a header. A parameter with the name of another column is `parameter.NAME`.
std::string to_csv(const Summaries& sorted);
std::string to_json(const Summaries& sorted);  // a list

// In the order in which they first appear.
std::vector<std::string> parameter_names(const Summaries& all);
// Parameters that differ between experiments.
std::vector<std::string> differing(const Summaries& all);

}  // namespace spotter::command
