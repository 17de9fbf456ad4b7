// The entries that a job leaves in its history.
#include "agent/service/observe/history.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "agent/io/kernel.hpp"
#include "tests/decide/story.hpp"

namespace spotter {
namespace {

namespace fs = std::filesystem;
using decide::Story;

class Recorded : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    watch();
  }
  void TearDown() override { fs::remove_all(folder_); }

  History::Settings settings() {
    return {folder_, "mnist", std::nullopt, "laptop", 1699999000, [this] { return wall_clock(); }};
  }
  // Beside the story's own time.
  double wall_clock() const {
    const auto since = std::chrono::duration<double>(story_.now.time_since_epoch());
    return 1700000000 + since.count();
  }
  // An agent is started (again).
  void begin() {
    history_ = std::make_unique<History>(settings());
    history_->add_sink([this](const wire::HistoryEntry& entry) { recorded_.push_back(entry); });
  }
  void watch() {
    begin();
    story_.watched = [this](const decide::Event& event, std::size_t before) {
      for (const decide::Effect& effect : story_.effects) history_->on_effect(effect);
      history_->on_event(event, story_.state, story_.policy, before);
    };
  }
  // "phase training, checkpoint, ..."
  std::string words() const {
    std::string all;
    for (const wire::HistoryEntry& entry : recorded_) {
      all += (all.empty() ? "" : ", ") + entry.what;
      for (const char* name : {"phase", "change", "end", "why"})
        if (const auto text = entry.text(name); !text.empty()) all += " " + text;
    }
    return all;
  }
  const wire::HistoryEntry& last(std::string_view what) const {
    static const wire::HistoryEntry none;
    for (auto each = recorded_.rbegin(); each != recorded_.rend(); ++each)
      if (each->what == what) return *each;
    ADD_FAILURE() << "nothing was recorded of " << what;
    return none;
  }

  const std::string folder_ = testing::TempDir() + "/spotter-history-" + std::to_string(::getpid());
  Story story_;
  std::unique_ptr<History> history_;
  std::vector<wire::HistoryEntry> recorded_;
};

TEST_F(Recorded, ALifeFromBootToTheNotice) {
  story_.train({.reached = 30, .repeated = 4});
  EXPECT_EQ(words(),
            "began, phase looking, price, phase mounting, volume attached, account, "
            "phase preparing, phase training");
  EXPECT_EQ(last("began").instance, "i-me");
  EXPECT_EQ(last("began").text("zone"), "us-west-2a");
  EXPECT_EQ(last("began").text("job"), "mnist");
  EXPECT_EQ(last("price").number("dollars_per_hour"), 1);
  recorded_.clear();
  story_.sense(decide::TrainerResumed{20});
  EXPECT_EQ(last("resumed").number("repeated"), 10);
  history_->on_message({.checkpoint = wire::DurableCheckpoint{"/a", 22, 2.0, 1000}});
  story_.sense(decide::CheckpointMade{22, std::chrono::seconds(2)});
  EXPECT_EQ(last("checkpoint").number("bytes"), 1000);
  EXPECT_EQ(last("checkpoint").number("seconds"), 2);
  history_->on_message({.checkpoint = wire::DurableCheckpoint{"/a", 24, 2.0, 500}});
  story_.pass(std::chrono::seconds(30));
  story_.sense(decide::CheckpointMade{24, std::chrono::seconds(2)});
  story_.sense(decide::TrainerProgressed{25});
  const Time deadline = story_.now + std::chrono::seconds(100);
  story_.sense(decide::NoticeSeen{InterruptionAction::Stop, deadline});
  story_.sense(decide::NoticeSeen{InterruptionAction::Stop, deadline});
  story_.sense(decide::CheckpointMade{25, std::chrono::seconds(2)});
  history_->on_message({.window_trained = 41.5});
  story_.sense(decide::TrainerEnded{false, true});
  EXPECT_EQ(words(),
            "resumed, checkpoint, notice, phase stopping, checkpoint, ended stopped, "
            "phase releasing, account");
  EXPECT_EQ(last("notice").text("action"), "stop");
  EXPECT_NEAR(*last("notice").number("deadline"), wall_clock() + 100, 0.01);
  EXPECT_EQ(last("ended").number("step"), 25);
  EXPECT_EQ(last("ended").number("checkpoint_step"), 25);
  EXPECT_EQ(last("ended").number("checkpoints"), 3);
  EXPECT_EQ(last("ended").number("stall_seconds"), 6);
  EXPECT_EQ(last("ended").number("bytes"), 1500);
  EXPECT_EQ(last("ended").number("trained_seconds"), 90);
  EXPECT_EQ(last("ended").number("window_trained"), 41.5);
  EXPECT_EQ(last("account").number("repeated"), 14);
  using Outcome = decide::HomeKept::Outcome;
  story_.sense(decide::HomeKept{Outcome::Committed, 25, 100, std::chrono::seconds(1), 9, 4});
  EXPECT_EQ(last("account").number("s3_writes"), 9) << "of a bucket: what that write cost";
  recorded_.clear();
  story_.answer(decide::LedgerWritten{});
  story_.answer(decide::Unmounted{});
  story_.answer(decide::CallAccepted{});
  EXPECT_EQ(words(), "volume detached, phase released");
  history_->on_end(story_.state);
  EXPECT_EQ(last("left").text("why"), "released");
}

