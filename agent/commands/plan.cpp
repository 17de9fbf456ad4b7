// `spotter plan`: what a job with a deadline will cost, on demand alone and on average as `spotter
// watch` will have it, before it is launched.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "agent/base/json.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/job_storage.hpp"
#include "agent/commands/launch.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/commands/prospects.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/deadline.hpp"
#include "agent/launch/watch_mark.hpp"

namespace spotter::command {
namespace {

struct PlanOptions {
  std::string job = "job.yaml";
  double on_demand = 0, spot = 0;
  // Hours of spot capacity: what the watcher believes before it has seen any.
  double lasts = capacity::Settings().available.hours, gone = capacity::Settings().absent.hours;
  bool json = false;
};

struct Place {
  std::string region;
  PoolPrices prices;
};

// The work to plan, and its places.
struct Order {
  double work = 0, time = 0, start = 0;  // hours
  wire::WallTime now{}, due{};
  std::vector<Place> places;      // the job begins in the first
  std::optional<double> dollars;  // limits.dollars
  std::string move;               // words_of_move(); empty: a volume whose size AWS has, or none
};

// In one place.
struct Cost {
  double on_demand = 0, expected = 0;
  wire::WallTime latest{};
};

std::string hours_text(double hours) { return printed("%.1f", hours) + " h"; }

// A price that was given goes before AWS's; an unknown one is guessed by the other.
Result<PoolPrices> settled(const PlanOptions& options, const JobPlace* place,
                           const config::Launch& launch) {
  PoolPrices prices;
  if (options.on_demand <= 0 || options.spot <= 0) {
    prices = prices_now(*place->calls, launch);
    if (!prices.trouble.empty())
      io::complain("plan", place->calls->region().str() + ": " + prices.trouble +
                               "; --on-demand and --spot give the prices");
  }
  if (options.on_demand > 0) {
    prices.on_demand = options.on_demand;
    prices.known.on_demand = true;
  }
  if (options.spot > 0) {
    prices.spot = options.spot;
    prices.known.spot = true;
  }
  if (!prices.known.on_demand && !prices.known.spot)
    return failure("neither price of " + place->calls->region().str() +
                   " is known; give one: --on-demand, --spot");
  guess_unknown(prices);
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

// Finds the same regions as `spotter watch`. AWS is not asked if both prices are given.
Result<std::vector<Place>> places_in(const PlanOptions& options, const config::Job& job) {
  const bool asks = options.on_demand <= 0 || options.spot <= 0;
  const bool several = job.launch->places.size() > 1;
  std::vector<Place> all;
  const auto add = [&](const JobPlace* place, const config::Launch& launch) -> Result<void> {
    const auto prices = TRY(settled(options, place, launch));
    all.push_back({several ? place->calls->region().str() : launch.region, prices});
    return {};
  };
  if (!asks && !several) {
    TRY(add(nullptr, config::launch_at(*job.launch, 0)));
    return all;
  }
  const auto places = asks ? places_of(job) : unnamed_places_of(job);
  if (!places && several) return tl::unexpected(places.error());
  if (!places) return failure(places.error().message + "; or give the prices: --on-demand, --spot");
  for (const JobPlace& it : *places) TRY(add(&it, *it.job.launch));
  return all;
}

Result<Order> order_of(const PlanOptions& options) {
  auto job = TRY(job_to_launch(options.job));
  const config::Deadline& deadline = job.deadline;
  if (!deadline.is_set())
    return failure(options.job +
                   " has no deadline: `finish_by: 2026-12-04T18:00Z`, or `within: 36h`");
  if (!deadline.work)
    return failure(options.job + " has no `launch.work`, about how long all of the training takes");
  Order order;
  order.now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  order.due = deadline.within
                  ? order.now + std::chrono::ceil<std::chrono::seconds>(*deadline.within)
                  : *deadline.finish_by;
  order.work = launch::hours_of(*deadline.work);
  order.start = launch::hours_of(launch::start_of(job));
  order.time = launch::hours_of(order.due - order.now);
  order.dollars = deadline.dollars;
  if (job.launch->volume) order.move = words_of_move(job, job.launch->volume->size_gib);
  if (order.time < order.work + order.start)
    return failure("until " + wire::to_rfc3339(order.due) + " there are " + hours_text(order.time) +
                   ": too few for " + hours_text(order.work) + " of training and a start of " +
                   hours_text(order.start));
  order.places = TRY(places_in(options, job));
  return order;
}

Cost cost_of(const Order& order, const Place& place, const PlanOptions& options) {
  const launch::Prospect prospect{.due = order.due,
                                  .work = {order.work},
                                  .start = order.start,
                                  .interval = 1.0 / 60,
                                  .on_demand = place.prices.on_demand,
                                  .spot = place.prices.spot,
                                  .zone = place.prices.zone,
                                  .dollars_left = {}};
  const auto expected = launch::expect(prospect, order.now, options.lasts, options.gone);
  return {(order.work + order.start) * place.prices.on_demand, expected.dollars, expected.latest};
}

std::string assumption(const Order& order, const PlanOptions& options) {
  std::string text =
      "an average, as the watcher reckons before it has seen any spot capacity: it lasts " +
      printed("%g", options.lasts) + " h and is gone for " + printed("%g", options.gone) +
      " h at a time; prices stay";
  if (order.places.size() > 1) text += "; as if each region were the only one";
  return text;
}

const char* guessed(bool known) { return known ? "" : " (not known: a guess by the other price)"; }

void print_text(const Order& order, const PlanOptions& options) {
  std::printf("finish by %s: %s, for %s of training (launch.work) and %s for each start\n",
              wire::to_rfc3339(order.due).c_str(), hours_text(order.time).c_str(),
              hours_text(order.work).c_str(), hours_text(order.start).c_str());
  for (const Place& it : order.places) {
    const Cost cost = cost_of(order, it, options);
    const std::string region = it.region.empty() ? "" : it.region + ": ";
    std::printf("%s$%.4g an hour on demand%s, $%.4g on spot%s%s%s\n", region.c_str(),
                it.prices.on_demand, guessed(it.prices.known.on_demand), it.prices.spot,
                guessed(it.prices.known.spot), it.prices.zone.empty() ? "" : " in ",
                it.prices.zone.c_str());
    std::printf(
        "%s$%.2f on demand alone, $%.2f as `spotter watch` decides; on demand from %s at the "
        "latest\n",
        region.c_str(), cost.on_demand, cost.expected, wire::to_rfc3339(cost.latest).c_str());
    if (order.dollars)
      std::printf("%slimits.dollars $%.2f is %s than that\n", region.c_str(), *order.dollars,
                  *order.dollars < cost.expected ? "LESS" : "no less");
  }
  std::printf("%s\n", assumption(order, options).c_str());
  if (!order.move.empty()) std::printf("%s\n", order.move.c_str());
}

void print_json(const Order& order, const PlanOptions& options) {
  nlohmann::ordered_json document = {{"finish_by", wire::to_rfc3339(order.due)},
                                     {"hours_left", order.time},
                                     {"hours_of_work", order.work},
                                     {"hours_of_a_start", order.start},
                                     {"assumption", assumption(order, options)},
                                     {"move", order.move},
                                     {"regions", nlohmann::ordered_json::array()}};
  for (const Place& it : order.places) {
    const Cost cost = cost_of(order, it, options);
    document["regions"].push_back(
        {{"region", it.region},
         {"on_demand_price", it.prices.on_demand},
         {"spot_price", it.prices.spot},
         {"zone", it.prices.zone},
         {"known",
          {{"on_demand_price", it.prices.known.on_demand}, {"spot_price", it.prices.known.spot}}},
         {"dollars_on_demand", cost.on_demand},
         {"dollars_expected", cost.expected},
         {"on_demand_from", wire::to_rfc3339(cost.latest)}});
  }
  std::printf("%s\n", wire::json_text(document, 2).c_str());
}

// CLI's own ranges take nan.
std::string finite(const std::string& text) {
  const bool is = std::isfinite(std::strtod(text.c_str(), nullptr));
  return is ? "" : "Value " + text + " is not a finite number";
}

Result<int> run(const PlanOptions& options) {
  const auto order = TRY(of_input(order_of(options)));
  (options.json ? print_json : print_text)(order, options);
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  const auto [command, options] = add_job_command<PlanOptions>(
      app, "plan",
      "What a job with a deadline will cost, before it is launched: on demand alone, and on "
      "average "
      "as `spotter watch` decides with on_demand: when-needed; with `launch.pools` of several "
      "regions in each of them",
      status, run);
  const auto add = [command = command](const char* name, double& value, const char* what) {
    return command->add_option(name, value, what)->check(CLI::PositiveNumber)->check(finite);
  };
  add("--on-demand", options->on_demand, "Dollars an hour, without asking AWS");
  add("--spot", options->spot, "Dollars an hour, without asking AWS");
  add("--lasts", options->lasts, "Hours that spot capacity lasts on average")
      ->capture_default_str();
  add("--gone", options->gone, "Hours for which it is gone then, on average")
      ->capture_default_str();
  command->add_flag("--json", options->json, "With all figures");
}

}  // namespace spotter::command
