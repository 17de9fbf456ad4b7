// A home in a bucket: what one machine kept, the next one has, whole or not at all.
#include "agent/tier/home.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/s3/server.hpp"
#include "trainer/library/bucket.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::tier {
namespace {

namespace fs = std::filesystem;

class HomeInS3 : public ::testing::Test {
 protected:
  HomeInS3() {
    char name[] = "/tmp/spotter-home-XXXXXX";
    root_ = ::mkdtemp(name);
  }
  ~HomeInS3() override { fs::remove_all(root_); }

  Home home(const std::string& machine, std::uint32_t epoch) {
    fs::create_directories(root_ / machine);
    const verbs::Home its{root_ / machine,           "mine", "checkpoints", {}, {}, {}, {},
                          "s3://bucket/homes/mine/", epoch,  id_,           {}};
    return {its, {"bucket", "homes/mine/"}, s3_test::settings_for(server_)};
  }
  void brought(const std::string& machine, std::uint32_t epoch, const std::string& manifest,
               std::uint32_t held = 0) {
    const auto done = bring(home(machine, epoch), manifest, held);
    ASSERT_TRUE(done) << done.error().message;
    last_ = *done;
  }
  std::string kept(const std::string& machine, std::uint32_t epoch, const std::string& committed,
                   bool whole = false) {
    const auto done = keep(home(machine, epoch), {{}, committed, whole, true});
    EXPECT_TRUE(done) << done.error().message;
    if (done) sent_ = done->sent;
    return done ? done->manifest : "";
  }
  void save(const std::string& machine, std::uint64_t step) {
    const std::string bytes = "weights of step " + std::to_string(step) + std::string(1000, 'w');
    const checkpoint::Part part{"weights", bytes};
    ASSERT_TRUE(checkpoint::save(root_ / machine / "checkpoints", step, {&part, 1}, {}));
  }
  void write(const std::string& machine, const std::string& path, const std::string& text) {
    fs::create_directories((root_ / machine / path).parent_path());
    std::ofstream(root_ / machine / path) << text;
  }
  std::string text_of(const std::string& machine, const std::string& path) const {
    std::ostringstream text;
    text << std::ifstream(root_ / machine / path).rdbuf();
    return text.str();
  }
  std::vector<std::uint64_t> steps(const std::string& machine) const {
    std::vector<std::uint64_t> all;
    const auto latest = checkpoint::newest_in(root_ / machine / "checkpoints");
    if (latest && latest->newest) all.push_back(latest->newest->step);
    return all;
  }
  std::size_t asked(const std::string& method, const std::string& what) const {
    const auto all = server_.requests();
    return static_cast<std::size_t>(std::ranges::count_if(all, [&](const auto& request) {
      return request.method == method && request.path.find(what) != std::string::npos;
    }));
  }

