// The report on interruptions: what was saved, what was repeated, and why.
#include <algorithm>

#include "input.hpp"

namespace spotter::report {
namespace {

using End = Instance::End;

TEST(Interruptions, AnnouncedOneSavesEverything) {
  const auto model = built(
      400, announced("i-1").text() + Lines("i-2").began(250, "us-west-2b").trains(290, 810).text());
  ASSERT_EQ(model.interruptions.size(), 1U);
  const Interruption& it = model.interruptions[0];
  EXPECT_EQ(it.kind, "terminate");
  EXPECT_EQ(it.instance, "i-1");
  EXPECT_EQ(it.zone, "us-west-2a");
  EXPECT_EQ(it.deadline, t0 + 220);
  EXPECT_NEAR(*it.seconds_to_durable, 4.1, 1e-3);
  EXPECT_NEAR(*it.window_seconds, 120, 1e-3);
  EXPECT_EQ(it.step, 810);
  EXPECT_EQ(it.checkpoint_step, 810);
  EXPECT_EQ(it.resumed_step, 810);
  EXPECT_EQ(it.repeated_steps, 0);
  EXPECT_NEAR(*it.down_seconds, 290 - 105, 1e-3);
  EXPECT_EQ(it.why,
            "the notice came 120 s before the end: checkpoint durable after 4.1 s, nothing "
            "repeated");
  ASSERT_EQ(model.instances.size(), 2U);
  EXPECT_EQ(model.instances[0].end, End::Interrupted);
  EXPECT_EQ(model.instances[0].ended, t0 + 220) << "the machine is there until EC2 ends it";
  EXPECT_EQ(model.instances[1].end, End::Running);
  EXPECT_EQ(model.state, "training");
  EXPECT_TRUE(model.repeats.empty());
}

TEST(Interruptions, ANoticeStandsUntilTheEnd) {
  Lines one("i-1");
  one.began(0).trains(20, 0).notice(100, 120);
  const auto before = built(101, one.text());
  EXPECT_TRUE(before.interruptions.empty());
  ASSERT_EQ(before.notices.size(), 1U);
  EXPECT_EQ(before.notices[0].deadline, t0 + 220);
  EXPECT_EQ(before.notices[0].instance, "i-1");
  EXPECT_FALSE(before.notices[0].durable);
  const auto saved = built(105, one.checkpoint(104, 810).text());
  ASSERT_EQ(saved.notices.size(), 1U);
  EXPECT_EQ(saved.notices[0].durable, t0 + 104);
  EXPECT_TRUE(built(400, one.text()).notices.empty());
  EXPECT_TRUE(built(106, one.at(105, "notice-withdrawn").text()).notices.empty());
}

TEST(Interruptions, TheWindowThatIsTrainedInIsShown) {
  Lines first("i-1");
  first.began(0).trains(20, 0).notice(100, 118).checkpoint(190, 900);
  first.at(191, "ended",
           R"("end":"stopped","step":905,"checkpoint_step":900,"window_trained":88.5)");
  first.left(193, "released");
  const auto model = built(400, first.text() + Lines("i-2").began(230).trains(290, 900, 5).text());
  const Interruption& it = model.interruptions.at(0);
  EXPECT_EQ(it.window_trained, 88.5);
  EXPECT_EQ(it.repeated_steps, 5);
  EXPECT_EQ(it.why,
            "the notice came 118 s before the end: 88 s of them were trained on, checkpoint "
            "durable after 90 s, 5 steps repeated that were trained since the last checkpoint, "
            "step 900");
  ASSERT_EQ(model.repeats.size(), 1U);
  EXPECT_EQ(model.repeats[0].why, it.why);
}

TEST(Interruptions, WhatWasDurableAlreadyNeedsNoCheckpoint) {
  Lines first("i-1");
  first.began(0).trains(20, 0).checkpoint(99, 800).notice(100, 118);
  first.ended(101, "stopped", 800, 800).left(103, "released");
  const Interruption it = built(400, first.text()).interruptions.at(0);
  EXPECT_EQ(it.seconds_to_durable, 0);
  EXPECT_EQ(it.why,
            "the notice came 118 s before the end: the checkpoint of step 800 was durable "
            "already, nobody has gone on yet");
}

TEST(Interruptions, NoCheckpointAfterTheNoticeIsSaid) {
  Lines first("i-1");
  first.began(0).trains(20, 0).checkpoint(60, 400).notice(100, 30).ended(129, "killed", 800, 400);
  const auto model =
      built(400, first.text() + Lines("i-2").began(230).trains(290, 400, 400).text());
  const Interruption& it = model.interruptions.at(0);
  EXPECT_FALSE(it.seconds_to_durable);
  EXPECT_EQ(it.repeated_steps, 400);
  EXPECT_EQ(it.checkpoint_step, 400);
  EXPECT_EQ(it.why,
            "the notice came 30 s before the end: no checkpoint became durable in that time, 400 "
            "steps repeated that were trained since the last checkpoint, step 400");
}

TEST(Interruptions, LostWithoutNotice) {
  const auto model =
      built(400, Lines("i-1").began(0).trains(20, 0).checkpoint(60, 1500).text() +
                     Lines("i-2").began(230).phase(231, "moving").trains(290, 1500, 312).text());
  const Interruption& it = model.interruptions.at(0);
  EXPECT_EQ(model.instances[0].end, End::Lost);
  EXPECT_EQ(model.instances[0].ended, t0 + 60) << "its last word";
  EXPECT_EQ(it.kind, "lost");
  EXPECT_FALSE(it.notice);
  EXPECT_EQ(it.step, 1812);
  EXPECT_EQ(it.checkpoint_step, 1500);
  EXPECT_EQ(it.repeated_steps, 312);
  EXPECT_EQ(it.why,
            "the machine was lost without notice: 312 steps repeated that were trained since the "
            "last checkpoint, step 1500");
}

TEST(Interruptions, ItsOwnCurveKnowsMoreThanTheAccount) {
  Input it = input_at(400, Lines("i-1").began(0).trains(20, 0).checkpoint(60, 1500).text() +
                               Lines("i-2").began(230).trains(290, 1500, 10).text());
  it.sources[0].reached["i-1"] = 1700;
  const auto model = build(it);
  EXPECT_EQ(model.interruptions.at(0).step, 1700);
  EXPECT_EQ(model.interruptions[0].repeated_steps, 200);
  EXPECT_EQ(model.repeats.at(0).repeated_steps, 200);
  EXPECT_EQ(model.goodput.repeated_steps, 200);
}

TEST(Interruptions, ACurveKnowsAMachineAfterItsLastMoment) {
  Input it = input_at(400, Lines("i-1").began(0).trains(20, 0).text() +
                               Lines("i-2").began(230).phase(231, "moving").trains(290, 90).text());
  for (const auto& [step, second] : {std::pair{50, 100}, {90, 200}, {95, 300}})
    it.sources[0].curve.add({static_cast<std::uint64_t>(step), {}, {}, {}, t0 + second});
  const auto model = build(it);
  EXPECT_EQ(model.instances.at(0).ended, t0 + 200);
  EXPECT_EQ(model.interruptions.at(0).down_seconds, 90);
  EXPECT_EQ(model.instances[0].phases.back().to, t0 + 200);
}

TEST(Interruptions, AMachineThatOnlyWaitsBesideHasNotTakenOver) {
  const auto model =
      built(400, Lines("i-1").began(0).trains(20, 0).text() +
                     Lines("i-2").began(230).phase(231, "looking").phase(240, "waiting").text());
  EXPECT_EQ(model.instances[0].end, End::Running);
  EXPECT_TRUE(model.interruptions.empty());
  EXPECT_EQ(model.state, "training");
  const auto later = built(230 + silence, Lines("i-1").began(0).trains(20, 0).text() +
                                              Lines("i-2").began(230).phase(240, "waiting").text());
  EXPECT_EQ(later.instances[0].end, End::Lost);
}

TEST(Interruptions, OneMachineOnlyIsRunning) {
  const auto model = built(400, Lines("i-1").began(0).trains(20, 0).text());
  EXPECT_EQ(model.instances.at(0).end, End::Running);
  EXPECT_FALSE(model.to);
  EXPECT_EQ(model.from, t0 - 10);
  const auto much_later = built(400 + 3 * silence, Lines("i-1").began(0).trains(20, 0).text());
  EXPECT_EQ(much_later.instances.at(0).end, End::Running);
  EXPECT_EQ(much_later.instances[0].phases.back().to, t0 + 20) << "no longer than it is known";
  EXPECT_EQ(much_later.goodput.elapsed_seconds, 30);
  EXPECT_EQ(much_later.state, "unknown");
  EXPECT_NE(much_later.says.find("last entry 6 h"), std::string::npos) << much_later.says;
}

TEST(Interruptions, OneThatTrainedNothingLostNothing) {
  const auto model = built(900, Lines("i-1").began(0).trains(20, 0).checkpoint(60, 1500).text() +
                                    Lines("i-2")
                                        .began(230)
                                        .phase(231, "moving")
                                        .notice(240, 120)
                                        .left(260, "released")
                                        .text() +
                                    Lines("i-3").began(500).trains(590, 1500, 312).text());
  ASSERT_EQ(model.interruptions.size(), 2U);
  EXPECT_EQ(model.interruptions[0].repeated_steps, 312) << "of the one that had trained";
  EXPECT_EQ(model.interruptions[1].repeated_steps, 0);
  EXPECT_EQ(model.interruptions[1].why,
            "the notice came 120 s before the end: no step was being trained on it, nothing "
            "repeated");
  EXPECT_EQ(model.goodput.repeated_steps, 312);
}

TEST(Interruptions, AnAgentThatStartsAgainIsTheSameMachine) {
  Lines first("i-1");
  first.began(0).trains(20, 0).at(60, "began", "\"booted\":" + std::to_string(t0 - 9.5));
  const auto model = built(400, first.phase(61, "training").text());
  EXPECT_EQ(model.instances.size(), 1U);
  EXPECT_TRUE(model.interruptions.empty());
}

TEST(Interruptions, AStoppedInstanceComesBackAsItself) {
  Lines first("i-1");
  first.began(0).trains(20, 0).notice(100, 120, "stop").checkpoint(103, 700);
  first.ended(104, "stopped", 700, 700).left(106, "released").began(1000).trains(1030, 700);
  const auto model = built(1100, first.text());
  ASSERT_EQ(model.instances.size(), 2U);
  EXPECT_EQ(model.instances[0].id, model.instances[1].id);
  EXPECT_EQ(model.instances[0].ended, t0 + 220);
  EXPECT_EQ(model.interruptions.at(0).kind, "stop");
  EXPECT_NEAR(*model.interruptions[0].down_seconds, 1030 - 104, 1e-3);
  EXPECT_EQ(model.cost.instance_seconds, 230 + 110) << "stopped machines cost nothing";
}

TEST(Interruptions, AHibernatedOneKeepsItsBoot) {
  Lines first("i-1");
  first.began(0).trains(20, 0).notice(100, 0, "hibernate");
  first.at(900, "began", "\"booted\":" + std::to_string(t0 - 10)).trains(930, 600, 40);
  const auto model = built(1000, first.text());
  ASSERT_EQ(model.instances.size(), 2U);
  const Interruption& it = model.interruptions.at(0);
  EXPECT_EQ(it.kind, "hibernate");
  EXPECT_EQ(it.repeated_steps, 40);
}

// In S3 what one machine recorded stands together, whatever another one did in between.
TEST(Interruptions, WhoGoesOnAfterItsNoticeHasASecondLife) {
  for (const std::string action : {"hibernate", "terminate"}) {
    Lines first("i-1"), second("i-2");
    first.began(0).trains(20, 0).notice(100, 120, action).checkpoint(103, 500);
    first.ended(104, "stopped", 500, 500).phase(108, "released");
    first.at(1000, "began", "\"booted\":" + std::to_string(t0 - 10)).phase(1000, "looking");
    first.trains(1030, 900).ended(1100, "finished", 1200, 1200).phase(1105, "finished");
    second.began(300).trains(330, 500).notice(700, 120).checkpoint(703, 900);
    second.ended(704, "stopped", 900, 900).phase(708, "released").left(820, "released");
    const auto model = built(5000, first.text() + second.text());
    ASSERT_EQ(model.instances.size(), 3U) << action;
    EXPECT_EQ(model.instances[1].id, "i-2");
    EXPECT_EQ(model.instances[2].end, End::Finished);
    EXPECT_EQ(model.state, "finished") << action;
    ASSERT_EQ(model.interruptions.size(), 2U) << action;
    EXPECT_EQ(model.interruptions[0].resumed, t0 + 330);
    EXPECT_EQ(model.interruptions[1].resumed, t0 + 1030);
    const double asleep = action == "hibernate" ? 780 : 0;
    EXPECT_EQ(model.cost.instance_seconds, 1115 - asleep + 530) << "sleep costs nothing";
  }
}

TEST(Interruptions, AClockThatIsSetBackIsSaid) {
  Lines one("i-1");
  one.began(100'000).trains(100'020, 0).checkpoint(200, 5).ended(300, "finished", 9, 9);
  const auto notes = built(400, one.text()).cost.notes;
  EXPECT_TRUE(std::ranges::any_of(notes, [](const std::string& note) {
    return note.starts_with("the clock of i-1 was set back");
  }));
  EXPECT_TRUE(std::ranges::none_of(
      built(400, announced("i-1").text()).cost.notes,
      [](const std::string& note) { return note.find("clock") != note.npos; }));
}

TEST(Interruptions, WhoWasAskedToStopIsNotLost) {
  Lines first("i-1");
  first.began(0).trains(20, 0).checkpoint(99, 10).ended(100, "stopped", 10, 10);
  first.phase(101, "releasing");
  const auto model = built(500, first.text() + Lines("i-2").began(200).trains(230, 10).text());
  EXPECT_EQ(model.instances.at(0).end, End::Left);
  EXPECT_TRUE(model.interruptions.empty());
}

TEST(Interruptions, WithdrawnAndBrokenNoticesAreNone) {
  Lines first("i-1");
  first.began(0).trains(20, 0).notice(100, 120).at(130, "notice-withdrawn").trains(140, 500);
  EXPECT_TRUE(built(600, first.text()).interruptions.empty());
  Lines second("i-1");
  second.began(0).trains(20, 0).notice(100, 120).checkpoint(1000, 9000);
  const auto model = built(1001, second.text());
  EXPECT_TRUE(model.interruptions.empty()) << "it trained on long after the deadline";
}

TEST(Interruptions, ATrainerThatKnowsNothingOfUsGoesOnAllTheSame) {
  const auto model =
      built(400, announced("i-1").text() + Lines("i-2").began(250).phase(290, "training").text());
  const Interruption& it = model.interruptions.at(0);
  EXPECT_EQ(it.resumed, t0 + 290);
  EXPECT_FALSE(it.repeated_steps);
  EXPECT_EQ(it.why,
            "the notice came 120 s before the end: checkpoint durable after 4.1 s, how much was "
            "repeated is not known");
}

TEST(Interruptions, ATrainerThatFailsIsNoInterruptionButRepeats) {
  Lines first("i-1");
  first.began(0).trains(20, 0).ended(50, "failed", 300, 250).trains(60, 250, 50);
  const auto model = built(100, first.text());
  EXPECT_TRUE(model.interruptions.empty());
  ASSERT_EQ(model.repeats.size(), 1U);
  EXPECT_EQ(model.repeats[0].repeated_steps, 50);
  EXPECT_EQ(model.repeats[0].why, "the trainer failed at step 300 and was started again");
}

TEST(Interruptions, OneThatWasAskedToLeaveIsNone) {
  const auto model = built(
      400,
      Lines("i-1").began(0).trains(20, 0).ended(99, "stopped", 10, 8).left(100, "asked").text() +
          Lines("i-2").began(230).trains(290, 8, 2).text());
  EXPECT_TRUE(model.interruptions.empty());
  EXPECT_EQ(model.instances[0].end, End::Left);
  EXPECT_EQ(model.repeats.at(0).why, "the agent had left i-1 (asked)");
}

TEST(Interruptions, ClocksThatDifferMakeNoNegativeTimes) {
  Lines first("i-1");
  first.began(0).trains(20, 0).notice(100, -5).checkpoint(99, 10);
  first.ended(100, "stopped", 10, 10).left(101, "released");
  const auto model = built(90, first.text() + Lines("i-2").began(80).trains(85, 10).text());
  const Interruption& it = model.interruptions.at(0);
  EXPECT_EQ(it.window_seconds, 0);
  EXPECT_EQ(it.seconds_to_durable, 0);
  EXPECT_EQ(it.down_seconds, 0);
  for (const Instance& each : model.instances) {
    EXPECT_GE(each.ended.value_or(each.began), each.began);
    for (const auto& phase : each.phases) EXPECT_GE(phase.to.value_or(phase.from), phase.from);
  }
  EXPECT_GE(model.goodput.elapsed_seconds, 0);
}

}  // namespace
}  // namespace spotter::report
