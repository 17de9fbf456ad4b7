// Copies of checkpoints in S3: what is there after saves, and what a machine that has lost its
// volume resumes from.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <latch>

#include "tests/s3/server.hpp"
#include "tests/trainer/newer_manifest.hpp"
#include "tests/trainer/scratch.hpp"
#include "trainer/library/bucket.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/s3_mirror.hpp"
#include "trainer/library/session.hpp"

namespace spotter::checkpoint {
namespace {

using std::chrono::seconds;

std::optional<s3_test::Reply> writes(const s3_test::Request& request) {
  if (request.method != "PUT") return std::nullopt;
  return s3_test::refusal(403, "AccessDenied");
}

class MirrorInS3 : public testing::Test {
 protected:
  Mirror::Open opener() {
    return [this](Mirror::Settings settings) {
      settings.trouble = [this, report = settings.trouble](const std::string& what) {
        ++troubles_;
        report(what);
      };
      return open_s3_mirror(std::move(settings), s3_test::settings_for(server_));
    };
  }
  // Opens a session on a machine of its own; the same name is the same volume.
  std::unique_ptr<Session> machine(const std::string& volume, std::size_t keep = 2) {
    auto session = Session::open({.directory = scratch_.path() / volume,
                                  .retention = {.last = keep},
                                  .mirror = "s3://bucket/run 1",
                                  .open_mirror = opener(),
                                  .every = seconds(0)});
    EXPECT_TRUE(session) << session.error().message;
    return session ? std::move(*session) : nullptr;
  }
  static void save(Session& session, std::uint64_t step, const std::string& model) {
    const std::vector<Source> sources = {{"model", {model}}, {"empty", {}}};
    ASSERT_TRUE(session.save(step, sources, {{"of", step}}));
  }
  // The run of a machine that is not interrupted: all is copied at its end.
  void run(const std::string& volume, std::uint64_t first, std::uint64_t last,
           const std::string& model = "m", std::size_t keep = 2) {
    const auto session = machine(volume, keep);
    ASSERT_TRUE(session->restore());
    for (auto step = first; step <= last; ++step) {
      save(*session, step, model + std::to_string(step));
      ASSERT_TRUE(session->flush());
    }
    ASSERT_TRUE(session->finished());
  }
  std::optional<std::uint64_t> restored_step(const std::string& volume) {
    const auto session = machine(volume);
    const auto restored = session->restore();
    EXPECT_TRUE(restored) << restored.error().message;
    if (!restored || !restored->newest) return std::nullopt;
    torn_ = restored->torn.size();
    const auto& newest = *restored->newest;
    const auto step = newest.checkpoint.step;
    EXPECT_EQ(newest.parts.size(), 2U);
    for (const auto& part : newest.parts) {
      EXPECT_EQ(part.bytes, part.name == "model" ? "m" + std::to_string(step) : "");
    }
    EXPECT_EQ(newest.checkpoint.meta.at("of"), step);
    return step;
  }
  std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const auto& request : server_.requests()) {
      if (request.method == "PUT" && server_.find(request.path.substr(8))) {
        keys.push_back(request.path.substr(8));
      }
    }
    return keys;
  }
  static std::string manifest_of(std::uint64_t step) {
    return "run 1/manifests/" + directory_name(step) + ".json";
  }
  static std::string object_of(std::uint64_t step, const std::string& bytes) {
    return "run 1/data/" + directory_name(step) + "/" + sum_of(bytes) + "-" +
           std::to_string(bytes.size());
  }
  static std::string model_of(std::uint64_t step) {
    return object_of(step, "m" + std::to_string(step));
  }

  test::Scratch scratch_;
  s3_test::Server server_;
  std::atomic<int> troubles_ = 0;
  std::size_t torn_ = 0;
};

TEST_F(MirrorInS3, HasWhatTheVolumeHasAndTheManifestLast) {
  run("volume", 1, 1);
  const auto all = keys();
  const auto own = test::read_file(scratch_.path() / "volume" / directory_name(1) / kManifestName);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.begin() + 2),
            (std::set<std::string>{model_of(1), object_of(1, own)}));
  EXPECT_EQ(all[2], manifest_of(1));
  EXPECT_EQ(server_.find(model_of(1))->bytes, "m1");
  EXPECT_EQ(troubles_, 0);
}

TEST_F(MirrorInS3, KeepsAsManyAsTheVolume) {
  for (std::uint64_t step = 1; step <= 5; ++step) run("volume", step, step);
  const auto left = keys();
  EXPECT_EQ(left.size(), 6U);
  EXPECT_FALSE(server_.find(manifest_of(3)));
  EXPECT_TRUE(server_.find(manifest_of(4)));
  EXPECT_TRUE(server_.find(manifest_of(5)));
}

