#include <algorithm>
#include <cmath>

#include "agent/launch/tag_words.hpp"
#include "agent/market/made_up.hpp"
#include "agent/market/trace.hpp"
#include "agent/tools/launch/plan.hpp"

namespace spotter::command {

using capacity::Market;
using capacity::Task;

namespace {

// The spells of capacity that are made up have a tail, as real ones do (capacity::Kind::shape).
constexpr double usual_shape = 0.7;
constexpr double longest_tick = 1.0 / 6;
constexpr double fewest_ticks = 36;

// As if there were that region alone.
Market market_in(const Market& market, std::size_t place, double on_demand) {
  Market own{.tick = market.tick, .on_demand = on_demand, .pools = {}};
  for (const capacity::MarketPool& it : market.pools)
    if (it.place == place) own.pools.push_back(it);
  for (capacity::MarketPool& it : own.pools) it.place = 0;
  return own;
}

}  // namespace

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

const Order::Place& cheapest_on_demand(const Order& order) {
  return *std::ranges::min_element(order.places, {}, [](const Order::Place& it) {
    return std::pair(!it.prices.known.on_demand, it.prices.on_demand);
  });
}

Result<void> Plan::play() {
  begin();
  if (!options_.traces.empty()) return play_traces();
  for (unsigned seed = 0; seed < options_.samples; ++seed) play(made_up(seed), 0);
  choose();
  return {};
}

std::string Plan::assumption() const {
  std::string text;
  if (!options_.traces.empty())
    text = "spot capacity and prices as in the traces, " + std::to_string(played_) + " beginnings";
  else
    text = "an assumption: spot capacity of each pool lasts " +
           launch::figure("%g", options_.lasts) + " h on average and is gone for " +
           launch::figure("%g", options_.gone) + " h, " + std::to_string(played_) +
           " made-up markets; prices stay";
  if (order_.places.size() < 2) return text;
  text += "; a move to another region brings " + launch::figure("%g", options_.home) +
          " GB (--home) for $" + launch::figure("%.2f", dollars_of_move(parts_.back().watching)) +
          " and takes a start; on demand as in " + cheapest_on_demand(order_).region;
  if (order_.price_moves) return text + "; checkpoints that cross a border cost nothing here";
  return text + "; no move is for the price (" +
         (order_.channels ? "the job has channels)" : "launch.price_moves)");
}

std::size_t Plan::ticks() const {
  return static_cast<std::size_t>(
      std::max(fewest_ticks, std::ceil(order_.time / longest_tick - 1e-6)));
}

Market Plan::made_up(unsigned seed) const {
  std::size_t pools = 0;
  for (const Order::Place& it : order_.places) pools += it.prices.pools.size();
  // A market is made up in ticks of its own length.
  const double longer = Market().tick / tick();
  const capacity::Kind kind{.name = "",
                            .available = options_.lasts * longer,
                            .absent = options_.gone * longer,
                            .shape = usual_shape,
                            .pools = pools,
                            .spot = order_.places.front().prices.spot};
  Market market = make_up(kind, seed, ticks());
  market.tick = tick();
  market.on_demand = cheapest_on_demand(order_).prices.on_demand;
  auto it = market.pools.begin();
  for (std::size_t place = 0; place < order_.places.size(); ++place)
    for (const PoolPrices::Pool& pool : order_.places[place].prices.pools) {
      it->name = pool.type + " in " + pool.zone;
      it->type = pool.type;
      it->place = place;
      std::ranges::fill(it->dollars, pool.dollars);
      ++it;
    }
  return market;
}

Result<void> Plan::play_traces() {
  auto market = capacity::load_market(options_.traces,
                                      {.tick = tick(), .usual = order_.places.front().prices.spot},
                                      cheapest_on_demand(order_).prices.on_demand);
  if (!market) return tl::unexpected(market.error());
  if (market->ticks() < ticks())
    return failure("the traces are shorter than the time until the deadline");
  for (capacity::MarketPool& pool : market->pools) {
    const std::string region = market->regions[pool.place];
    const auto place = std::ranges::find(order_.places, region, &Order::Place::region);
    if (order_.places.size() > 1 && place == order_.places.end())
      return failure("the trace " + pool.name + " is of none of the job's regions: name it as in " +
                     "g5.xlarge_us-west-2a.csv");
    pool.place =
        order_.places.size() > 1 ? static_cast<std::size_t>(place - order_.places.begin()) : 0;
  }
  for (std::size_t i = 0; i < order_.places.size(); ++i)
    if (std::ranges::find(market->pools, i, &capacity::MarketPool::place) == market->pools.end())
      return failure("no trace is of " + order_.places[i].region);
  const std::size_t room = market->ticks() - ticks();
  const std::size_t samples = std::min(options_.samples, room + 1);
  for (std::size_t i = 0; i < samples; ++i)
    play(*market, room * i / std::max<std::size_t>(samples - 1, 1));
  choose();
  return {};
}

void Plan::begin() {
  // Three plays of a sample ask for some fifty tables of a megabyte each, and the next sample for
  // most of them again.
  const auto tables = std::make_shared<capacity::Tables>(std::size_t{256} << 20);
  const auto add = [&](const std::string& region, std::vector<std::string> regions) {
    Part part{region,
              {.regions = std::move(regions),
               .gigabytes = options_.home,
               .price_moves = order_.price_moves,
               .tables = tables,
               .dollars = order_.dollars,
               .gives_way = order_.gives_way},
              {},
              {},
              {}};
    part.on_demand.name = "on demand";
    part.ours.name = "this plan";
    part.on_demand.region = part.ours.region = region;
    parts_.push_back(std::move(part));
  };
  std::vector<std::string> all;
  for (const Order::Place& it : order_.places) {
    add(order_.places.size() > 1 ? it.region : "", {it.region});
    all.push_back(it.region);
  }
  if (all.size() > 1) add("", all);
}

void Plan::play(const Market& market, std::size_t first) {
  const Task task{first, ticks(), order_.work, order_.start};
  for (std::size_t i = 0; i < order_.places.size(); ++i)
    play(market_in(market, i, order_.places[i].prices.on_demand), task, parts_[i]);
  if (order_.places.size() > 1) {
    Market whole = market;
    whole.move = dollars_of_move(parts_.back().watching);
    parts_.back().ours.add(
        capacity::play(whole, task, *capacity::watched(whole, task, parts_.back().watching)));
  }
  ++played_;
}

void Plan::play(const Market& market, const Task& task, Part& part) {
  part.on_demand.add(capacity::play(market, task, *capacity::only_on_demand()));
  part.ours.add(capacity::play(market, task, *capacity::watched(market, task, part.watching)));
  part.pools.resize(market.pools.size());
  for (std::size_t i = 0; i < part.pools.size(); ++i) {
    part.pools[i].name = "spot in " + market.pools[i].name;
    part.pools[i].region = part.region;
    part.pools[i].add(capacity::play(market, task, *capacity::one_pool(market, task, i)));
  }
}

void Plan::choose() {
  const auto cost = [](const Prognosis& it) { return mean(it.dollars); };
  for (const Part& it : parts_) {
    if (!it.pools.empty()) all_.push_back(it.on_demand);
    if (!it.pools.empty()) all_.push_back(*std::ranges::min_element(it.pools, {}, cost));
    all_.push_back(it.ours);
  }
}

}  // namespace spotter::command
