// A spot market: pools whose capacity comes and goes, and whose prices move.
#include <algorithm>

#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

const InstanceType type("g5.xlarge");
const Zone a("us-west-2a"), b("us-west-2b");

struct Market : testing::Test {
  Market() {
    api.raw("CreateLaunchTemplate", {{"LaunchTemplateName", "trainer"},
                                     {"LaunchTemplateData.ImageId", "ami-1a2b3c4d"},
                                     {"LaunchTemplateData.InstanceType", "g5.xlarge"}});
  }
  Expected<void> set(std::vector<PoolChange> changes) {
    return api.world.set_pools(changes, 120_s, api.now);
  }
  std::string fleet(const std::string& strategy = "lowest-price") {
    Api::Parameters request{{"Type", "maintain"},
                            {"SpotOptions.AllocationStrategy", strategy},
                            {"TargetCapacitySpecification.TotalTargetCapacity", "1"},
                            {"TargetCapacitySpecification.DefaultTargetCapacityType", "spot"}};
    const std::string config = "LaunchTemplateConfigs.1.";
    request[config + "LaunchTemplateSpecification.LaunchTemplateName"] = "trainer";
    request[config + "LaunchTemplateSpecification.Version"] = "1";
    int number = 0;
    for (const Zone& zone : {a, b}) {
      const std::string one = config + "Overrides." + std::to_string(++number) + ".";
      request[one + "AvailabilityZone"] = zone.str();
      request[one + "InstanceType"] = type.str();
    }
    return api.ask("CreateFleet", request, "fleetId");
  }
  std::vector<std::string> running() {
    std::vector<std::string> zones;
    for (const Instance& it : api.world.instances(api.now).list())
      if (it.state == InstanceState::Running) zones.push_back(it.zone.str());
    return zones;
  }
  // The pool's prices, the newest first.
  std::vector<std::string> prices(const Zone& zone, Api::Parameters more = {}) {
    more["InstanceType.1"] = type.str();
    more["AvailabilityZone"] = zone.str();
    std::vector<std::string> found;
    api.document.load_string(api.raw("DescribeSpotPriceHistory", more).body.c_str());
    if (api.document.select_nodes("//item").empty()) {  // an empty page is no end
      more["NextToken"] = api.document.select_node("//nextToken").node().text().get();
      api.document.load_string(api.raw("DescribeSpotPriceHistory", more).body.c_str());
    }
    for (const auto& it : api.document.select_nodes("//item/spotPrice"))
      found.emplace_back(it.node().text().get());
    return found;
  }
  Api api;
};

TEST_F(Market, LeadsAFleetToTheCheapestPoolThatHasCapacity) {
  ASSERT_TRUE(set({{type, a, false, 0.1}, {type, b, true, 0.9}}));
  fleet();
  api.wait(60_s);
  EXPECT_EQ(running(), std::vector<std::string>{b.str()});
}

TEST_F(Market, InterruptsWhatRunsInAPoolWhoseCapacityGoesAndNothingElse) {
  ASSERT_TRUE(set({{type, a, true, 0.1}, {type, b, true, 0.9}}));
  const std::string besides = api.instance(a.str());  // of another type
  fleet();
  api.wait(60_s);
  ASSERT_EQ(running().size(), 2u);
  ASSERT_TRUE(set({{type, a, false, 0.1}}));
  api.wait(100_s);
  EXPECT_EQ(running(), (std::vector<std::string>{a.str(), a.str()})) << "the notice's time";
  api.wait(120_s);
  auto zones = running();
  std::ranges::sort(zones);
  EXPECT_EQ(zones, (std::vector<std::string>{a.str(), b.str()}));
}

TEST_F(Market, LaunchesNothingUntilCapacityIsBack) {
  ASSERT_TRUE(set({{type, a, false, 0.1}, {type, b, false, 0.1}}));
  fleet();
  api.wait(600_s);
  EXPECT_TRUE(running().empty());
  ASSERT_TRUE(set({{type, b, true, 0.1}}));
  api.wait(60_s);
  EXPECT_EQ(running(), std::vector<std::string>{b.str()});
}

TEST_F(Market, ShowsThePriceInForceAndTheLaterOnes) {
  const auto start = [&] { return xml_time(api.world.wall(api.now)); };
  const auto before = prices(a);
  ASSERT_EQ(before.size(), 1u);
  api.wait(60_s);
  ASSERT_TRUE(set({{type, a, true, 0.25}, {type, b, true, 0.5}}));
  api.wait(60_s);
  ASSERT_TRUE(set({{type, a, true, 0.125}, {type, b, true, 0.5}}));
  EXPECT_EQ(prices(a), (std::vector<std::string>{"0.125000", "0.250000", before[0]}));
  EXPECT_EQ(prices(b).size(), 2u) << "a price that stays is no new one";
  EXPECT_EQ(prices(a, {{"StartTime", start()}}), std::vector<std::string>{"0.125000"});
}

TEST_F(Market, RefusesAPoolThatCannotBe) {
  EXPECT_FALSE(set({{type, Zone("eu-west-1a"), true, 0.1}}));
  EXPECT_FALSE(set({{type, a, true, 0.1}, {type, b, true, 0}})) << "and changes none of them";
  EXPECT_EQ(prices(a).size(), 1u);
}

}  // namespace
}  // namespace spotter::world
