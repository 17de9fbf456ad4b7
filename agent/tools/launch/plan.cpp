// `spotter plan`: what a job with a deadline will cost, and when it will end, on demand, on spot in
// one pool, and as `spotter watch` will have it: played on traces, or on markets that are made up.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>

#include "agent/base/exit_status.hpp"
#include "agent/base/json.hpp"
#include "agent/io/complain.hpp"
#include "agent/launch/deadline.hpp"
#include "agent/market/made_up.hpp"
#include "agent/market/trace.hpp"
#include "agent/tools/jobs/launched_job.hpp"
#include "agent/tools/jobs/places.hpp"
#include "agent/tools/launch/job_command.hpp"
#include "agent/tools/launch/launch.hpp"
#include "agent/tools/launch/prospects.hpp"

namespace spotter::command {
namespace {

using capacity::Market;
using capacity::Outcome;
using capacity::Task;

struct PlanOptions {
  std::string job = "job.yaml";
  std::vector<std::string> traces;
  double on_demand = 0, spot = 0;
  double lasts = 4, gone = 2;  // hours, of made-up spot capacity
  std::size_t samples = 200;
  bool json = false;
  std::string svg;
};

// The spells of capacity that are made up have a tail, as real ones do (capacity::Kind::shape).
constexpr double usual_shape = 0.7;
constexpr double tick = 1.0 / 6;

// What is to be done, and where.
struct Order {
  double work = 0, time = 0, start = 0;  // hours
  wire::WallTime due{};
  PoolPrices prices;
  std::optional<double> dollars;  // limits.dollars
};

// What became of the samples under one policy.
struct Prognosis {
  std::string name;
  std::vector<double> dollars, hours;
  std::size_t late = 0;

  void add(const Outcome& outcome) {
    dollars.push_back(outcome.dollars);
    hours.push_back(outcome.hours);
    late += outcome.in_time ? 0 : 1;
  }
};

double mean(const std::vector<double>& all) {
  double sum = 0;
  for (const double it : all) sum += it;
  return sum / static_cast<double>(all.size());
}

double percentile(std::vector<double> all, double share) {
  std::ranges::sort(all);
  const auto last = static_cast<double>(all.size() - 1);
  return all[static_cast<std::size_t>(std::lround(share * last))];
}

class Plan {
 public:
  Plan(const PlanOptions& options, const Order& order) : options_(options), order_(order) {}

  // Fails when the traces cannot be read, or are too short.
  Result<void> play() {
    if (!options_.traces.empty()) return play_traces();
    for (unsigned seed = 0; seed < options_.samples; ++seed) play(made_up(seed), 0);
    choose_pool();
    return {};
  }
  const std::vector<Prognosis>& prognoses() const { return all_; }

  std::string assumption() const {
    if (!options_.traces.empty())
      return "spot capacity and prices as in the traces, " + std::to_string(played_) +
             " beginnings";
    char text[256];
    std::snprintf(text, sizeof text,
                  "an assumption: spot capacity of each pool lasts %g h on average and is gone for "
                  "%g h, %zu made-up markets; prices stay",
                  options_.lasts, options_.gone, played_);
    return text;
  }

 private:
  std::size_t ticks() const { return static_cast<std::size_t>(order_.time / tick); }

  Market made_up(unsigned seed) const {
    const auto& pools = order_.prices.pools;
    const capacity::Kind kind{"",          options_.lasts, options_.gone,
                              usual_shape, pools.size(),   order_.prices.spot};
    Market market = make_up(kind, seed, ticks());
    market.on_demand = order_.prices.on_demand;
    for (std::size_t i = 0; i < pools.size(); ++i) {
      market.pools[i].name = pools[i].type + " in " + pools[i].zone;
      std::ranges::fill(market.pools[i].dollars, pools[i].dollars);
    }
    return market;
  }

  Result<void> play_traces() {
    const auto market = capacity::load_market(
        options_.traces, {.tick = tick, .usual = order_.prices.spot}, order_.prices.on_demand);
    if (!market) return tl::unexpected(market.error());
    if (market->ticks() < ticks())
      return failure("the traces are shorter than the time until the deadline");
    const std::size_t room = market->ticks() - ticks();
    const std::size_t samples = std::min(options_.samples, room + 1);
    for (std::size_t i = 0; i < samples; ++i)
      play(*market, room * i / std::max<std::size_t>(samples - 1, 1));
    choose_pool();
    return {};
  }

  void play(const Market& market, std::size_t first) {
    const Task task{first, ticks(), order_.work, order_.start};
    if (all_.empty())
      for (const char* name : {"on demand", "this plan"}) all_.push_back({name, {}, {}, 0});
    pools_.resize(market.pools.size());
    all_[0].add(capacity::play(market, task, *capacity::only_on_demand()));
    all_[1].add(capacity::play(market, task, *capacity::planned(market, task)));
    for (std::size_t i = 0; i < pools_.size(); ++i) {
      pools_[i].name = "spot in " + market.pools[i].name;
      pools_[i].add(capacity::play(market, task, *capacity::one_pool(market, task, i)));
    }
    ++played_;
  }

