// The experiment that a Claimant tries for first.
#include "agent/sweep/claimant.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace spotter::sweep {
namespace {

// A Claimant that S3 answers at once, for as long as nothing needs a decision.
class Answered {
 public:
  explicit Answered(ClaimSettings settings) : claimant_(std::move(settings)) { hear(Tick{}); }

  void hear(const News& news) {
    for (const auto& order : claimant_.on(now_, news)) orders_.push_back(order);
    while (const auto* request = last<Request>()) {
      const auto number = request->number;
      Answer answer = Written{"etag-" + std::to_string(number)};
      if (std::holds_alternative<ListClaims>(request->ask)) answer = listing_;
      if (const auto* write = std::get_if<WriteClaim>(&request->ask)) written_.push_back(*write);
      orders_.clear();
      for (const auto& order : claimant_.on(now_, Reply{number, answer})) orders_.push_back(order);
    }
  }
  std::size_t begun() const {
    const auto* begin = last<Begin>();
    return begin == nullptr ? SIZE_MAX : begin->index;
  }
  void pass(Duration time) { now_ += time; }
  bool gave_back() const {
    return std::ranges::any_of(
        written_, [](const WriteClaim& each) { return each.claim.state == Claim::State::Given; });
  }
  Listed listing_;
  std::vector<WriteClaim> written_;

 private:
  template <class T>
  const T* last() const {
    return orders_.empty() ? nullptr : std::get_if<T>(&orders_.back());
  }
  Claimant claimant_;
  Time now_{Duration(1'000)};
  std::vector<Order> orders_;
};

TEST(Claimant, TakesFirstWhatIsNear) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ClaimSettings settings{.experiments = 10, .nonce = "n", .seed = seed};
    settings.near.assign(10, false);
    settings.near[3] = settings.near[7] = true;
    Answered agent(settings);
    std::vector<std::size_t> order;
    for (int each = 0; each < 10; ++each) {
      order.push_back(agent.begun());
      agent.hear(TrainerDone{});
    }
    EXPECT_EQ(std::minmax(order[0], order[1]), std::minmax(std::size_t{3}, std::size_t{7}));
    std::ranges::sort(order);
    for (std::size_t index = 0; index < 10; ++index) EXPECT_EQ(order[index], index);
  }
}

TEST(Claimant, TakesLastWhatFailedHere) {
  Answered agent({.experiments = 4, .nonce = "n", .most_failures = 9});
  const auto failed = agent.begun();
  agent.hear(TrainerFailed{false});
  for (int each = 0; each < 3; ++each) {
    EXPECT_NE(agent.begun(), failed);
    agent.hear(TrainerDone{});
  }
}

// A machine that takes it then would not wait for the end of what this one still sends.
TEST(Claimant, KeepsALapsedClaimUntilItsTrainerIsGone) {
  Answered agent({.experiments = 1, .nonce = "n"});
  ASSERT_EQ(agent.begun(), 0U);
  agent.pass(Duration(10 * 60'000));
  agent.hear(Tick{});
  ASSERT_FALSE(agent.written_.empty());
  const std::uint64_t token = agent.written_.back().claim.token;
  for (const WriteClaim& each : agent.written_) EXPECT_EQ(each.claim.state, Claim::State::Held);
  agent.hear(TrainerGone{0, token + 1});  // of another attempt
  EXPECT_EQ(agent.written_.back().claim.state, Claim::State::Held);
  agent.hear(TrainerGone{0, token});
  EXPECT_TRUE(agent.gave_back());
}

// Claims are listed and read, but not written: a role without s3:PutObject.
TEST(Claimant, LeavesThoughItMayNotWrite) {
  for (const bool holds : {false, true}) {
    Claimant claimant({.experiments = 1, .nonce = "n"});
    Time now{Duration(1'000)};
    bool may_write = holds, begun = false, left = false;
    const auto hear = [&](auto& self, const News& news) -> void {
      for (const auto& order : claimant.on(now, news)) {
        begun |= std::holds_alternative<Begin>(order);
        left |= std::holds_alternative<Left>(order);
        const auto* request = std::get_if<Request>(&order);
        if (request == nullptr) continue;
        Answer answer = NoAnswer{};
        if (std::holds_alternative<ListClaims>(request->ask)) answer = Listed{};
        if (std::holds_alternative<ReadClaim>(request->ask))
          answer = holds ? ReadAnswer{{{Claim{}, "etag", {}}}, {}} : ReadAnswer{};
        if (std::holds_alternative<WriteClaim>(request->ask) && may_write) answer = Written{"etag"};
        self(self, Reply{request->number, answer});
      }
    };
    hear(hear, Tick{});
    EXPECT_EQ(begun, holds);
    may_write = false;
    hear(hear, Leave{});
    EXPECT_FALSE(left) << "it is tried for a while";
    for (const Time end = now + std::chrono::minutes(2); !left && claimant.wake_at() < end;) {
      now = std::max(now, claimant.wake_at());
      hear(hear, Tick{});
    }
    EXPECT_TRUE(left);
  }
}

// Whoever deletes a claim to have it run again forgets the mark beside it.
TEST(Claimant, ComplainsOfAMarkWithoutItsClaim) {
  Listed listing;
  listing.ended = {0};
  for (const bool claimed : {false, true}) {
    if (claimed) listing.claims = {{0, {}}};
    Claimant claimant({.experiments = 1, .nonce = "n"});
    (void)claimant.on(Time{}, Tick{});
    const auto orders = claimant.on(Time{}, Reply{1, listing});
    const auto is_complaint = [](const Order& order) {
      const auto* complaint = std::get_if<Complaint>(&order);
      return complaint != nullptr && complaint->text.starts_with("00000.ended");
    };
    EXPECT_EQ(std::ranges::count_if(orders, is_complaint), claimed ? 0 : 1);
  }
}

}  // namespace
}  // namespace spotter::sweep
