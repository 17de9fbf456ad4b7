#include "tests/world/cold.hpp"

#include <set>

#include "tests/world/test_api.hpp"

namespace spotter::world {
namespace {

constexpr double gibibyte = 1024, many = 64;

struct Moved : Api {
  // A volume of the snapshot of one of 8 GiB.
  std::string make(const char* rate = nullptr) {
    if (snapshot.empty()) snapshot = ask("CreateSnapshot", {{"VolumeId", volume()}}, "snapshotId");
    wait(Duration{60'000});
    Parameters call = {{"AvailabilityZone", "us-west-2b"}, {"SnapshotId", snapshot}};
    if (rate) call["VolumeInitializationRate"] = rate;
    return ask("CreateVolume", call, "volumeId");
  }
  Duration read(const std::string& id, double mebibytes, double in_flight) {
    return world.volumes(now).read_first(VolumeId(id), mebibytes, in_flight);
  }
  std::string details(const std::string& id, const std::string& name) {
    return ask("DescribeVolumeStatus", {{"VolumeId.1", id}},
               "volumeStatusSet/item/initializationStatusDetails" + name);
  }
  double dollars() { return world.cloud().rate_dollars; }
  std::string snapshot;
};

double mebibytes_a_second(double mebibytes, Duration takes) {
  return mebibytes / std::chrono::duration<double>(takes).count();
}

TEST(Cold, OneReaderIsSlowAndManyAreNot) {
  Moved api;
  const std::string id = api.make();
  const Duration one = api.read(id, gibibyte, 1);
  EXPECT_LE(mebibytes_a_second(gibibyte, one), 5.0);
  EXPECT_GE(mebibytes_a_second(gibibyte, one), 2.4);
  EXPECT_NEAR(mebibytes_a_second(gibibyte, api.read(id, gibibyte, many)), 75, 0.1);
  EXPECT_EQ(api.read(id, 0.004, many), Duration{35}) << "however little it is";
  const std::string blank = api.volume();
  EXPECT_NEAR(mebibytes_a_second(gibibyte, api.read(blank, gibibyte, 1)), 125, 0.1);
}

// Reads all of it in pieces, so many at once, each as soon as there is room; answers MiB/s.
double speed_of(ColdReads& reads, std::size_t in_flight, double from = 0) {
  constexpr std::uint64_t piece = 256U << 10, pieces = 4096;
  std::multiset<double> ends;
  double now = from;
  for (std::uint64_t i = 0; i < pieces; ++i) {
    if (ends.size() == in_flight) now = *ends.begin(), ends.erase(ends.begin());
    ends.insert(reads.done(i * piece, piece, now));
  }
  return 1024 / (*ends.rbegin() - from);
}

TEST(Cold, EachReadTakesAsLongAsAllOfThemDo) {
  const ColdReads::Of volume{.request = 4, .mebibytes = 1024};
  for (const auto& [in_flight, speed] : {std::pair{1U, 4.0}, {8U, 32.0}, {64U, 75.0}}) {
    ColdReads reads(volume, {});
    EXPECT_NEAR(speed_of(reads, in_flight), speed, speed / 50) << in_flight;
    EXPECT_NEAR(speed_of(reads, in_flight, 1000), 125, 1) << "it is warm by now";
  }
  ColdReads small(volume, {});
  EXPECT_NEAR(small.done(512, 4096, 1), 1.035, 0.001);
  EXPECT_NEAR(small.done(4096, 4096, 1.01), 1.0625, 0.001) << "the rest of it is on its way";
  EXPECT_NEAR(small.done(8192, 4096, 2), 2, 0.001);
  EXPECT_NEAR(small.done(2048ULL << 20, 4096, 3), 3, 0.001) << "behind what the snapshot has";
}

TEST(Cold, ARateLoadsFromEndToEndWhateverIsRead) {
  const auto takes = [](std::uint64_t mebibyte, double when) {
    ColdReads reads({.request = 4, .rate = 256, .mebibytes = 1024}, {});
    return reads.done(mebibyte << 20, 256U << 10, when) - when;
  };
  EXPECT_NEAR(takes(500, 1), 0.0625, 0.001);
  EXPECT_NEAR(takes(500, 2), 0.002, 0.001);
  EXPECT_NEAR(takes(1000, 3.9), 0.0625, 0.001);
  EXPECT_NEAR(takes(1000, 4), 0.002, 0.001);
}

TEST(Cold, TheDrawOfAVolumeIsThatOfItsSeed) {
  Settings settings;
  const auto drawn = [&](std::uint64_t seed) {
    Moved api;
    api.world = World(settings, seed);
    return api.read(api.make(), gibibyte, 1);
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(Cold, ARateLoadsAllOfItAndIsBilledOnce) {
  Moved api;
  const std::string id = api.make("300");
  EXPECT_NEAR(api.dollars(), 8 * 0.0036, 1e-9);
  EXPECT_EQ(
      api.ask("DescribeVolumes", {{"VolumeId.1", id}}, "volumeSet/item/volumeInitializationRate"),
      "300");
  EXPECT_EQ(api.details(id, "/estimatedTimeToCompleteInSeconds"), "28");
  const Duration early = api.read(id, 4 * gibibyte, many);
  api.wait(Duration{5'000});
  const Duration later = api.read(id, 4 * gibibyte, many);
  api.wait(Duration{23'000});
  const Duration last = api.read(id, 4 * gibibyte, 1);
  EXPECT_GT(early, later);
  EXPECT_GT(later, last);
  EXPECT_NEAR(mebibytes_a_second(4 * gibibyte, last), 125, 0.1) << "as any other volume";
  api.make();
  EXPECT_NEAR(api.dollars(), 8 * 0.0036, 1e-9) << "without a rate it costs nothing";
}

TEST(Cold, ItsStatusIsShownAndLate) {
  Moved api;
  const std::string id = api.make();
  EXPECT_EQ(api.details(id, "/initializationType"), "default");
  EXPECT_EQ(api.details(id, "/estimatedTimeToCompleteInSeconds"), "");
  const Duration takes = api.read(id, 4 * gibibyte, many);
  api.wait(takes);
  EXPECT_EQ(api.details(id, "/progress"), "0");
  api.wait(Duration{300'000});
  EXPECT_EQ(api.details(id, "/progress"), "50");
  const std::string paid = api.make("100");
  EXPECT_EQ(api.details(paid, "/initializationType"), "provisioned-rate");
  EXPECT_EQ(api.details(paid, "/progress"), "0");
  api.wait(Duration{300'000});
  EXPECT_EQ(api.details(paid, "/progress"), "100");
  EXPECT_EQ(api.details(paid, "/estimatedTimeToCompleteInSeconds"), "0");
  EXPECT_EQ(api.details(api.volume(), ""), "") << "a blank one has nothing to load";
  EXPECT_EQ(api.error("DescribeVolumeStatus", {{"VolumeId.1", "vol-0123456789abcdef0"}}),
            "InvalidVolume.NotFound");
}

}  // namespace
}  // namespace spotter::world
