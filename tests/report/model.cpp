// The rest of the model: states, cost, goodput, sweeps, and what is shown of little.
#include "input.hpp"

namespace spotter::report {
namespace {

wire::SpotPrice spot(double second, double dollars, const char* zone = "us-west-2a") {
  return {Zone(zone), InstanceType("g5.xlarge"), "Linux/UNIX", dollars,
          wire::WallTime(std::chrono::seconds(static_cast<long>(t0 + second)))};
}

std::string two_hours() {
  return Lines("i-1").began(10).trains(20, 0).left(7200, "finished").text();
}

TEST(Model, Nothing) {
  const auto model = built(5, "");
  EXPECT_EQ(model.state, "unknown");
  EXPECT_EQ(model.from, t0 + 5);
  EXPECT_FALSE(model.goodput.part);
  EXPECT_FALSE(model.cost.spot_dollars);
  const auto json = to_json(model);
  EXPECT_EQ(json["version"], 1);
  EXPECT_TRUE(json["to"].is_null());
  EXPECT_TRUE(json["instances"].is_array());
  EXPECT_TRUE(json["sweep"].is_null());
}

TEST(Model, AJobWithADeadlineSaysItUntilItIsOver) {
  Input input = input_at(100, Lines("i-1").began(0).trains(20, 0).text());
  input.status = R"({"says":"training on vol-1","outlook":"by noon; 34 % left"})";
  EXPECT_EQ(build(input).says, "training on vol-1; by noon; 34 % left");
  input.status = R"({"says":"training","watcher":"watched at ten: spot is 61 % cheaper"})";
  EXPECT_EQ(build(input).says, "training; watched at ten: spot is 61 % cheaper");
  input = input_at(9000, two_hours());
  input.status = R"({"outlook":"by noon"})";
  EXPECT_EQ(build(input).says.find("by noon"), std::string::npos);
}

TEST(Model, AMemberSaysWhatItsGangDoes) {
  Input input = input_at(100, Lines("i-1").began(0).trains(20, 0).text());
  input.status =
      R"({"says":"training","gang":{"members":4,"machines":3,"round":7,"leader":"i-2"}})";
  EXPECT_EQ(build(input).says, "training; round 7: 3 of 4 machines train, led by i-2");
  input.status = R"({"says":"training","gang":{"members":4,"machines":3,"round":7,)"
                 R"("leader":"i-2","copy_step":120,"copy_machines":3}})";
  EXPECT_EQ(build(input).says,
            "training; round 7: 3 of 4 machines train, led by i-2; the newest copy in memory: "
            "step 120 on 3 machines");
  input.status = R"({"says":"training","gang":["members"]})";
  EXPECT_EQ(build(input).says, "training");
}

TEST(Model, HalfWrittenAndForeignLinesAreCounted) {
  const auto model = built(100, Lines("i-1").began(0).trains(20, 0).text() +
                                    "[]\n{\"what\":\"ended\"}\n{\"time\":1700000099,\"wh");
  EXPECT_EQ(model.instances.size(), 1U);
  EXPECT_EQ(to_json(model)["foreign_lines"], 3);
}

TEST(Model, ValuesOfOtherTypesAreNotKnown) {
  const auto model = built(100, Lines("i-1")
                                    .at(0, "began", R"("type":4,"booted":"x","price":-1)")
                                    .at(1, "phase")
                                    .at(2, "ended", R"("step":1e300,"end":[])")
                                    .at(3, "resumed", "\"step\":-4")
                                    .text());
  EXPECT_EQ(model.instances.at(0).type, "");
  EXPECT_FALSE(model.instances[0].price);
}

TEST(Model, FinishedJob) {
  Lines lines("i-1");
  lines.began(0).trains(20, 0).ended(120, "finished", 1000, 1000).phase(121, "finished");
  const auto model = built(9000, lines.left(130, "finished").text());
  EXPECT_EQ(model.state, "finished");
  EXPECT_EQ(model.to, t0 + 130);
  EXPECT_EQ(model.instances[0].end, Instance::End::Finished);
  EXPECT_NEAR(model.goodput.trained_seconds, 101, 1e-3);
  EXPECT_NEAR(model.goodput.elapsed_seconds, 140, 1e-3);
  EXPECT_NEAR(*model.goodput.part, (101 - 2) / 140.0, 1e-3);
}

TEST(Model, AVolumeIsReleasedBeforeTheEndIsRecorded) {
  Lines lines("i-1");
  lines.began(0).trains(20, 0).ended(120, "finished", 1000, 1000).phase(121, "finishing");
  const auto model = built(9000, lines.text());
  EXPECT_EQ(model.state, "finished");
  EXPECT_EQ(model.to, t0 + 121);
}

TEST(Model, GoodputCountsWhatWasTrainedInTheNoticesWindow) {
  Lines lines("i-1");
  lines.began(10).trains(20, 0).notice(100, 120).phase(100, "stopping");
  lines.at(190, "ended", R"("end":"stopped","step":9,"checkpoint_step":9,"window_trained":80)");
  EXPECT_NEAR(built(9000, lines.phase(190, "releasing").text()).goodput.trained_seconds, 160, 1e-3);
}

TEST(Model, AJobThatIsRunAgainIsNotFinished) {
  Lines lines("i-1");
  lines.began(0).trains(20, 0).ended(120, "finished", 1000, 1000).left(130, "finished");
  const auto model = built(900, lines.text() + Lines("i-2").began(800).trains(820, 1000).text());
  EXPECT_EQ(model.state, "training");
  EXPECT_FALSE(model.to);
}

TEST(Model, AMachineThatWasUpLongBeforeHasNoBootToShow) {
  const auto boot = "\"booted\":" + std::to_string(t0 - 9e5);
  const auto model = built(90, Lines("i-1").at(0, "began", boot).trains(20, 0).text());
  EXPECT_FALSE(model.instances.at(0).booted);
  EXPECT_EQ(model.from, t0);
}

TEST(Model, TheFleetsEndIsThatOfItsLastMachine) {
  Lines lines("i-1");
  lines.began(0).trains(20, 0).ended(120, "finished", 1000, 1000).phase(121, "finishing");
  EXPECT_EQ(built(900, lines.left(125, "asked").text()).state, "finished");
}

TEST(Model, GaveUp) {
  Lines lines("i-1");
  lines.began(0).trains(20, 0).ended(30, "failed", 5, 5).phase(31, "gave-up");
  const auto model = built(9000, lines.left(33, "gave-up").text());
  EXPECT_EQ(model.state, "gave-up");
  EXPECT_EQ(model.instances[0].end, Instance::End::Failed);
  EXPECT_EQ(model.to, t0 + 33);
}

TEST(Model, WaitsForCapacityBetweenMachines) {
  const auto model = built(220 + 720, announced("i-1").text());
  EXPECT_EQ(model.state, "waiting");
  EXPECT_EQ(model.says, "no machine for 12 min: waiting for capacity");
  EXPECT_FALSE(model.to);
}

TEST(Model, TheStatusSaysWhatIsNewest) {
  Input it = input_at(100, Lines("i-1").began(0).trains(20, 0).text());
  it.status = R"({"version":1,"job":"x","says":"training on vol-1","step":55,"steps_total":100,
                  "loss":0.25,"steps_per_second":2.5,"epoch":"seven",
                  "metrics":{"val_loss":0.5,"a b":1}})";
  it.sources[0].curve.add({.step = 50, .metrics = {{"val_loss", 0.75}, {"lr", 0.1}}});
  const auto model = build(it);
  EXPECT_EQ(model.says, "training on vol-1");
  EXPECT_EQ(model.progress.step, 55);
  EXPECT_EQ(model.progress.loss, 0.25);
  EXPECT_FALSE(model.progress.epoch);
  EXPECT_EQ(model.progress.metrics, (MetricValues{{"val_loss", 0.5}, {"lr", 0.1}}));
  const auto json = to_json(model);
  EXPECT_EQ(json["progress"]["metrics"]["val_loss"], 0.5);
  EXPECT_EQ(json["curve"]["val_loss"], nlohmann::json({0.75}));
  it.status = "{\"half";
  EXPECT_EQ(build(it).progress.step, 50) << "as far as the curve";
}

