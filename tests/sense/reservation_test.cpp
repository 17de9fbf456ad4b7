// The watch over a capacity reservation: the fake world's, through a real socket, fast-forwarded.
#include <gtest/gtest.h>

#include "agent/io/kernel.hpp"
#include "agent/service/sense/notices.hpp"
#include "tests/net/server.hpp"
#include "tests/world/world.hpp"

namespace spotter::sense {
namespace {

using namespace std::chrono_literals;
using decide::NoticeSeen;

constexpr std::chrono::hours kBlock{4};

class AReservation : public testing::Test {
 protected:
  AReservation()
      : server_(context_, [this](const net_test::Request& request) { return answer(request); }),
        http_(context_),
        aws_(http_, {.region = "us-west-2",
                     .environment = act::Environment({{"AWS_ACCESS_KEY_ID", "a"},
                                                      {"AWS_SECRET_ACCESS_KEY", "s"},
                                                      {"AWS_ENDPOINT_URL", server_.url()}})}) {}

  // The world's time: at first that of this test's beginning, forwarded by the tests.
  Time now() const { return Time(io::boot_time()) + ahead_; }

  net_test::Reply answer(const net_test::Request& request) {
    ++asked_;
    std::map<std::string, std::string> parameters;
    for (std::string_view left = request.body(); !left.empty();) {
      const auto end = std::min(left.find('&'), left.size());
      const auto equals = left.find('=');
      parameters[std::string(left.substr(0, equals))] = left.substr(equals + 1, end - equals - 1);
      left.remove_prefix(std::min(end + 1, left.size()));
    }
    const world::Reply reply =
        world_.ec2({.action = parameters["Action"], .parameters = parameters}, now());
    net_test::Reply answer{.status = reply.status, .body = reply.body};
    for (const auto& [name, value] : reply.headers) answer.headers.push_back({name, value});
    return answer;
  }

  void launch(const char* market, int instances = 1) {
    world::CapacityReservation it{.market = market,
                                  .type = "p5.48xlarge",
                                  .zone = "us-west-2a",
                                  .total = instances,
                                  .begins = now()};
    if (market == std::string(world::block_market)) it.ends = now() + kBlock;
    id_ = *world_.reserve(it, now());
    launch_one({.id = id_, .market = market});
  }
  void launch_one(const world::Reserved& reserved) {
    instance_ = world_.instances(now())
                    .launch({.option = {.image = "ami-1",
                                        .type = "p5.48xlarge",
                                        .zone = "us-west-2a",
                                        .reserved = reserved},
                             .spot = false})
                    ->id;
  }

  void watch_for(std::chrono::milliseconds time) {
    if (!reservation_) {
      reservation_.emplace(
          aws_, Reservation::Parts{[this] { return now(); }, [this] { return instance_; },
                                   [this](decide::Happening what) { seen_.push_back(what); },
                                   [this](std::string words) { said_ = std::move(words); }, false,
                                   Duration(10)});
      asio::co_spawn(context_, reservation_->watch(), [this](std::exception_ptr) { left_ = true; });
    }
    context_.restart();
    context_.run_for(time);
  }
  void forward(Duration by) { ahead_ += by; }

  template <class What>
  std::vector<What> all() const {
    std::vector<What> found;
    for (const auto& what : seen_)
      if (const auto* it = std::get_if<What>(&what)) found.push_back(*it);
    return found;
  }

