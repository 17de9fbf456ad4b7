// Compares the policies on the same tasks, beside the optimum.
#pragma once

#include "tests/capacity/watched.hpp"

namespace spotter::capacity {

struct Row {
  std::string policy;
  double mean = 0, worst = 0;  // its dollars by the optimum's, over the tasks
  std::size_t late = 0;        // tasks that missed the deadline
};

struct Report {
  std::size_t tasks = 0;  // those that somebody can finish in time
  // Ours are called "spotter": with right figures, and with such as are wrong by a twentieth, drawn
  // by two seeds.
  std::vector<Row> rows;
};

// The watcher of this market: of its regions, or of some where the traces name none.
Watching watching_of(const Market& market, std::shared_ptr<Tables> tables = nullptr);

// The tasks are of this market. `best pool` of the table is the one pool that is cheapest for each.
void judge(const Market& market, const std::vector<Task>& tasks, Report& report);

// Means instead of sums, once all is judged.
void finish(Report& report);

void print(const std::string& title, const Report& report);

}  // namespace spotter::capacity