TEST_F(MirrorInS3, AMachineWithoutTheVolumeGoesOnFromIt) {
  run("volume", 1, 3);
  EXPECT_EQ(restored_step("another zone's"), 3U);
}

TEST_F(MirrorInS3, TheNewestWinsWhereverItIs) {
  run("volume", 1, 2);
  run("other", 3, 3);
  EXPECT_EQ(restored_step("volume"), 3U);
  std::filesystem::remove_all(scratch_.path() / "other");
  server_.refuse(writes);
  run("volume", 4, 4);
  EXPECT_GE(troubles_, 1);
  EXPECT_EQ(restored_step("volume"), 4U);
}

TEST_F(MirrorInS3, TornOnesAreReportedAndTheOneBeforeServes) {
  run("volume", 1, 1);
  run("volume", 2, 2);
  server_.put(model_of(2), "M2");
  EXPECT_EQ(restored_step("elsewhere"), 1U);
  EXPECT_EQ(torn_, 1U);
}

TEST_F(MirrorInS3, WhereAllOfTheVolumeAreTornItServes) {
  run("volume", 1, 2);
  for (const std::uint64_t step : {1, 2}) {
    std::filesystem::remove(scratch_.path() / "volume" / directory_name(step) / "model");
  }
  EXPECT_EQ(restored_step("volume"), 2U);
}

TEST_F(MirrorInS3, WhereAllOfItAreTornNothingBeginsFromScratch) {
  run("volume", 1, 1);
  server_.put(model_of(1), "M1");
  const auto lost = machine("elsewhere");
  const auto restored = lost->restore();
  ASSERT_FALSE(restored);
  EXPECT_NE(restored.error().message.find("all are torn"), std::string::npos);
}

// Neither is an older one taken for it, wherever that is.
TEST_F(MirrorInS3, WhatANewerSpotterWroteIsRefusedAndStays) {
  run("volume", 1, 1);
  const auto older = scratch_.path() / "older";
  std::filesystem::copy(scratch_.path() / "volume", older,
                        std::filesystem::copy_options::recursive);
  run("volume", 2, 2);
  const std::string newer = test::newer_manifest(server_.find(manifest_of(2))->bytes);
  server_.put(manifest_of(2), newer);
  for (const char* place : {"elsewhere", "older"}) {
    const auto session = machine(place);
    const auto refused = session->restore();
    ASSERT_FALSE(refused) << place;
    EXPECT_NE(refused.error().message.find("written by a newer Spotter"), std::string::npos);
  }
  test::make_newer(scratch_.path() / "volume" / directory_name(2));
  EXPECT_FALSE(machine("volume")->restore());
  const auto session = machine("beside");
  for (std::uint64_t step = 3; step <= 6; ++step) save(*session, step, "m" + std::to_string(step));
  ASSERT_TRUE(session->finished());
  EXPECT_EQ(server_.find(manifest_of(2))->bytes, newer);
  EXPECT_TRUE(server_.find(model_of(2)));
}

// The manifest in S3 is of this format, the checkpoint's own is not.
TEST_F(MirrorInS3, ACheckpointWithANewerManifestWithinStays) {
  run("volume", 1, 1);
  run("volume", 2, 2);
  auto stored = bucket::decode(server_.find(manifest_of(1))->bytes);
  ASSERT_TRUE(stored);
  auto& own = stored->files.at(std::string(kManifestName));
  const auto newer = test::newer_manifest(server_.find("run 1/" + own.key())->bytes);
  own.bytes = newer.size();
  own.sum = sum_of(newer);
  server_.put("run 1/" + own.key(), newer);
  server_.put(manifest_of(1), bucket::encode(*stored));
  for (const int step : {3, 4, 5}) run("volume", step, step);  // each waits for its copy
  EXPECT_TRUE(server_.find(manifest_of(1)));
  EXPECT_TRUE(server_.find(model_of(1)));
  EXPECT_TRUE(server_.find("run 1/" + own.key()));
  EXPECT_FALSE(server_.find(manifest_of(2)));
}

TEST_F(MirrorInS3, NoRoomIsMadeForWhatIsNotThere) {
  run("volume", 1, 1);
  run("volume", 2, 2);
  auto stored = bucket::decode(server_.find(manifest_of(2))->bytes);
  ASSERT_TRUE(stored);
  auto& model = stored->files.at("model");
  model.bytes = std::uint64_t{4} << 40;
  server_.put(manifest_of(2), bucket::encode(*stored));
  for (const bool is_there : {false, true}) {
    if (is_there) server_.put("run 1/" + model.key(), "m2");
    EXPECT_EQ(restored_step(is_there ? "elsewhere" : "there"), 1U);
    EXPECT_EQ(torn_, 1U);
  }
}