TEST(Model, GoodputLeavesOutWhatWasRepeated) {
  const auto model = built(
      1000, Lines("i-1").began(10).trains(20, 0).checkpoint(60, 500).at(420, "account").text() +
                Lines("i-2")
                    .began(600)
                    .trains(600, 500, 500)
                    .ended(1000, "finished", 1500, 1500)
                    .left(1000, "finished")
                    .text());
  EXPECT_NEAR(model.goodput.trained_seconds, 800, 1e-3);
  EXPECT_EQ(model.goodput.repeated_steps, 500);
  EXPECT_NEAR(model.goodput.repeated_seconds, 200, 1e-3) << "of 2000 steps that were trained";
  EXPECT_NEAR(model.goodput.elapsed_seconds, 1000, 1e-3);
  EXPECT_NEAR(*model.goodput.part, (800 - 200 - 2) / 1000.0, 1e-6);
}

TEST(Cost, WithoutPricesItIsLeftOutAndSaysWhy) {
  const auto model =
      built(100, Lines("i-1").at(0, "began", R"("type":"g5.xlarge")").trains(20, 0).text());
  EXPECT_FALSE(model.cost.spot_dollars);
  EXPECT_FALSE(model.cost.savings_percent);
  ASSERT_EQ(model.cost.notes.size(), 2U);
  EXPECT_EQ(model.cost.notes[0], "no cost: the spot price of 1 of 1 machines is not known");
  EXPECT_NE(model.cost.notes[1].find("--on-demand"), std::string::npos);
}

