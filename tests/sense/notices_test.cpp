// The watch over the metadata service: the fake world's, through a real socket, fast-forwarded.
#include "agent/service/sense/notices.hpp"

#include <gtest/gtest.h>

#include "agent/io/kernel.hpp"
#include "tests/net/server.hpp"
#include "tests/world/world.hpp"

namespace spotter::sense {
namespace {

using namespace std::chrono_literals;

class TheWatch : public testing::Test {
 protected:
  TheWatch()
      : instance_(*world_.add_instance("us-west-2a", "p3.2xlarge", now())),
        server_(context_, [this](const net_test::Request& request) { return answer(request); }),
        http_(context_),
        imds_(http_, {server_.url()}),
        notices_(
            imds_, {.every = Duration(10), .others_each = 1}, [] { return now(); },
            [this](decide::Happening what) { seen_.push_back(std::move(what)); }) {
    world_.advance(now() + 1min);
  }

  static Time now() { return Time(io::boot_time()); }

  net_test::Reply answer(const net_test::Request& request) {
    ++asked_;
    if (down_) return {.status = 503};
    world::MetadataRequest asked{
        std::string(request.method_string()), std::string(request.target()), {}};
    for (const auto& field : request) {
      std::string name(field.name_string());
      for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
      asked.headers[name] = std::string(field.value());
    }
    const world::Reply reply = world_.metadata(instance_, asked, now() + 2min);
    net_test::Reply answer{.status = reply.status, .body = reply.body};
    for (const auto& [name, value] : reply.headers) answer.headers.push_back({name, value});
    return answer;
  }

  void watch_for(std::chrono::milliseconds time) {
    if (!started_) asio::co_spawn(context_, notices_.watch(), asio::detached);
    started_ = true;
    context_.restart();
    context_.run_for(time);
  }

  template <class What>
  int count() const {
    int found = 0;
    for (const auto& what : seen_) found += std::holds_alternative<What>(what);
    return found;
  }

  asio::io_context context_;
  world::World world_{{}, 1};
  InstanceId instance_;
  net_test::Server server_;
  io::HttpClient http_;
  ImdsClient imds_;
  Notices notices_;
  std::vector<decide::Happening> seen_;
  bool started_ = false;
  bool down_ = false;
  int asked_ = 0;
};

TEST_F(TheWatch, SaysANoticeOnceWithADeadlineOnTheBootClock) {
  watch_for(100ms);
  EXPECT_TRUE(seen_.empty()) << "404 is the normal answer";
  ASSERT_TRUE(world_.interrupt(instance_, InterruptionAction::Terminate, 120s, now() + 2min));
  watch_for(300ms);
  ASSERT_EQ(count<decide::NoticeSeen>(), 1);
  const auto& notice = std::get<decide::NoticeSeen>(seen_.front());
  EXPECT_EQ(notice.action, InterruptionAction::Terminate);
  EXPECT_GT(notice.deadline - now(), 100s);
  EXPECT_LE(notice.deadline - now(), 120s);
}

TEST_F(TheWatch, SaysThatANoticeWasWithdrawn) {
  ASSERT_TRUE(world_.interrupt(instance_, InterruptionAction::Stop, 120s, now() + 2min));
  watch_for(200ms);
  ASSERT_TRUE(world_.withdraw(instance_, now() + 2min));
  watch_for(200ms);
  EXPECT_EQ(count<decide::NoticeSeen>(), 1);
  EXPECT_EQ(count<decide::NoticeWithdrawn>(), 1);
}

TEST_F(TheWatch, OutlivesAnEndpointThatIsDownAndIsNotWithdrawnByIt) {
  ASSERT_TRUE(world_.interrupt(instance_, InterruptionAction::Terminate, 120s, now() + 2min));
  watch_for(200ms);
  down_ = true;
  watch_for(200ms);
  EXPECT_EQ(count<decide::NoticeWithdrawn>(), 0) << "no answer is not the answer 404";
  down_ = false;
  watch_for(200ms);
  EXPECT_EQ(count<decide::NoticeSeen>(), 1);
}

TEST_F(TheWatch, SaysThatItsGroupTakesTheInstanceOutAndHoldsIt) {
  world::Cloud& cloud = const_cast<world::Cloud&>(world_.cloud());
  cloud.instances.find(instance_)->fleet = {FleetKind::AutoScalingGroup, "group"};
  watch_for(100ms);
  EXPECT_TRUE(seen_.empty()) << "InService";
  cloud.instances.find(instance_)->departure.emplace();
  watch_for(300ms);
  ASSERT_EQ(count<decide::NoticeSeen>(), 1);
  EXPECT_TRUE(std::get<decide::NoticeSeen>(seen_.front()).held);
  ASSERT_TRUE(world_.interrupt(instance_, InterruptionAction::Terminate, 60s, now() + 2min));
  watch_for(200ms);
  ASSERT_EQ(count<decide::NoticeSeen>(), 2) << "that one is nearer, and nobody holds it";
  EXPECT_FALSE(std::get<decide::NoticeSeen>(seen_.back()).held);
}

TEST_F(TheWatch, AGroupsWordDoesNotPutOffASpotNotice) {
  world::Cloud& cloud = const_cast<world::Cloud&>(world_.cloud());
  cloud.instances.find(instance_)->fleet = {FleetKind::AutoScalingGroup, "group"};
  ASSERT_TRUE(world_.interrupt(instance_, InterruptionAction::Terminate, 60s, now() + 2min));
  watch_for(200ms);
  cloud.instances.find(instance_)->departure.emplace();
  watch_for(200ms);
  EXPECT_EQ(count<decide::NoticeSeen>(), 1);
}

TEST_F(TheWatch, SaysARebalanceRecommendationOnce) {
  ASSERT_TRUE(world_.rebalance(instance_, now() + 2min));
  watch_for(300ms);
  EXPECT_EQ(count<decide::RebalanceRecommended>(), 1);
}

// `spotter run` on a machine that is no instance.
TEST_F(TheWatch, EndsByItselfWhereNoServiceIsExpectedAndNoneAnswers) {
  Notices of_run(
      imds_, {.every = Duration(1), .others_each = 1000, .expected = false}, [] { return now(); },
      [](const decide::Happening&) {});
  down_ = true;
  bool ended = false;
  const auto watch = [&]() -> asio::awaitable<void> {
    auto identity = of_run.read_identity();
    const auto answer = co_await std::move(identity);
    EXPECT_TRUE(std::get<decide::EffectFailed>(answer).detail.view().empty()) << "nothing to say";
    auto watching = of_run.watch();
    co_await std::move(watching);
    ended = true;
  };
  asio::co_spawn(context_, watch(), asio::detached);
  while (!ended) context_.run_one();
  EXPECT_GT(asked_, 1);
}

}  // namespace
}  // namespace spotter::sense
