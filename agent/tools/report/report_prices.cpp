#include "agent/tools/report/report_prices.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "agent/aws/aws_calls.hpp"
#include "agent/aws/formats/services.hpp"

namespace spotter::command {
namespace {

using report::Instance;
using report::Prices;

// EC2 keeps no older prices, but accepts any time.
constexpr double oldest = 90.0 * 86'400;

// us-west-2a, and us-west-2-lax-1a, are in us-west-2.
std::string region_of(const std::string& zone) {
  const auto digit = zone.find_first_of("0123456789");
  if (digit == zone.npos) return "";
  return zone.substr(0, std::min(zone.find_first_not_of("0123456789", digit), zone.size()));
}

struct Asked {
  std::set<std::string> types;
  double from = 0;
};

// By region. Machines that are no instances have no price.
std::map<std::string, Asked> questions_for(const std::vector<Instance>& instances) {
  std::map<std::string, Asked> regions;
  for (const Instance& it : instances) {
    const std::string region = region_of(it.zone);
    if (!it.id.starts_with("i-") || it.type.empty() || region.empty()) continue;
    const double from = std::min(it.began, it.booted.value_or(it.began));
    const auto [at, is_new] = regions.try_emplace(region, Asked{{}, from});
    at->second.types.insert(it.type);
    at->second.from = std::min(at->second.from, from);
  }
  return regions;
}

class Asker {
 public:
  Asker(Region region, const Asked& asked, Prices& into)
      : region_(std::move(region)), asked_(asked), into_(into) {}

  void ask_spot(double now) {
    const auto calls = AwsCalls::open(region_);
    wire::DescribeSpotPriceHistory history;
    for (const std::string& type : asked_.types) history.types.emplace_back(type);
    const double start = std::max(asked_.from, now - oldest);
    history.start = wire::WallTime(std::chrono::seconds(static_cast<long>(start)));
    auto prices = calls->ask_all(std::move(history));
    if (prices)
      std::ranges::move(*prices, std::back_inserter(into_.spot));
    else
      into_.notes.push_back("AWS was asked for the history of spot prices: " +
                            prices.error().message);
  }

  void ask_on_demand() {
    const auto calls = AwsCalls::open(region_);
    for (const std::string& type : asked_.types) {
      const auto price = calls->on_demand_price(InstanceType(type), region_);
      if (!price) {
        into_.notes.push_back("AWS was asked for the on-demand price of " + type + ": " +
                              price.error().message);
        if (price.error().forbidden() || price.error().code.empty()) return;
        continue;
      }
      into_.on_demand[type] = *price;
    }
    into_.notes.push_back("on-demand prices: AWS' price list of " + region_.str());
  }

 private:
  Region region_;
  const Asked& asked_;
  Prices& into_;
};

}  // namespace

Prices prices_of(const report::Input& input, report::Number on_demand) {
  Prices prices;
  prices.on_demand_of_all = on_demand;
  if (on_demand) prices.notes.emplace_back("on-demand price: as --on-demand says");
  const auto instances = report::instances_of(input);
  const auto regions = questions_for(instances);
  if (regions.empty() && !instances.empty())
    prices.notes.emplace_back("its machines are no instances of EC2, as far as they say");
  for (const auto& [region, asked] : regions) {
    Asker asker(Region(region), asked, prices);
    asker.ask_spot(input.now);
    if (!on_demand) asker.ask_on_demand();
  }
  return prices;
}

}  // namespace spotter::command