  s3_test::Server server_;
  std::string id_ = "0123";
  fs::path root_;
  Brought last_;
  std::uint64_t sent_ = 0;
};

TEST_F(HomeInS3, IsThereOnTheNextMachine) {
  brought("one", 1, "");
  write("one", ".spotter/ledger.json", "{}");
  write("one", "log/trainer.log", "step 1\n");
  write("one", "result/weights", "all of them");
  write("one", "scratch/more", "not kept");
  save("one", 10);
  const std::string manifest = kept("one", 1, "");
  brought("two", 2, manifest);
  EXPECT_EQ(steps("two"), std::vector<std::uint64_t>{10});
  for (const char* path : {".spotter/ledger.json", "log/trainer.log", "result/weights"})
    EXPECT_EQ(text_of("two", path), text_of("one", path)) << path;
  EXPECT_FALSE(fs::exists(root_ / "two/scratch"));
  EXPECT_FALSE(fs::exists(root_ / "two/.spotter-home"));
}

TEST_F(HomeInS3, SendsNoByteTwiceAndKeepsTwoCheckpoints) {
  brought("one", 1, "");
  save("one", 10);
  const std::string first = kept("one", 1, "");
  EXPECT_EQ(kept("one", 1, first), first) << "nothing has changed";
  EXPECT_EQ(sent_, 0U);
  save("one", 20);
  const std::string second = kept("one", 1, first);
  EXPECT_LT(sent_, 2000U) << "that of step 10 is there";
  save("one", 30);
  const std::string third = kept("one", 1, second);
  EXPECT_EQ(asked("DELETE", "/data/"), 0U) << "before it is committed that of step 10 is needed";
  save("one", 40);
  kept("one", 1, third);
  EXPECT_GT(asked("DELETE", "/data/"), 0U);
  brought("two", 2, third);
  EXPECT_EQ(steps("two"), std::vector<std::uint64_t>{30});
}

TEST_F(HomeInS3, MakesWhatAnotherHistoryLeftHereGo) {
  brought("one", 1, "");
  save("one", 10);
  const std::string manifest = kept("one", 1, "");
  save("one", 20);  // never committed, and then another machine went on
  write("one", "code/train.py", "x");
  brought("one", 3, manifest);
  EXPECT_EQ(steps("one"), std::vector<std::uint64_t>{10});
  EXPECT_TRUE(fs::exists(root_ / "one/code/train.py")) << "the code is fetched by others";
  EXPECT_EQ(last_.bytes, 0U) << "what was here already is not fetched again";
  EXPECT_TRUE(last_.cleared);
}

// An agent forgets how the trainer ended once the answer says that the result went with the copy:
// one that was killed before leaves that to the next.
TEST_F(HomeInS3, SaysThatItWasClearedUntilSomethingIsKept) {
  brought("one", 1, "");
  save("one", 10);
  const std::string manifest = kept("one", 1, "");
  brought("one", 1, manifest);
  EXPECT_FALSE(last_.cleared);
  save("one", 20);
  brought("one", 3, manifest);
  EXPECT_TRUE(last_.cleared);
  brought("one", 3, manifest);
  EXPECT_TRUE(last_.cleared) << "nobody may have got the answer";
  brought("one", 4, manifest, 3);
  EXPECT_TRUE(last_.cleared) << "nor in the epoch before";
  save("one", 30);
  const std::string next = kept("one", 4, manifest);
  brought("one", 4, next);
  EXPECT_FALSE(last_.cleared);
  EXPECT_EQ(steps("one"), std::vector<std::uint64_t>{30});
}

TEST_F(HomeInS3, LeavesWhatIsNewerHereWhereNobodyCameBetween) {
  brought("one", 1, "");
  save("one", 10);
  const std::string manifest = kept("one", 1, "");
  save("one", 20);
  brought("one", 2, manifest, 1);
  EXPECT_EQ(steps("one"), std::vector<std::uint64_t>{20});
  EXPECT_FALSE(last_.cleared);
}

TEST_F(HomeInS3, LeavesATornCheckpointOutAndSaysSo) {
  brought("one", 1, "");
  save("one", 10);
  save("one", 20);
  const std::string manifest = kept("one", 1, "");
  const auto stored = server_.find("homes/mine/" + manifest);
  ASSERT_TRUE(stored);
  const auto files = bucket::decode(stored->bytes);
  ASSERT_TRUE(files) << files.error().message;
  const bucket::File& newest = files->files.at("checkpoints/step-000000000020/weights");
  server_.put("homes/mine/" + newest.key(), std::string(newest.bytes, 'x'));
  brought("two", 2, manifest);
  ASSERT_EQ(last_.torn.size(), 1U);
  EXPECT_NE(last_.torn.front().find("step-000000000020"), std::string::npos);
  EXPECT_EQ(steps("two"), std::vector<std::uint64_t>{10});

  const bucket::File& older = files->files.at("checkpoints/step-000000000010/weights");
  server_.put("homes/mine/" + older.key(), std::string(older.bytes, 'x'));
  const auto none = bring(home("three", 3), manifest, 0);
  ASSERT_FALSE(none) << "nothing begins from scratch by itself";
  EXPECT_NE(none.error().message.find("all checkpoints"), std::string::npos);
}

TEST_F(HomeInS3, NothingOfASessionThatFollowedIsRemoved) {
  brought("one", 1, "");
  save("one", 10);
  const std::string first = kept("one", 1, "");
  brought("two", 2, first);
  save("two", 20);
  const std::string second = kept("two", 2, first);
  // The first machine wakes up, and knows of no other: of what the second brought it removes none.
  save("one", 11);
  kept("one", 1, first);
  brought("three", 3, second);
  EXPECT_EQ(steps("three"), std::vector<std::uint64_t>{20});
}

TEST_F(HomeInS3, KeepsWhatATrainerWithItsOwnFormatLeft) {
  brought("one", 1, "");
  write("one", "checkpoints/state.bin", "all of it");
  const std::string left = kept("one", 1, "", true);
  brought("two", 2, left);
  write("two", "log/trainer.log", "begun\n");  // the trainer runs: what it writes is not known
  const std::string counted = kept("two", 2, left);
  EXPECT_NE(counted, left);
  const std::string later = kept("two", 2, counted);
  brought("three", 3, later);
  EXPECT_EQ(text_of("three", "checkpoints/state.bin"), "all of it");
  EXPECT_EQ(text_of("three", "log/trainer.log"), "begun\n");
  // The files that it leaves itself count then.
  fs::remove(root_ / "three/checkpoints/state.bin");
  write("three", "checkpoints/next.bin", "more");
  const std::string last = kept("three", 3, later, true);
  brought("four", 4, last);
  EXPECT_FALSE(fs::exists(root_ / "four/checkpoints/state.bin"));
  EXPECT_EQ(text_of("four", "checkpoints/next.bin"), "more");
}

TEST_F(HomeInS3, KeepsWhatIsCommittedWhenTheTrainerRemovesWhatIsBeingCopied) {
  brought("one", 1, "");
  save("one", 10);
  const std::string first = kept("one", 1, "");
  save("one", 20);
  fs::remove_all(root_ / "one/checkpoints/step-000000000010");
  fs::remove(root_ / "one/checkpoints/step-000000000020/weights");  // it was listed a moment ago
  const auto done = keep(home("one", 1), {{}, first, false, true});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->newest, 10);
  EXPECT_EQ(done->said.size(), 1U);
  const std::string later = kept("one", 1, done->manifest);
  brought("two", 2, later);
  EXPECT_EQ(steps("two"), std::vector<std::uint64_t>{10});
}