  asio::io_context context_;
  world::World world_{{}, 1};
  Duration ahead_{0};
  InstanceId instance_;
  std::string id_, said_;
  net_test::Server server_;
  io::HttpClient http_;
  act::AwsClient aws_;
  std::optional<Reservation> reservation_;
  std::vector<decide::Happening> seen_;
  bool left_ = false;
  int asked_ = 0;
};

TEST_F(AReservation, OfAnotherKindIsNotWatched) {
  launch_one({});
  watch_for(500ms);
  EXPECT_TRUE(left_);
  EXPECT_EQ(said_, "");
  EXPECT_EQ(asked_, 1);
}

TEST_F(AReservation, ABlockSaysUntilWhenAndGivesANoticeTwoMinutesBeforeItIsCleared) {
  launch(world::block_market);
  watch_for(300ms);
  EXPECT_NE(said_.find("in the capacity block " + id_ + ", which ends at "), said_.npos);
  forward(kBlock - 30min - 130s);
  watch_for(300ms);
  EXPECT_TRUE(seen_.empty());
  forward(20s);
  watch_for(300ms);
  const auto notices = all<NoticeSeen>();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_EQ(notices[0].action, InterruptionAction::Terminate);
  EXPECT_NEAR(static_cast<double>((notices[0].deadline - now()).count()), 110e3, 5e3);
  EXPECT_NEAR(static_cast<double>(notices[0].leeway.count()), 1800e3, 5e3);
}

TEST_F(AReservation, InTheLastHalfHourOfABlockTheTrainerStillGetsAMinute) {
  launch(world::block_market);
  forward(kBlock - 30min + 1s);
  watch_for(300ms);
  const auto notices = all<NoticeSeen>();
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_GT(notices[0].deadline - now(), 50s);
  EXPECT_LE(notices[0].deadline - now(), 60s);
  EXPECT_NEAR(static_cast<double>((notices[0].deadline + notices[0].leeway - now()).count()),
              1800e3, 5e3);
}

TEST_F(AReservation, ABlockThatIsExtendedTakesItsNoticeBack) {
  launch(world::block_market);
  forward(kBlock - 31min);
  watch_for(300ms);
  ASSERT_EQ(all<NoticeSeen>().size(), 1u);
  auto& its = const_cast<world::Cloud&>(world_.cloud()).reservations[id_];
  its.ends = *its.ends + 24h;
  watch_for(300ms);
  EXPECT_EQ(all<decide::NoticeWithdrawn>().size(), 1u);
  EXPECT_EQ(all<NoticeSeen>().size(), 1u);
}

TEST_F(AReservation, AReclaimOfAllIsANoticeThatBeganBeforeTheLookThatSawIt) {
  launch(world::interruptible_market);
  watch_for(300ms);
  EXPECT_NE(said_.find("in the interruptible capacity reservation " + id_), said_.npos);
  EXPECT_TRUE(seen_.empty());
  ASSERT_TRUE(world_.reclaim(id_, 0, 120s, false, now()));
  watch_for(300ms);
  const auto notices = all<NoticeSeen>();
  ASSERT_EQ(notices.size(), 1u) << "once";
  EXPECT_LE(notices[0].deadline - now(), 120s);
  EXPECT_GT(notices[0].deadline - now(), 110s);
  EXPECT_EQ(notices[0].leeway, Duration(0));
}

TEST_F(AReservation, AReclaimOfSomeIsWorthACheckpoint) {
  launch(world::interruptible_market, 2);
  launch_one({.id = id_, .market = world::interruptible_market});
  watch_for(300ms);
  ASSERT_TRUE(world_.reclaim(id_, 1, 120s, false, now()));
  watch_for(300ms);
  EXPECT_EQ(all<NoticeSeen>().size(), 0u) << "which of the two it is nobody says";
  EXPECT_EQ(all<decide::RebalanceRecommended>().size(), 1u);
}

TEST_F(AReservation, WithoutThePermissionTheAgentGoesOnAndAsksAgain) {
  launch(world::block_market);
  world_.deny("DescribeCapacityReservations", true);
  watch_for(300ms);
  EXPECT_TRUE(seen_.empty());
  EXPECT_FALSE(left_);
  world_.deny("DescribeCapacityReservations", false);
  watch_for(300ms);
  EXPECT_NE(said_, "");
}

}  // namespace
}  // namespace spotter::sense
