// What `spotter plan` plays and shows: what becomes of a job with a deadline, before it is
// launched.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/market/watched.hpp"
#include "agent/tools/launch/prospects.hpp"

namespace spotter::command {

struct PlanOptions {
  std::string job = "job.yaml";
  std::vector<std::string> traces;
  double on_demand = 0, spot = 0;
  double lasts = 4, gone = 2;  // hours, of made-up spot capacity
  double home = 1;             // gigabytes, which a move to another region brings
  std::size_t samples = 200;
  bool json = false;
  std::string svg;
};

// What is to be done, and where.
struct Order {
  double work = 0, time = 0, start = 0;  // hours
  wire::WallTime due{};
  struct Place {
    std::string region;  // of a job with several
    PoolPrices prices;
  };
  std::vector<Place> places;      // the job begins in the first
  bool price_moves = true;        // as the watcher makes them
  bool channels = false;          // for which it makes none
  std::optional<double> dollars;  // limits.dollars
  config::Deadline::GivesWay gives_way = config::Deadline::GivesWay::Deadline;
};

// What became of the samples under one policy.
struct Prognosis {
  std::string name, region;  // empty: of all regions
  std::vector<double> dollars, hours;
  std::vector<bool> in_time;
  void add(const capacity::Outcome& outcome) {
    in_time.push_back(outcome.in_time);
    dollars.push_back(outcome.dollars);
    hours.push_back(outcome.hours);
  }
  std::size_t late() const { return static_cast<std::size_t>(std::ranges::count(in_time, false)); }
};
std::string hours_text(double hours);
double mean(const std::vector<double>& all);
double percentile(std::vector<double> all, double share);

// On demand, on spot in the best single pool, and as `spotter watch` decides; of a job with several
// regions in each of them, and, the last, over all of them.
class Plan {
 public:
  Plan(const PlanOptions& options, const Order& order) : options_(options), order_(order) {}

  // Fails when the traces cannot be read, are too short, or of other regions than the job.
  Result<void> play();
  const std::vector<Prognosis>& prognoses() const { return all_; }
  std::string assumption() const;

 private:
  // A region, or all of them: its market, and what became of it.
  struct Part {
    std::string region;
    capacity::Watching watching;
    Prognosis on_demand, ours;
    std::vector<Prognosis> pools;
  };
  // Of ten minutes, or a little less, so that they end with the deadline; more of a short time.
  std::size_t ticks() const;
  double tick() const { return order_.time / static_cast<double>(ticks()); }
  capacity::Market made_up(unsigned seed) const;
  Result<void> play_traces();
  void begin();
  void play(const capacity::Market& market, std::size_t first);
  static void play(const capacity::Market& market, const capacity::Task& task, Part& part);
  void choose();

  const PlanOptions& options_;
  const Order& order_;
  std::vector<Part> parts_;  // of each region; of several the last has all
  std::vector<Prognosis> all_;
  std::size_t played_ = 0;
};

// The region with the cheapest on-demand capacity: of those whose price is known, if there are any.
const Order::Place& cheapest_on_demand(const Order& order);

void print_table(const Order& order, const Plan& plan);
void print_json(const Order& order, const Plan& plan);
// Of each plan a line for dollars and one for hours: from the 10th to the 90th percentile, with the
// mean as a bar across. False: the file cannot be written.
bool draw(const Order& order, const Plan& plan, const std::string& file);

}  // namespace spotter::command
