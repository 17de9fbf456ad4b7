// What `spotter sweep results` shows of the experiments of a sweep, in which order. No I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/sweep/summary.hpp"

namespace spotter::command {

using Summaries = std::vector<sweep::Summary>;

struct SortOrder {
  std::string metric;  // accuracy, loss, epoch, step, seconds, attempts, index, or a parameter
  bool largest_first = false;
};

// "accuracy", "loss:max"; empty: accuracy where anybody has said one, else loss, else the index.
// Fails on a metric that none has, and then says which there are.
Result<SortOrder> sort_order(const Summaries& all, const std::string& asked);

// The best first; then what has not ended well yet, then what has failed, what waits last. Who
// lacks the metric comes behind those that have it.
void sort(Summaries& all, const SortOrder& order);

// For a terminal of that many columns and rows; 0: any number. Ends with a line that counts.
struct Screen {
  std::size_t columns = 0;
  std::size_t rows = 0;
};
std::string to_table(const Summaries& sorted, const SortOrder& order, const Screen& screen);

// RFC 4180, with a header. A parameter that has the name of another column is `parameter.NAME`.
std::string to_csv(const Summaries& sorted);
std::string to_json(const Summaries& sorted);  // a list

// An SVG file that needs nothing else: the learning curves over the steps. `sorted`: the best
// first. Fails when there is nothing to draw. The metric is `order`'s where that has a curve, else
// the accuracy or the loss.
Result<std::string> to_svg(const Summaries& sorted, const SortOrder& order,
                           const std::string& title);

// --- of the above, shared by its parts
// In the order in which they first appear.
std::vector<std::string> parameter_names(const Summaries& all);
// Those that are not the same in all.
std::vector<std::string> differing(const Summaries& all);
// Empty: it has no such parameter.
std::string parameter_text(const sweep::Summary& summary, const std::string& name);
// 0.98765; digits: of a number for people.
std::string short_number(double value, int digits = 5);

}  // namespace spotter::command
