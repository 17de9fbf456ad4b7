// Sessions of agents at one home in a bucket: who gets it, what a folder here may be used for, and
// what becomes of the work of the session before.
#include "agent/service/act/home.hpp"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/wire/head.hpp"
#include "tests/net/server.hpp"
#include "tests/s3/server.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::act {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using decide::EffectFailed;
using decide::Epoch;
using decide::Failure;
using decide::Happening;
using decide::HomeKept;
using net_test::run;

constexpr Duration kLimit = 20s;
constexpr const char* kHead = "jobs/heads/mine/head.json";

// One agent's process, with a run directory and a cache.
class Session {
 public:
  Session(asio::io_context& context, const fs::path& run_directory, const fs::path& cache)
      : context_(context), run_directory_(run_directory) {
    fs::create_directories(run_directory);
    job_.name = "mine";
    job_.trainer.user = ::getpwuid(::geteuid())->pw_name;
    job_.trainer.inherits = true;
    Share& share = job_.storage.share.emplace();
    share.kind = Share::Kind::S3;
    share.mount = cache;
    job_.storage.bucket = {"bucket", "jobs/"};
    job_.metrics.emplace().csv = "*/run?.csv";
    home_ = std::make_unique<Home>(Home::Parts{job_, aws_, local_, keys_, run_directory});
  }

  decide::Survey look() {
    const Happening seen = run(context_, home_->survey(kLimit));
    const auto* survey = std::get_if<decide::StorageSurveyed>(&seen);
    EXPECT_TRUE(survey) << words(seen);
    return survey ? survey->survey : decide::Survey();
  }
  Happening take() {
    const decide::Survey seen = look();
    Epoch next = seen.epoch;
    ++next.number;
    next.state = Epoch::State::Using;
    next.holder = seen.epoch_self;
    return run(context_, home_->write(next, kLimit));
  }
  Happening release() {
    Epoch next = look().epoch;
    ++next.number;
    next.state = Epoch::State::Released;
    return run(context_, home_->write(next, kLimit));
  }
  Happening bring() {
    const Happening made = run(context_, local_.on(decide::PrepareShare(), kLimit));
    EXPECT_TRUE(std::holds_alternative<decide::Mounted>(made)) << words(made);
    return run(context_, home_->bring(kLimit));
  }
  // Taken, and brought here.
  void begin() {
    Happening what = take();
    ASSERT_TRUE(std::holds_alternative<decide::EpochWritten>(what)) << words(what);
    what = bring();
    ASSERT_TRUE(std::holds_alternative<decide::Mounted>(what)) << words(what);
  }
  void claims(std::uint64_t token) { job_.token = token; }
  s3::Tally requests() { return home_->take_requests(); }
  HomeKept keep(std::uint32_t epoch, bool whole = false) {
    HomeKept kept;
    last_ = run(context_, home_->keep(epoch, whole, kLimit, kept));
    return kept;
  }
  Failure last_failure() const {
    const auto* failed = std::get_if<EffectFailed>(&last_);
    return failed ? failed->failure : Failure::Busy;
  }
  void save(std::uint64_t step) {
    const std::string bytes = "weights of step " + std::to_string(step);
    const checkpoint::Part part{"weights", bytes};
    ASSERT_TRUE(checkpoint::save(folder() / "checkpoints", step, {&part, 1}, {}));
  }
  bool has(std::uint64_t step) const {
    char name[32];
    std::snprintf(name, sizeof name, "step-%012u", static_cast<unsigned>(step));
    return fs::exists(folder() / "checkpoints" / name / "weights");
  }
  fs::path folder() const { return job_.home(); }
  static std::string words(const Happening& what) {
    const auto* failed = std::get_if<EffectFailed>(&what);
    return failed ? failed->detail.str() : "no failure";
  }
  static Failure kind(const Happening& what) {
    const auto* failed = std::get_if<EffectFailed>(&what);
    return failed ? failed->failure : Failure::Busy;  // which none of these is
  }

 private:
  asio::io_context& context_;
  std::string run_directory_;
  config::Job job_;
  io::HttpClient http_{context_};
  AwsClient aws_{http_, {.region = "us-west-2", .environment = Environment::of_this_process()}};
  Local local_{job_, SPOTTER_PROGRAM, run_directory_};
  TrainerKeys keys_{TrainerKeys::Parts{context_, job_, run_directory_, aws_, [] { return false; }}};
  std::unique_ptr<Home> home_;
  Happening last_;
};

class HomeOfAgents : public testing::Test {
 protected:
  HomeOfAgents() {
    char name[] = "/tmp/spotter-agents-XXXXXX";
    root_ = ::mkdtemp(name);
    fs::permissions(root_, fs::perms(0755));
    for (const auto& [variable, value] :
         {std::pair<const char*, std::string>{"AWS_ENDPOINT_URL_S3", server_.url()},
          {"AWS_ACCESS_KEY_ID", "AKID"},
          {"AWS_SECRET_ACCESS_KEY", "secret"},
          {"AWS_REGION", "us-west-2"},
          {"HOME", root_.string()}})
      ::setenv(variable, value.c_str(), 1);
  }
  ~HomeOfAgents() override { fs::remove_all(root_); }

