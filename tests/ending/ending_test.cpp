// Each way in which an agent ends: its exit status, and the line that says why.
#include "agent/service/ending.hpp"

#include <gtest/gtest.h>
#include <sysexits.h>

#include "agent/aws/formats/batch.hpp"
#include "agent/decide/describe.hpp"
#include "tests/decide/story.hpp"

namespace spotter {
namespace {

using decide::Facts;
using decide::Notice;
using decide::Policy;
using decide::Surrender;

enum class Kind { Service, Run, Worker, Prepare };

struct Case {
  const char* name;
  Kind kind;
  Facts facts;
  SessionsEnd end;
  int status;
  std::vector<const char*> says;
};

Facts gave_up(Surrender why, std::int64_t newest = -1) {
  Facts facts{.exit = {.surrender = why}};
  facts.progress.ledger.newest_step = newest;
  return facts;
}

Facts checkpointed(Facts::Exit exit) {
  Facts facts{.exit = exit};
  facts.progress.checkpoint_step = 40;
  return facts;
}

Facts stopped_early() {
  Facts facts{.exit = {.done = true}};
  facts.progress.ledger.stopped_early = decide::Detail("9th of 10 at step 5");
  return facts;
}

Facts in_use(bool trains) {
  return {.holding = {.attached = true, .mounted = true}, .trainer = {.running = trains}};
}

SessionsEnd blocked(decide::Block why, decide::Detail detail) {
  SessionsEnd end;
  end.on_stage(decide::Blocked{why, detail});
  end.on_stage(decide::Surveying{});
  return end;
}

std::vector<Case> runs_that_end_well_or_again() {
  return {
      {"done", Kind::Run, {.exit = {.done = true}}, {}, 0, {"finished", "durable"}},
      {"ruled out", Kind::Worker, stopped_early(), {}, 0, {"early", "9th of 10"}},
      {"asked before anything began",
       Kind::Run,
       {.exit = {.leave = true}},
       {},
       75,
       {"as asked", "run it again"}},
      {"asked", Kind::Run, checkpointed({.leave = true}), {}, 75, {"run it again", "step 40"}},
      {"noticed",
       Kind::Run,
       checkpointed({.notice = Notice{}}),
       {.exit_code = 75},
       75,
       {"about to end", "run it again", "step 40"}},
      {"worker noticed", Kind::Worker, checkpointed({.notice = Notice{}}), {}, 75, {"step 40"}},
  };
}

std::vector<Case> runs_that_give_up() {
  return {
      {"failed",
       Kind::Run,
       gave_up(Surrender::NoProgress, 7),
       {.exit_code = 9},
       9,
       {"gave up", "3 times", "ended with exit status 9", "on_failure.attempts_without_progress: 3",
        "step 7", "begin at 0"}},
      {"killed",
       Kind::Run,
       gave_up(Surrender::NoProgress),
       {.signal = 11},
       128 + 11,
       {"ended by signal 11", "on_failure.attempts_without_progress"}},
      {"exit(-1)",
       Kind::Run,
       gave_up(Surrender::NoProgress),
       {.exit_code = 255},
       255,
       {"ended with exit status 255"}},
      {"no result",
       Kind::Run,
       gave_up(Surrender::NoProgress),
       {.exit_code = 0},
       1,
       {"exit status 0", "trainer.result"}},
      {"nothing ran in this session",
       Kind::Run,
       gave_up(Surrender::NoProgress),
       {},
       1,
       {"gave up: the trainer failed, or could not run, 3 times without a new checkpoint between "
        "them (on_failure.attempts_without_progress: 3)"}},
      {"worker failed",
       Kind::Worker,
       gave_up(Surrender::NoProgress),
       {.of_worker = true, .exit_code = 75},
       1,
       {"3 times", "exit status 75"}},
      {"started in vain",
       Kind::Run,
       gave_up(Surrender::StartsInVain),
       {},
       1,
       {"gave up", "started 30 times", "attempts_without_progress: 3", "starts_per_attempt: 10",
        "raise", "begin at 0"}},
      {"hours", Kind::Run, gave_up(Surrender::HoursSpent), {}, 1, {"limits.hours", "raise"}},
      {"dollars", Kind::Run, gave_up(Surrender::DollarsSpent), {}, 1, {"limits.dollars", "raise"}},
      {"blocked",
       Kind::Run,
       gave_up(Surrender::BlockedTooLong),
       blocked(decide::Block::CodeMissing, "main2"),
       1,
       {"nobody acted", "code.revision", "(main2)"}},
      {"without GPUs for long", Kind::Run, gave_up(Surrender::GpusAbsent), {}, 1, {"trainer.gpus"}},
  };
}

std::vector<Case> of_other_kinds() {
  return {
      {"without GPUs",
       Kind::Run,
       {.exit = {.unfit = true}},
       {},
       75,
       {"trainer.gpus", "nvidia-smi"}},
      {"worker without GPUs",
       Kind::Worker,
       {.exit = {.unfit = true}},
       {.of_worker = true},
       EX_UNAVAILABLE,
       {"trainer.gpus", "another one is to"}},
      {"filled", Kind::Prepare, {.exit = {.filled = true}}, {}, 0, {"filled", "prepared"}},
      {"filling, asked", Kind::Prepare, {.exit = {.leave = true}}, {}, 75, {"prepare it again"}},
      {"filling, noticed", Kind::Prepare, {.exit = {.notice = Notice{}}}, {}, 75, {"again"}},
      {"not filled",
       Kind::Prepare,
       {},
       blocked(decide::Block::NotFilled, {}),
       1,
       {"not filled", "`prepare:`", "run it again"}},
      {"not filled, for no known reason", Kind::Prepare, {}, {}, 1, {"lines above"}},
      {"service", Kind::Service, in_use(true), {}, 0, {"the trainer goes on", "next agent"}},
      {"service, in use", Kind::Service, in_use(false), {}, 0, {"in use here", "next agent"}},
      {"service, idle",
       Kind::Service,
       checkpointed({.leave = true}),
       {},
       0,
       {"nothing of the job is in use here", "step 40"}},
      {"service, done", Kind::Service, {.exit = {.done = true}}, {}, 0, {"the job is finished"}},
      {"service, gave up",
       Kind::Service,
       gave_up(Surrender::StartsInVain, 3),
       {},
       0,
       {"given up", "starts_per_attempt: 10", "launch it again", "step 3"}},
  };
}

std::vector<Case> cases() {
  std::vector<Case> all = runs_that_end_well_or_again();
  for (const auto& more : {runs_that_give_up(), of_other_kinds()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

Policy policy_of(Kind kind) {
  Policy policy;
  policy.foreground = kind != Kind::Service;
  policy.fills = kind == Kind::Prepare;
  return policy;
}

TEST(Ending, SaysInItsLastLineWhyAndWhatToDo) {
  for (const Case& it : cases()) {
    SCOPED_TRACE(it.name);
    const Policy policy = policy_of(it.kind);
    EXPECT_EQ(exit_status(policy, it.facts, it.end), it.status);
    const std::string words = last_words(policy, it.facts, it.end);
    for (const char* part : it.says) EXPECT_NE(words.find(part), words.npos) << words;
    EXPECT_EQ(words.find('\n'), words.npos) << "one line";
  }
}

TEST(Ending, HasACaseForEachReasonToGiveUp) {
  std::set<Surrender> judged;
  for (const Case& it : cases()) judged.insert(it.facts.exit.surrender);
  for (const auto& [why, event, words] : decide::surrender_words)
    EXPECT_TRUE(judged.contains(why)) << event;
}

// With the real core: ten starts and no checkpoint, each in a machine that was lost.
TEST(Ending, OfARunThatIsAlwaysLostBeforeItsFirstCheckpoint) {
  decide::Ledger ledger;
  int starts = 0;
  std::string last;
  for (; last.empty() && starts < 100; ++starts) {
    decide::Story story;
    story.policy.storage = decide::StorageKind::Share;
    story.policy.foreground = true;
    story.policy.has_code = false;
    story.policy.attempts_without_progress = 1;
    story.policy.then = GiveUp::Hold;
    story.sense(decide::Started{});
    story.answer(decide::HostLooked{});
    if (story.stage() == "identifying") story.answer(decide::EffectFailed{});
    ASSERT_EQ(story.stage(), "preparing");
    story.answer(decide::Mounted{});
    story.answer(decide::LedgerRead{ledger});
    story.answer(decide::CheckpointsVerified{});
    ASSERT_TRUE(story.did<decide::WriteLedger>());
    ledger = story.did<decide::WriteLedger>()->ledger;
    story.answer(decide::LedgerWritten{});
    if (story.stage() == "starting-trainer") continue;
    story.answer(decide::Unmounted{});
    ASSERT_EQ(story.stage(), "leaving");
    EXPECT_EQ(exit_status(story.policy, story.state.facts, {}), 1);
    last = last_words(story.policy, story.state.facts, {});
  }
  EXPECT_EQ(starts, 11) << "the tenth was the last to train";
  EXPECT_NE(last.find("started 10 times"), last.npos) << last;
  EXPECT_NE(last.find("starts_per_attempt: 10"), last.npos) << last;
  EXPECT_EQ(ledger.starts_without_progress, 0U) << "as the line says";
}

}  // namespace
}  // namespace spotter