TEST(Cost, ByThePriceThatTheMachineSaw) {
  Input it = input_at(9000, two_hours());
  it.prices.on_demand["g5.xlarge"] = 3;
  const Cost cost = build(it).cost;
  EXPECT_NEAR(cost.instance_seconds, 7200, 1e-3);
  EXPECT_NEAR(*cost.spot_dollars, 1.8, 1e-6);
  EXPECT_NEAR(*cost.on_demand_dollars, 6, 1e-6);
  EXPECT_NEAR(*cost.billable_seconds, 2160, 1e-3);
  EXPECT_NEAR(*cost.savings_percent, 70, 1e-3);
  EXPECT_EQ(cost.formula,
            "(1 - billable seconds / training seconds) x 100 = (1 - 2160 / 7200) x 100 = 70.0; "
            "billable: what the spot dollars buy on demand");
}

TEST(Cost, SpotPricesAreIntegratedByZoneAndType) {
  Input it = input_at(9000, two_hours());
  it.prices.spot = {spot(3600, 2), spot(-500, 1), spot(0, 50, "us-west-2b"), spot(9000, 70)};
  it.prices.on_demand_of_all = 4;
  const Cost cost = build(it).cost;
  EXPECT_NEAR(*cost.spot_dollars, 3, 1e-6);
  EXPECT_NEAR(*cost.savings_percent, (1 - 3.0 / 8) * 100, 1e-6);
  it.prices.spot = {spot(3600, 2)};
  EXPECT_NEAR(*build(it).cost.spot_dollars, 1.8, 1e-6) << "of its first hour nothing is known";
}

TEST(Cost, TheRequestsOfAHomeInABucketAreSaidOnceForTheWholeJob) {
  const auto text =
      announced("i-1").at(104, "account", R"("s3_writes":200000,"s3_reads":3000)").text() +
      announced("i-2", 300).at(404, "account", R"("s3_writes":1000000,"s3_reads":500000)").text();
  const auto notes = built(900, text).cost.notes;
  EXPECT_NE(std::ranges::find(notes,
                              "requests to S3 for the job's home: 1000000 that write, 500000 that "
                              "read, about $5.2000, which is not in the cost"),
            notes.end());
  for (const std::string& note : built(900, announced("i-1").text()).cost.notes)
    EXPECT_EQ(note.find("requests to S3"), note.npos) << "of a job on a volume";
}

TEST(Cost, WhatEc2TakesAwayInItsFirstHourIsSaid) {
  const auto note = [](const Model& model) {
    std::string all;
    for (const std::string& each : model.cost.notes) all += each + "\n";
    return all;
  };
  const auto model = built(900, announced("i-1").text());
  EXPECT_NE(note(model).find("in its first hour: 1 of 1, $0.0575 of the cost"), std::string::npos)
      << note(model);
  EXPECT_NEAR(*model.cost.spot_dollars, 0.0575, 1e-4);
  Lines late("i-1");
  late.began(0).trains(20, 0).notice(4000, 120).left(4010, "released");
  EXPECT_EQ(note(built(9000, late.text())).find("first hour"), std::string::npos);
}

TEST(Cost, AMachineOfTheSameTypeLendsItsPrice) {
  Lines lost("i-1");
  lost.at(0, "began", R"("type":"g5.xlarge","zone":"us-west-2a")").phase(3600, "training");
  const auto model = built(9000, lost.text() + Lines("i-2").began(4000).trains(4000, 1).text());
  EXPECT_TRUE(model.cost.spot_dollars);
}

TEST(Cost, ASilentMachineDoesNotCostForEver) {
  const auto model = built(1e6, Lines("i-1").began(10).trains(20, 0).text());
  EXPECT_LE(model.cost.instance_seconds, 20 + silence);
}

