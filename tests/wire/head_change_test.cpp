// A session's changes of a home's head: only the holder of the epoch writes it, and nothing late.
#include <gtest/gtest.h>

#include "agent/wire/head.hpp"

namespace spotter::wire {
namespace {

using Kind = HeadChange::Kind;
using State = decide::Epoch::State;
using std::chrono::seconds;

constexpr const char* kOld = "manifests/7-00000000000000000000000000000000.json";
constexpr const char* kNew = "manifests/7-11111111111111111111111111111111.json";

SeenHead seen(Duration age = Duration(0)) {
  SeenHead it;
  it.head.epoch.number = 7;
  it.head.epoch.state = State::Using;
  it.head.epoch.holder = "i-me";
  it.head.job = "mnist";
  it.head.id = "00112233445566778899aabbccddeeff";
  it.head.commits = 12;
  it.head.manifest = kOld;
  it.head.newest = 10;
  it.etag = "\"e\"";
  it.age = age;
  return it;
}

Head content() {
  Head it;
  it.manifest = kNew;
  it.newest = 20;
  it.bytes = 5;
  return it;
}

decide::Epoch next_epoch(const InstanceId& holder) {
  decide::Epoch it;
  it.number = 8;
  it.state = State::Using;
  it.holder = holder;
  return it;
}

TEST(HeadChange, CommitsForItsHolderAlone) {
  const auto made = to_content(seen(), {7, "i-me"}, content());
  ASSERT_EQ(made.kind, Kind::Write);
  EXPECT_EQ(made.next.manifest, kNew);
  EXPECT_EQ(made.next.newest, 20);
  EXPECT_EQ(made.next.commits, 13U) << "no two versions have the same bytes";
  EXPECT_EQ(made.next.epoch.number, 7U);
  EXPECT_EQ(to_content(seen(), {7, "i-other"}, content()).kind, Kind::Lost);
  EXPECT_EQ(to_content(seen(), {6, "i-me"}, content()).kind, Kind::Lost);
  SeenHead done = seen();
  done.head.epoch.state = State::Done;
  EXPECT_EQ(to_content(done, {7, "i-me"}, content()).kind, Kind::Lost);
}

TEST(HeadChange, TakesTheNextEpochAndKeepsWhatIsCommitted) {
  const auto made = to_epoch(seen(), next_epoch("i-other"), {"mnist", "another id"});
  ASSERT_EQ(made.kind, Kind::Write);
  EXPECT_EQ(made.next.epoch.number, 8U);
  EXPECT_EQ(made.next.epoch.holder, InstanceId("i-other"));
  EXPECT_EQ(made.next.manifest, kOld);
  EXPECT_EQ(made.next.id, seen().head.id) << "it is the same home";
  EXPECT_FALSE(made.again) << "a holder that writes lives";
  EXPECT_TRUE(to_epoch(seen(), next_epoch("i-me"), {"mnist", ""}).again);
}

TEST(HeadChange, SaysByWhichClaimItsHolderHasIt) {
  const auto made = to_epoch(seen(), next_epoch("i-other"), {"mnist", "", 3});
  EXPECT_EQ(made.next.attempt, 3U);
  SeenHead held{made.next, "etag", Duration{0}};
  EXPECT_EQ(is_gone_by_claim(held, 4), true) << "the claim of its holder is over";
  EXPECT_EQ(is_gone_by_claim(held, 3), false);
  EXPECT_EQ(is_gone_by_claim(held, 2), false) << "that one woke up late";
  EXPECT_EQ(is_gone_by_claim(held, 0), std::nullopt) << "nobody claims it";
  EXPECT_EQ(is_gone_by_claim(seen(), 4), std::nullopt) << "its holder has it by no claim";
  // The claims were removed by hand, and their numbers begin again.
  held.age = head_lease * 4;
  EXPECT_EQ(is_gone_by_claim(held, 1), true) << "nobody renews it";
}

TEST(HeadChange, GivesNoReleasedHomeToAnEarlierClaim) {
  SeenHead released{to_epoch(seen(), next_epoch("i-other"), {"mnist", "", 3}).next, "etag", {}};
  released.head.epoch.state = decide::Epoch::State::Released;
  decide::Epoch next = next_epoch("i-me");
  next.number = released.head.epoch.number + 1;
  const auto made_by = [&](std::uint64_t attempt) {
    return to_epoch(released, next, {"mnist", "", attempt}).kind;
  };
  EXPECT_EQ(made_by(2), Kind::Lost) << "that one woke up late";
  EXPECT_EQ(made_by(3), Kind::Write);
  EXPECT_EQ(made_by(4), Kind::Write);
  EXPECT_EQ(made_by(0), Kind::Write) << "nobody claims it";
  released.age = head_lease * 4;
  EXPECT_EQ(made_by(1), Kind::Write) << "the claims were removed by hand";
}

TEST(HeadChange, SkipsNoEpoch) {
  decide::Epoch late = next_epoch("i-me");
  late.number = 7;
  EXPECT_EQ(to_epoch(seen(), late, {"mnist", ""}).kind, Kind::Lost);
  late.number = 9;
  EXPECT_EQ(to_epoch(seen(), late, {"mnist", ""}).kind, Kind::Lost);
  decide::Epoch first = next_epoch("i-me");
  first.number = 1;
  const auto made = to_epoch({}, first, {"mnist", "ffeeddccbbaa99887766554433221100"});
  ASSERT_EQ(made.kind, Kind::Write);
  EXPECT_EQ(made.next.id, "ffeeddccbbaa99887766554433221100");
}

TEST(HeadChange, RenewsALeaseThatNoCommitHasRenewed) {
  EXPECT_EQ(to_renewed(seen(seconds(10)), {7, "i-me"}).kind, Kind::Enough);
  const auto made = to_renewed(seen(seconds(55)), {7, "i-me"});
  ASSERT_EQ(made.kind, Kind::Write);
  EXPECT_EQ(made.next.manifest, kOld);
  EXPECT_EQ(made.next.commits, 13U);
  EXPECT_EQ(to_renewed(seen(seconds(55)), {6, "i-me"}).kind, Kind::Lost);
}

TEST(HeadChange, OfALeaseThreeRenewalsMayBeLost) {
  EXPECT_FALSE(is_lease_over(3 * head_lease + seconds(1)));
  EXPECT_TRUE(is_lease_over(4 * head_lease));
}

}  // namespace
}  // namespace spotter::wire