  void choose_pool() {
    const auto cost = [](const Prognosis& it) { return mean(it.dollars); };
    all_.insert(all_.begin() + 1, *std::ranges::min_element(pools_, {}, cost));
  }

  const PlanOptions& options_;
  const Order& order_;
  std::vector<Prognosis> all_, pools_;
  std::size_t played_ = 0;
};

std::string hours_text(double hours) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f h", hours);
  return text;
}

double share_within(const Prognosis& it, double budget) {
  const auto within = std::ranges::count_if(it.dollars, [&](double one) { return one <= budget; });
  return static_cast<double>(within) / static_cast<double>(it.dollars.size());
}

void print_table(const Order& order, const Plan& plan) {
  std::printf("finish by %s: %s, for %s of training (launch.work) and %s for each start\n",
              wire::to_rfc3339(order.due).c_str(), hours_text(order.time).c_str(),
              hours_text(order.work).c_str(), hours_text(order.start).c_str());
  std::printf("$%.4g an hour on demand, $%.4g on spot%s%s\n", order.prices.on_demand,
              order.prices.spot, order.prices.zone.empty() ? "" : " in ",
              order.prices.zone.c_str());
  std::printf("%-32s %8s %19s %8s %15s %7s\n", "", "dollars", "10 % .. 90 %", "hours",
              "10 % .. 90 %", "late");
  for (const Prognosis& it : plan.prognoses())
    std::printf("%-32s %8.2f %8.2f .. %7.2f %8.1f %6.1f .. %5.1f %5.1f %%\n",
                it.name.substr(0, 32).c_str(), mean(it.dollars), percentile(it.dollars, 0.1),
                percentile(it.dollars, 0.9), mean(it.hours), percentile(it.hours, 0.1),
                percentile(it.hours, 0.9),
                100 * static_cast<double>(it.late) / static_cast<double>(it.dollars.size()));
  if (order.dollars)
    std::printf("limits.dollars $%.2f is enough in %.0f %% of them for this plan\n", *order.dollars,
                100 * share_within(plan.prognoses().back(), *order.dollars));
  std::printf("%s\n", plan.assumption().c_str());
}

void print_json(const Order& order, const Plan& plan) {
  nlohmann::ordered_json document = {{"finish_by", wire::to_rfc3339(order.due)},
                                     {"hours_left", order.time},
                                     {"hours_of_work", order.work},
                                     {"hours_of_a_start", order.start},
                                     {"on_demand_price", order.prices.on_demand},
                                     {"spot_price", order.prices.spot},
                                     {"assumption", plan.assumption()},
                                     {"plans", nlohmann::ordered_json::array()}};
  const auto spread = [](const std::vector<double>& all) {
    return nlohmann::ordered_json{
        {"mean", mean(all)}, {"p10", percentile(all, 0.1)}, {"p90", percentile(all, 0.9)}};
  };
  for (const Prognosis& it : plan.prognoses())
    document["plans"].push_back({{"name", it.name},
                                 {"dollars", spread(it.dollars)},
                                 {"hours", spread(it.hours)},
                                 {"samples", it.dollars.size()},
                                 {"late", it.late}});
  std::printf(
      "%s\n",
      document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char each : text)
    safe += each == '<' ? "&lt;" : each == '&' ? "&amp;" : std::string(1, each);
  return safe;
}

// Of each plan a line for dollars and one for hours: from the 10th to the 90th percentile, with the
// mean as a bar across.
bool draw(const Order& order, const Plan& plan, const std::string& file) {
  constexpr double left = 250, width = 420, line = 34;
  std::ofstream out(file);
  const auto panel = [&](double top, const std::string& title, double most, double mark,
                         std::vector<double> Prognosis::*of) {
    const auto x = [&](double value) { return left + width * std::min(1.0, value / most); };
    char text[512];
    out << "<text x=\"10\" y=\"" << top << "\" font-weight=\"bold\">" << escaped(title)
        << "</text>\n";
    double y = top + 24;
    for (const Prognosis& it : plan.prognoses()) {
      const double low = percentile(it.*of, 0.1), high = percentile(it.*of, 0.9);
      const double middle = mean(it.*of);
      out << "<text x=\"10\" y=\"" << y + 4 << "\">" << escaped(it.name) << "</text>\n";
      std::snprintf(
          text, sizeof text,
          "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#1a73e8\" "
          "stroke-width=\"10\"/><line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" "
          "stroke=\"black\" stroke-width=\"2\"/><text x=\"%.1f\" y=\"%.1f\">%.4g</text>\n",
          x(low), std::max(x(high), x(low) + 2), y, y, x(middle), x(middle), y - 9, y + 9,
          std::max(x(high), x(middle)) + 8, y + 4, middle);
      out << text;
      y += line;
    }
    if (mark > 0 && mark <= most) {
      std::snprintf(text, sizeof text,
                    "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#d93025\" "
                    "stroke-dasharray=\"4\"/>\n",
                    x(mark), x(mark), top + 8, y - 14);
      out << text;
    }
    return y;
  };
  double dollars = order.dollars.value_or(0), hours = order.time;
  for (const Prognosis& it : plan.prognoses()) {
    dollars = std::max(dollars, percentile(it.dollars, 0.9));
    hours = std::max(hours, percentile(it.hours, 0.9));
  }
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"330\" "
         "font-family=\"sans-serif\" font-size=\"13\">\n";
  const double next = panel(24, "Dollars: 10 % to 90 %, and the mean", 1.05 * dollars,
                            order.dollars.value_or(0), &Prognosis::dollars);
  panel(next + 12, "Hours until it ends; the line is the deadline", 1.05 * hours, order.time,
        &Prognosis::hours);
  out << "<text x=\"10\" y=\"320\" font-size=\"11\">" << escaped(plan.assumption())
      << "</text>\n</svg>\n";
  return out.flush().good();
}

double hours(Duration duration) { return std::chrono::duration<double>(duration).count() / 3600; }

Result<PoolPrices> prices_of(const PlanOptions& options, config::Launch& launch) {
  PoolPrices prices;
  if (options.on_demand <= 0 || options.spot <= 0) {
    const auto calls = calls_in(launch.region);  // of several places the first one
    if (!calls) return failure(calls.error().message + "; or give the prices: --on-demand, --spot");
    if (const auto named = name_zones(**calls, launch); !named)
      return failure(named.error().message);
    prices = prices_now(**calls, launch);
    if (!prices.trouble.empty())
      io::complain("plan", prices.trouble + "; --on-demand and --spot give the prices");
  }
  if (options.on_demand > 0) prices.on_demand = options.on_demand;
  if (options.spot > 0) prices.spot = options.spot;
  if (options.spot > 0 || prices.pools.empty()) {
    prices.zone.clear();
    prices.pools.clear();
    for (const std::string& type : launch.instance_types)
      for (const std::string& zone :
           launch.zones.empty() ? std::vector<std::string>{"its region"} : launch.zones)
        prices.pools.push_back({type, zone, prices.spot});
  }
  return prices;
}

Result<Order> order_of(const PlanOptions& options) {
  auto job = job_to_launch(options.job);
  if (!job) return tl::unexpected(job.error());
  const auto deadline = config::load_deadline(options.job);
  if (!deadline) return tl::unexpected(deadline.error());
  if (!deadline->is_set())
    return failure(options.job +
                   " has no deadline: `finish_by: 2026-12-04T18:00Z`, or `within: 36h`");
  if (!deadline->work)
    return failure(options.job + " has no `launch.work`, about how long all of the training takes");
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  Order order;
  order.due = deadline->within ? now + std::chrono::ceil<std::chrono::seconds>(*deadline->within)
                               : *deadline->finish_by;
  order.work = hours(*deadline->work);
  order.start = hours(launch::start_of(*job, *deadline));
  order.time = std::chrono::duration<double>(order.due - now).count() / 3600;
  order.dollars = deadline->dollars;
  if (order.time < order.work + order.start)
    return failure("until " + wire::to_rfc3339(order.due) + " there are " + hours_text(order.time) +
                   ": too few for " + hours_text(order.work) + " of training and a start of " +
                   hours_text(order.start));
  const auto prices = prices_of(options, *job->launch);
  if (!prices) return tl::unexpected(prices.error());
  order.prices = *prices;
  return order;
}

int run(const PlanOptions& options) {
  const auto order = order_of(options);
  if (!order) return io::complain("plan", order.error().message, wrong_input);
  Plan plan(options, *order);
  if (const auto played = plan.play(); !played)
    return io::complain("plan", played.error().message, wrong_input);
  if (options.json)
    print_json(*order, plan);
  else
    print_table(*order, plan);
  if (!options.svg.empty() && !draw(*order, plan, options.svg))
    return io::complain("plan", options.svg + " cannot be written");
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  const auto [command, options] = add_job_command<PlanOptions>(
      app, "plan",
      "What a job with a deadline will cost and when it will end, before it is "
      "launched: on demand, "
      "on spot in the best single pool, and as `spotter watch` decides with "
      "on_demand: when-needed; "
      "with prices of AWS, and capacity of traces or of made-up markets",
      status, run);
  command->add_option(
      "--traces", options->traces,
      "Files, or folders of them, a pool each, with lines of time,available,dollars; "
      "without: markets are made up");
  command->add_option("--on-demand", options->on_demand, "Dollars an hour, without asking AWS")
      ->check(CLI::PositiveNumber);
  command->add_option("--spot", options->spot, "Dollars an hour, without asking AWS")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--lasts", options->lasts, "Hours that made-up spot capacity lasts on average")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--gone", options->gone, "Hours for which it is gone then, on average")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--samples", options->samples, "Made-up markets, or beginnings in the traces")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  command->add_flag("--json", options->json, "With all figures");
  command->add_option("--svg", options->svg, "Also draws a picture into this file");
}

}  // namespace spotter::command