  std::unique_ptr<Session> session(const std::string& run_directory, const std::string& cache) {
    return std::make_unique<Session>(context_, root_ / run_directory, root_ / cache);
  }
  wire::Head head() const {
    const auto stored = server_.find(kHead);
    return stored ? wire::parse_head(stored->bytes).value_or(wire::Head{}) : wire::Head{};
  }

  s3::Tally seen_by_s3() const {
    s3::Tally all;
    for (const auto& request : server_.requests()) {
      const bool lists = request.path == "/bucket" || request.path == "/bucket/";
      ++(request.method == "GET" && !lists ? all.reads : all.writes);
    }
    return all;
  }

  asio::io_context context_;
  s3_test::Server server_;
  fs::path root_;
};

TEST_F(HomeOfAgents, IsTakenBroughtAndKept) {
  const auto one = session("run", "cache");
  EXPECT_EQ(one->look().epoch.number, 0U);
  one->begin();
  one->save(10);
  const HomeKept kept = one->keep(1);
  EXPECT_EQ(kept.outcome, HomeKept::Outcome::Committed) << one->words({});
  EXPECT_EQ(kept.newest, 10);
  EXPECT_GT(kept.bytes, 0U);
  EXPECT_EQ(head().newest, 10);
  EXPECT_EQ(head().epoch.number, 1U);
  const auto two = session("other-run", "other-cache");
  ASSERT_TRUE(std::holds_alternative<decide::EpochWritten>(two->take()));
  two->bring();
  EXPECT_TRUE(two->has(10));
  EXPECT_EQ(one->keep(1).outcome, HomeKept::Outcome::Lost) << "it was taken";
  EXPECT_EQ(head().newest, 10);
}

TEST_F(HomeOfAgents, CountsItsRequestsAndThoseOfItsVerbs) {
  const auto one = session("run", "cache");
  one->begin();
  one->save(10);
  ASSERT_EQ(one->keep(1).outcome, HomeKept::Outcome::Committed);
  const s3::Tally counted = one->requests();
  EXPECT_EQ(counted.reads, seen_by_s3().reads);
  EXPECT_EQ(counted.writes, seen_by_s3().writes) << "nothing was deleted";
  EXPECT_EQ(one->requests().writes, 0U) << "each once";
}

TEST_F(HomeOfAgents, CountsWhatNoLedgerOfTheSessionBeforeHas) {
  auto before = session("run", "cache");
  before->begin();
  before->save(10);
  ASSERT_EQ(before->keep(1).outcome, HomeKept::Outcome::Committed);
  (void)before->requests();  // when its ledger was written
  ASSERT_TRUE(std::holds_alternative<decide::EpochWritten>(before->release()));
  EXPECT_EQ(head().s3_writes, seen_by_s3().writes);
  EXPECT_EQ(head().s3_reads, seen_by_s3().reads);
  before.reset();
  const auto next = session("other-run", "other-cache");
  next->begin();
  EXPECT_EQ(head().s3_writes, 0U) << "each once";
  const s3::Tally counted = next->requests();
  EXPECT_EQ(counted.writes, seen_by_s3().writes);
  EXPECT_EQ(counted.reads, seen_by_s3().reads);
}

TEST_F(HomeOfAgents, WhoClaimsAnExperimentLaterWaitsForNoEarlierHolder) {
  const auto one = session("run", "cache");
  one->claims(1);
  one->begin();
  EXPECT_EQ(head().attempt, 1U);
  const auto two = session("other-run", "other-cache");
  EXPECT_EQ(two->look().epoch_holder, decide::HolderState::Alive) << "it has no claim";
  two->claims(2);
  EXPECT_EQ(two->look().epoch_holder, decide::HolderState::Gone);
  two->begin();
  EXPECT_EQ(one->look().epoch_holder, decide::HolderState::Alive) << "this one woke up late";
}

TEST_F(HomeOfAgents, AFolderIsOneAgentsAndTheOtherTakesNoEpochForIt) {
  auto one = session("run", "cache");
  one->begin();
  const auto other = session("other-run", "cache");
  const Happening what = other->take();
  EXPECT_EQ(Session::kind(what), Failure::Unavailable);
  EXPECT_NE(Session::words(what).find("another agent has"), std::string::npos)
      << Session::words(what);
  EXPECT_EQ(head().epoch.number, 1U) << "the trainer of the first would be ended";
  one->save(10);
  EXPECT_EQ(one->keep(1).outcome, HomeKept::Outcome::Committed);
  one.reset();
  EXPECT_TRUE(std::holds_alternative<decide::EpochWritten>(other->take())) << "when that has ended";
}

TEST_F(HomeOfAgents, ARunDirectoryIsOneHolderAndAnotherOneIsNot) {
  auto one = session("run", "cache");
  const InstanceId self = one->look().epoch_self;
  EXPECT_TRUE(self.view().starts_with("run-")) << self.view();
  one.reset();
  EXPECT_EQ(session("run", "cache")->look().epoch_self, self) << "the next agent in it";
  EXPECT_NE(session("other-run", "cache")->look().epoch_self, self) << "of the same host";
  fs::remove_all(root_ / "run");
  EXPECT_NE(session("run", "cache")->look().epoch_self, self)
      << "a pod in the place of another has its names, and that one may run on";
}