TEST_F(HomeInS3, TakesNothingOfAnotherHomeOfThatName) {
  brought("one", 1, "");
  write("one", ".spotter/ledger.json", "done");
  save("one", 10);
  write("one", "result/weights", "of the first");
  const std::string manifest = kept("one", 1, "");
  id_ = "4567";  // the head was removed, and its first epoch is 1 again
  brought("one", 1, "");
  for (const char* path : {".spotter/ledger.json", "result/weights"})
    EXPECT_FALSE(fs::exists(root_ / "one" / path)) << path;
  EXPECT_EQ(steps("one"), std::vector<std::uint64_t>{});
}

TEST_F(HomeInS3, TakesTurnsInAFolderWithThatOfTheExperimentBefore) {
  brought("one", 1, "");
  write("one", "code/notes", "of the first");
  write("one", "cache/data", "of the job");
  write("one", "result/weights", "of the first");
  const std::string manifest = kept("one", 1, "");
  EXPECT_TRUE(is_copy(root_ / "one", "s3://bucket/homes/mine/"));
  EXPECT_FALSE(is_copy(root_ / "one", "s3://bucket/homes/min"));
  EXPECT_FALSE(is_copy(root_ / "two", "s3://bucket/homes/mine/"));
  brought("one", 2, manifest);
  EXPECT_TRUE(fs::exists(root_ / "one/code/notes")) << "the same home";
  id_ = "4567";
  brought("one", 1, "");
  EXPECT_FALSE(fs::exists(root_ / "one/code")) << "its trainer wrote there";
  EXPECT_FALSE(fs::exists(root_ / "one/result/weights"));
  EXPECT_EQ(text_of("one", "cache/data"), "of the job");
}