TEST(Sweeps, ExperimentsOfOneMachineShareItsCost) {
  Input it;
  it.job = "sweep";
  it.now = t0 + 2000;
  it.is_sweep = true;
  const auto booted = "\"booted\":" + std::to_string(t0);
  for (std::size_t index = 0; index < 3; ++index) {
    const double second = 10 + 300 * static_cast<double>(index);
    const std::string name = index == 2 ? "i-2" : "i-1";
    Lines lines(name);
    lines.at(second, "began", R"("type":"g5.xlarge","price":1,)" + booted).trains(second + 5, 0);
    lines.ended(second + 200, "finished", 100, 100).left(second + 210, "finished");
    it.sources.push_back({index, wire::parse_history(lines.text()), {}});
    sweep::Summary summary;
    summary.index = index;
    summary.state = index == 1 ? sweep::Summary::State::Running : sweep::Summary::State::Done;
    summary.parameters = {{"lr", "0.1", "0.1"}};
    summary.curve.add({5, {}, 0.5, {}, t0});
    if (index == 2) summary.stopped_early = "6 were better";
    it.experiments.push_back(std::move(summary));
  }
  it.parameters = {"lr"};
  const auto model = build(it);
  EXPECT_EQ(model.instances.size(), 3U);
  EXPECT_EQ(model.instances[1].experiment, 1U);
  EXPECT_NEAR(model.cost.instance_seconds, 520 + 820, 1e-3) << "i-1 is paid for once";
  EXPECT_EQ(model.state, "waiting");
  EXPECT_EQ(model.says, "2 of 3 experiments are done, 1 of them stopped early");
  EXPECT_NEAR(model.goodput.elapsed_seconds, model.cost.instance_seconds, 1e-9);
  const auto json = to_json(model);
  EXPECT_EQ(json["sweep"]["parameters"][0], "lr");
  EXPECT_EQ(json["sweep"]["experiments"][2]["parameters"]["lr"], 0.1);
  EXPECT_EQ(json["sweep"]["experiments"][2]["stopped_early"], "6 were better");
  EXPECT_EQ(json["sweep"]["experiments"][0]["stopped_early"], nullptr);
  EXPECT_EQ(json["sweep"]["experiments"][0]["loss"], 0.5);
  EXPECT_EQ(json["sweep"]["experiments"][0]["curve"]["step"][0], 5);
}

TEST(Sweeps, HistoriesTellWhatBecameOfExperiments) {
  Input it;
  it.is_sweep = true;
  it.now = t0 + 500;
  it.experiments.resize(1);
  it.experiments[0].parameters = {{"lr", "1", "1"}};
  const auto done = Lines("i-1").began(0).trains(20, 0).ended(90, "finished", 9, 9).text();
  it.sources.push_back(
      {0, wire::parse_history(done + Lines("i-1").left(100, "finished").text()), {}, {}});
  it.sources.push_back(
      {3, wire::parse_history(Lines("i-2").began(200).trains(220, 0).text()), {}, {}});
  const auto all = build(it).sweep->experiments;
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].state, sweep::Summary::State::Done);
  EXPECT_EQ(all[0].parameters.size(), 1U);
  EXPECT_EQ(all[0].seconds, 100);
  EXPECT_EQ(all[1].index, 3U);
  EXPECT_EQ(all[1].state, sweep::Summary::State::Running);
}

TEST(Journal, TheLogIsBetterThanTheMoments) {
  Input it = input_at(100, Lines("i-1").began(0).trains(20, 0).text());
  EXPECT_EQ(build(it).journal.at(0).words, "the agent began on g5.xlarge in us-west-2a");
  it.log = "half a line\n2023-11-14T22:13:30.5Z i-1 warning a </script> b\n";
  const auto journal = build(it).journal;
  ASSERT_EQ(journal.size(), 1U);
  EXPECT_EQ(journal[0].time, t0 + 10);
  EXPECT_EQ(journal[0].level, "warning");
  EXPECT_EQ(journal[0].words, "a </script> b");
}

TEST(Journal, KeepsTheNewest) {
  Lines lines("i-1");
  for (int i = 0; i < 1000; ++i)
    lines.at(i, "problem", R"("level":"warning","words":")" + std::to_string(i) + "\"");
  const auto journal = built(2000, lines.text()).journal;
  EXPECT_EQ(journal.size(), most_journal_lines);
  EXPECT_EQ(journal.back().words, "999");
}

TEST(Json, BytesThatAreNoTextAreReplaced) {
  Input it = input_at(10, "");
  it.job = "a\xff";
  EXPECT_NE(to_text(build(it)).find("a\xef\xbf\xbd"), std::string::npos);
}

}  // namespace
}  // namespace spotter::report