TEST_F(HomeOfAgents, WhatAnAdoptedTrainerMadeIsKeptBeforeAnybodyLooked) {
  auto before = session("run", "cache");
  before->begin();
  before.reset();  // its agent is killed, the trainer goes on
  const auto next = session("run", "cache");
  next->save(20);
  EXPECT_EQ(next->keep(0).outcome, HomeKept::Outcome::Committed);
  EXPECT_EQ(head().newest, 20);
  EXPECT_EQ(head().epoch.number, 1U);
  const auto stranger = session("other-run", "other-cache");
  EXPECT_EQ(stranger->keep(0).outcome, HomeKept::Outcome::Lost);
  EXPECT_EQ(stranger->last_failure(), Failure::Conflict);
}

// S3 refuses the last checkpoint, and takes the release: hours of work may lie here alone.
TEST_F(HomeOfAgents, WhatWasNotSentBeforeTheReleaseIsStillThere) {
  auto before = session("run", "cache");
  before->begin();
  before->save(10);
  ASSERT_EQ(before->keep(1).outcome, HomeKept::Outcome::Committed);
  before->save(20);
  ASSERT_TRUE(std::holds_alternative<decide::EpochWritten>(before->release()));
  before.reset();
  const auto next = session("run", "cache");
  next->begin();
  EXPECT_EQ(head().epoch.number, 3U);
  EXPECT_TRUE(next->has(20));
}

TEST_F(HomeOfAgents, TheTrainersLogIsBroughtAlong) {
  const auto one = session("run", "cache");
  one->begin();
  // The last two are not kept: its code is fetched again, and a file among the checkpoints would be
  // taken for one.
  for (const char* folder : {"metrics", "result", "code", "checkpoints"}) {
    fs::create_directories(one->folder() / folder);
    std::ofstream(one->folder() / folder / "run1.csv") << "step,loss\n10,0.5\n";
  }
  one->save(10);
  ASSERT_EQ(one->keep(1).outcome, HomeKept::Outcome::Committed);
  const auto two = session("other-run", "other-cache");
  fs::create_directories(two->folder() / "metrics");
  std::ofstream(two->folder() / "metrics/run2.csv") << "of another history";
  two->begin();
  EXPECT_TRUE(two->has(10));
  std::ifstream log(two->folder() / "metrics/run1.csv");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(log), {}), "step,loss\n10,0.5\n");
  EXPECT_TRUE(fs::exists(two->folder() / "result/run1.csv"));
  EXPECT_FALSE(fs::exists(two->folder() / "code/run1.csv"));
  EXPECT_FALSE(fs::exists(two->folder() / "checkpoints/run1.csv"));
  EXPECT_FALSE(fs::exists(two->folder() / "metrics/run2.csv"));
}

TEST_F(HomeOfAgents, WhatTheSessionBeforeDidNotSendIsStillThere) {
  auto before = session("run", "cache");
  before->begin();
  before->save(10);
  ASSERT_EQ(before->keep(1).outcome, HomeKept::Outcome::Committed);
  before->save(20);
  before.reset();
  auto next = session("run", "cache");
  next->begin();
  EXPECT_TRUE(next->has(20)) << "it is newer than what the bucket has, and of this history";
  EXPECT_EQ(next->keep(2).newest, 20);
  // Now another machine goes on from there, and this one comes back.
  next->save(30);
  next.reset();
  auto other = session("other-run", "other-cache");
  other->begin();
  other->save(21);
  ASSERT_EQ(other->keep(3).outcome, HomeKept::Outcome::Committed);
  other.reset();
  const auto back = session("run", "cache");
  back->begin();
  EXPECT_FALSE(back->has(30)) << "of another history";
  EXPECT_TRUE(back->has(21));
}

TEST_F(HomeOfAgents, ACommitWhoseAnswerIsLostIsFoundInTheBucketAndNothingIsRemovedMeanwhile) {
  const auto one = session("run", "cache");
  one->begin();
  one->save(10);
  ASSERT_EQ(one->keep(1).outcome, HomeKept::Outcome::Committed);
  const std::string first = head().manifest;
  server_.trouble([](const s3_test::Request& request, s3_test::Reply& reply) {
    const bool looks = request.method == "HEAD";  // whether the write was carried out
    if ((request.method == "PUT" || looks) && request.path.ends_with("head.json"))
      reply = s3_test::refusal(500, "InternalError");
  });
  one->save(20);
  const HomeKept doubtful = one->keep(1);
  server_.trouble({});
  EXPECT_EQ(doubtful.outcome, HomeKept::Outcome::Failed);
  one->save(30);
  EXPECT_EQ(one->keep(1).outcome, HomeKept::Outcome::Committed);
  EXPECT_TRUE(server_.find("jobs/homes/mine/" + first)) << "the head may have named it still";
  EXPECT_EQ(head().newest, 30);
}

}  // namespace
}  // namespace spotter::act