// A container that runs as root leaves it so.
TEST_F(HomeInS3, SetsAsideWhatItsUserCannotRemove) {
  if (::geteuid() != 0) GTEST_SKIP() << "it takes root to write what another user cannot remove";
  constexpr uid_t user = 65534;
  brought("one", 1, "");
  save("one", 10);
  const std::string manifest = kept("one", 1, "");
  write("one", "code/__pycache__/train", "of the first");
  write("one", "result/deep/weights", "of the first");
  write("one", "more/data", "of the first");
  ASSERT_EQ(::chown(root_.c_str(), user, user), 0);
  for (const char* path : {"", ".spotter", ".spotter/home.json", "checkpoints", "result"})
    (void)::chown((root_ / "one" / path).c_str(), user, user);
  for (const auto& each : fs::recursive_directory_iterator(root_ / "one/checkpoints"))
    ASSERT_EQ(::chown(each.path().c_str(), user, user), 0);
  id_ = "4567";
  ASSERT_EQ(::seteuid(user), 0);
  brought("one", 1, "");
  ASSERT_EQ(::seteuid(0), 0);
  for (const char* path : {"code", "result/deep", "more/data"})
    EXPECT_FALSE(fs::exists(root_ / "one" / path)) << path;
  EXPECT_TRUE(fs::exists(root_ / "one/result")) << "it is laid out for the trainer";
  EXPECT_EQ(steps("one"), std::vector<std::uint64_t>{});
  EXPECT_FALSE(kept("one", 1, "").empty());
}

TEST_F(HomeInS3, FetchesTheCodeAgainWhereABringWasBrokenOff) {
  brought("one", 1, "");
  write("one", "code/last.ckpt", "of the first");
  fs::remove(root_ / "one/.spotter/home.json");
  id_ = "4567";
  brought("one", 1, "");
  EXPECT_FALSE(fs::exists(root_ / "one/code"));
}

TEST_F(HomeInS3, BringsAgainWhatHasAllButItsBytes) {
  brought("one", 1, "");
  write("one", "result/weights", "all of them");
  const std::string manifest = kept("one", 1, "");
  const fs::path file = root_ / "one/result/weights";
  const auto time = fs::last_write_time(file);
  write("one", "result/weights", std::string(11, '\0'));  // as a power cut leaves it
  fs::last_write_time(file, time);
  write("one", "result/more", "newer");
  brought("one", 2, manifest, 1);
  EXPECT_EQ(text_of("one", "result/weights"), "all of them");
  EXPECT_EQ(text_of("one", "result/more"), "newer");
}

TEST_F(HomeInS3, IsNotSaidToBeKeptWhenS3TakesNothing) {
  brought("one", 1, "");
  save("one", 10);
  server_.refuse([](const s3_test::Request& request) -> std::optional<s3_test::Reply> {
    if (request.method != "PUT") return std::nullopt;
    return s3_test::refusal(403, "AccessDenied");
  });
  const auto done = keep(home("one", 1), {{}, "", false, true});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, "s3-refused");
  server_.refuse([](const s3_test::Request& request) -> std::optional<s3_test::Reply> {
    if (request.method != "PUT") return std::nullopt;
    return s3_test::refusal(503, "SlowDown");
  });
  const auto later = keep(home("one", 1), {{}, "", false, true});
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().kind, "s3");
}

TEST_F(HomeInS3, WhatMayStillBeCommittedStaysInTheBucket) {
  brought("one", 1, "");
  save("one", 1);
  const std::string first = kept("one", 1, "");
  save("one", 2);
  const std::string late = kept("one", 1, first);  // the head may come to name it
  brought("one", 1, first, 1);
  save("one", 3);
  const auto next = keep(home("one", 1), {{}, first, false, false});
  ASSERT_TRUE(next) << next.error().message;
  brought("two", 2, late);
  EXPECT_EQ(steps("two"), std::vector<std::uint64_t>{2});
}

}  // namespace
}  // namespace spotter::tier
