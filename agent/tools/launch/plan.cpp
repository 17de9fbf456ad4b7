// `spotter plan`: what a job with a deadline will cost, and when it will end, on demand, on spot in
// one pool, and as `spotter watch` will have it: played on traces, or on markets that are made up.
#include "agent/tools/launch/plan.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <utility>

#include "agent/base/exit_status.hpp"
#include "agent/io/complain.hpp"
#include "agent/launch/deadline.hpp"
#include "agent/tools/jobs/launched_job.hpp"
#include "agent/tools/jobs/places.hpp"
#include "agent/tools/launch/job_command.hpp"
#include "agent/tools/launch/launch.hpp"

namespace spotter::command {
namespace {

double hours(Duration duration) { return std::chrono::duration<double>(duration).count() / 3600; }

// What was given goes before what AWS says; one that nobody knows is guessed by the other.
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

// As `spotter watch` has the regions. Without asking AWS where both prices are given.
Result<std::vector<Order::Place>> places_in(const PlanOptions& options, const config::Job& job) {
  const bool asks = options.on_demand <= 0 || options.spot <= 0;
  const bool several = job.launch->places.size() > 1;
  std::vector<Order::Place> all;
  const auto add = [&](const JobPlace* place, const config::Launch& launch) -> Result<void> {
    const auto prices = settled(options, place, launch);
    if (!prices) return tl::unexpected(prices.error());
    all.push_back({several ? place->calls->region().str() : launch.region, *prices});
    return {};
  };
  if (!asks && !several) {
    if (const auto added = add(nullptr, config::launch_at(*job.launch, 0)); !added)
      return tl::unexpected(added.error());
    return all;
  }
  const auto places = asks ? places_of(job) : unnamed_places_of(job);
  if (!places && several) return tl::unexpected(places.error());
  if (!places) return failure(places.error().message + "; or give the prices: --on-demand, --spot");
  for (const JobPlace& it : *places)
    if (const auto added = add(&it, *it.job.launch); !added) return tl::unexpected(added.error());
  return all;
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
  order.channels = !job->channels.all.empty();
  order.price_moves = job->launch->price_moves && !order.channels;
  order.gives_way = deadline->gives_way;
  auto places = places_in(options, *job);
  if (!places) return tl::unexpected(places.error());
  order.places = std::move(*places);
  return order;
}

// CLI's own ranges take nan.
std::string finite(const std::string& text) {
  const bool is = std::isfinite(std::strtod(text.c_str(), nullptr));
  return is ? "" : "Value " + text + " is not a finite number";
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
      "with prices of AWS, and capacity of traces or of made-up markets; with `launch.pools` of "
      "several regions in each of them, and over all",
      status, run);
  command->add_option(
      "--traces", options->traces,
      "Files, or folders of them, a pool each, with lines of time,available,dollars; "
      "without: markets are made up");
  command->add_option("--on-demand", options->on_demand, "Dollars an hour, without asking AWS")
      ->check(CLI::PositiveNumber)
      ->check(finite);
  command->add_option("--spot", options->spot, "Dollars an hour, without asking AWS")
      ->check(CLI::PositiveNumber)
      ->check(finite);
  command
      ->add_option("--lasts", options->lasts, "Hours that made-up spot capacity lasts on average")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->check(finite);
  command->add_option("--gone", options->gone, "Hours for which it is gone then, on average")
      ->capture_default_str()
      ->check(CLI::PositiveNumber)
      ->check(finite);
  command
      ->add_option("--home", options->home,
                   "Gigabytes that a move to another region brings: checkpoints, code, result")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->check(finite);
  command->add_option("--samples", options->samples, "Made-up markets, or beginnings in the traces")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  command->add_flag("--json", options->json, "With all figures");
  command->add_option("--svg", options->svg, "Also draws a picture into this file");
}

}  // namespace spotter::command