TEST_F(Recorded, AMoveBetweenZonesIsOnePhaseWithWhatItDid) {
  story_.boot("us-west-2b");
  story_.survey({decide::the_volume("us-west-2a")});
  story_.answer(decide::SnapshotStarted{"snap-1"});
  story_.survey({decide::the_volume("us-west-2a")},
                {decide::the_snapshot(decide::SnapshotState::Pending)});
  story_.survey({decide::the_volume("us-west-2a")},
                {decide::the_snapshot(decide::SnapshotState::Completed)});
  story_.answer(decide::VolumeCreated{"vol-2"});
  EXPECT_EQ(words(), "began, phase looking, price, phase moving, volume snapshot, volume copy");
  EXPECT_EQ(last("volume").text("volume"), "vol-2");
  EXPECT_EQ(last("volume").text("snapshot"), "snap-1");
  EXPECT_EQ(last("volume").text("zone"), "us-west-2b");
}

TEST_F(Recorded, LookingAgainAndAgainIsOneWait) {
  story_.boot();
  for (int i = 0; i < 5; ++i) story_.survey({decide::held(decide::the_volume(), "i-other", {})});
  EXPECT_EQ(words(), "began, phase looking, price, phase waiting");
}

TEST_F(Recorded, ARefusedChangeDidNotHappen) {
  story_.boot();
  story_.survey({decide::the_volume()});
  ASSERT_EQ(story_.asked(), "attach-volume");
  story_.answer(decide::EffectFailed{decide::Failure::Conflict, false, {}});
  EXPECT_EQ(words().find("volume attached"), std::string::npos);
}

TEST_F(Recorded, AnAgentThatIsStartedAgainGoesOn) {
  story_.train();
  const double trained_since = wall_clock();
  const std::string segment = history_->file().segment();
  recorded_.clear();
  story_.state = {};
  begin();
  story_.sense(decide::Started{});
  EXPECT_EQ(words(), "") << "nobody knows yet whose it is";
  decide::HostLooked seen;
  seen.trainer = decide::HostLooked::Trainer::Running;
  seen.mounted = "vol-1";
  story_.answer(seen);
  story_.answer(decide::IdentityRead{"i-me", "p3.2xlarge", "us-west-2a", "us-west-2"});
  story_.answer(decide::FleetRead{{FleetKind::SpotFleet, "sfr-1"}, 1.0});
  story_.answer(decide::LedgerRead{});
  EXPECT_EQ(words(), "phase looking, phase mounting, phase training") << "the rest was recorded";
  EXPECT_EQ(history_->file().segment(), segment);
  story_.pass(std::chrono::seconds(40));
  story_.sense(decide::TrainerEnded{false, false});
  EXPECT_EQ(last("ended").text("end"), "failed");
  EXPECT_NEAR(*last("ended").number("trained_seconds"), wall_clock() - trained_since + 60, 0.01);
}

TEST_F(Recorded, ARunThatGaveUpIsNotCalledAskedToLeave) {
  story_.sense(decide::Started{});
  story_.state.stage = decide::Leaving{};
  story_.state.facts.exit.surrender = decide::Surrender::StartsInVain;
  history_->on_end(story_.state);
  EXPECT_EQ(last("left").text("why"), "gave-up");
}

TEST_F(Recorded, WithoutAMetadataServiceTheMachineHasItsOwnName) {
  story_.sense(decide::Started{});
  history_->on_end(story_.state);
  EXPECT_EQ(last("left").instance, "laptop");
  EXPECT_EQ(last("began").instance, "laptop");
}

}  // namespace
}  // namespace spotter