// Old bytes of a copy that ended go; one that may be under way keeps what it has sent.
TEST_F(MirrorInS3, TheRestOfAnInterruptedCopyGoesWhenItIsOld) {
  for (const std::uint64_t step : {1, 2, 9}) server_.put(model_of(step), "x");
  server_.make_old(model_of(1));
  server_.make_old(model_of(9));
  run("volume", 3, 5);
  EXPECT_FALSE(server_.find(model_of(1)));
  EXPECT_TRUE(server_.find(model_of(2)));
  EXPECT_TRUE(server_.find(model_of(9)));
}

TEST_F(MirrorInS3, AFewFilesOfManyAreOpenAtOnce) {
  std::vector<Source> sources;
  for (int i = 0; i < 400; ++i) sources.push_back({"part-" + std::to_string(i), {"x"}});
  server_.refuse(writes);
  {
    const auto session = machine("volume");
    ASSERT_TRUE(session->save(1, sources, {{"of", 1}}));
    ASSERT_TRUE(session->finished());
  }
  server_.refuse({});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{256, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto mirror = opener()({"s3://bucket/run 1", {}, [](const std::string&) {}});
  EXPECT_TRUE(mirror);
  (*mirror)->offer(scratch_.path() / "volume" / directory_name(1), 1);
  EXPECT_TRUE((*mirror)->wait(seconds(60)));
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(server_.find(manifest_of(1)));
}

TEST_F(MirrorInS3, ADamagedManifestIsReportedAndStaysWithWhatItNames) {
  for (const int step : {1, 2}) run("volume", step, step);  // each waits for its copy
  server_.put(manifest_of(2), "{}");
  EXPECT_EQ(restored_step("elsewhere"), 1U);
  EXPECT_EQ(torn_, 1U);
  for (const int step : {3, 4, 5}) run("volume", step, step);
  EXPECT_EQ(server_.find(manifest_of(2))->bytes, "{}");
  EXPECT_TRUE(server_.find(model_of(2)));
  EXPECT_FALSE(server_.find(model_of(1)));
}

// With a bit that was flipped on the volume since it was written.
TEST_F(MirrorInS3, WhatIsNotWhatTheManifestSaysIsNotCopied) {
  server_.refuse(writes);
  run("volume", 1, 1);
  server_.refuse({});
  const auto path = scratch_.path() / "volume" / directory_name(1);
  test::write_file(path / "model", "M1");
  const auto before = troubles_.load();
  const auto mirror = opener()({"s3://bucket/run 1", {}, [](const std::string&) {}});
  ASSERT_TRUE(mirror);
  (*mirror)->offer(path, 1);
  ASSERT_TRUE((*mirror)->wait(seconds(60)));
  EXPECT_EQ(troubles_, before + 1);
  EXPECT_FALSE(server_.find(manifest_of(1)));
}

TEST_F(MirrorInS3, WithoutAWordFromItNothingBeginsFromScratch) {
  run("volume", 1, 1);
  server_.trouble([](const auto&, auto& reply) { reply = s3_test::refusal(500, "InternalError"); });
  const auto lost = machine("elsewhere");
  EXPECT_FALSE(lost->restore());
  EXPECT_EQ(restored_step("volume"), 1U);
}

TEST_F(MirrorInS3, GetsWhatItMissedWhenTheMachineIsBack) {
  server_.refuse(writes);
  run("volume", 1, 1);
  EXPECT_TRUE(keys().empty());
  server_.refuse({});
  const auto back = machine("volume");
  ASSERT_TRUE(back->restore());
  ASSERT_TRUE(back->finished());
  EXPECT_EQ(server_.find(model_of(1))->bytes, "m1");
}

TEST_F(MirrorInS3, TwoRunsInOnePlaceDoNotMix) {
  run("volume", 1, 1, "m");
  const auto other = machine("of another run");
  save(*other, 1, "x1");
  ASSERT_TRUE(other->finished());
  EXPECT_EQ(troubles_, 1);
  std::filesystem::remove_all(scratch_.path() / "of another run");
  EXPECT_EQ(restored_step("elsewhere"), 1U);
}

TEST_F(MirrorInS3, IsGivenUpWhenTheSessionEnds) {
  const auto ended = std::make_shared<std::latch>(1);
  server_.trouble([ended](const auto& request, auto&) {
    if (request.method == "PUT") ended->wait();
  });
  {
    const auto session = machine("volume");
    save(*session, 1, "m1");
    ASSERT_TRUE(session->flush());
    EXPECT_EQ(session->durable_step(), 1U);
  }
  EXPECT_FALSE(server_.find(manifest_of(1)));
  ended->count_down();
}

TEST_F(MirrorInS3, AWrongPlaceIsSaidAtOnce) {
  const auto session = Session::open({.directory = scratch_.path() / "volume",
                                      .mirror = "s4://bucket/run",
                                      .open_mirror = opener()});
  EXPECT_FALSE(session);
}

}  // namespace
}  // namespace spotter::checkpoint
