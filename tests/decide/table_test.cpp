// Every stage meets every event, and the result is a golden file: a change of the core shows in
// review as a change of this table. Rewrite it with SPOTTER_REWRITE=1.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "agent/decide/step.hpp"
#include "tests/decide/story.hpp"

namespace spotter::decide {
namespace {

constexpr const char* kGolden = "tests/decide/transitions.txt";

template <class Variant, std::size_t... I>
std::vector<Variant> one_of_each(std::index_sequence<I...>) {
  return {Variant(std::in_place_index<I>)...};
}

template <class Variant>
std::vector<Variant> one_of_each() {
  return one_of_each<Variant>(std::make_index_sequence<std::variant_size_v<Variant>>());
}

template <class... Stages>
bool in(const Stage& stage) {
  return (std::holds_alternative<Stages>(stage) || ...);
}

// A state in which `stage` is possible at all (its invariants hold).
State plausible(const Stage& stage) {
  State state;
  state.stage = stage;
  state.awaited = {1, 1};
  state.effects_made = 1;
  state.wake_at = Time(Duration(500));
  Facts& facts = state.facts;
  facts.identity.instance = kMe;
  facts.identity.zone = "us-west-2a";
  facts.identity.fleet = {FleetKind::SpotFleet, "sfr-1"};
  facts.identity.fleet_known = true;
  facts.holding.volume = kVolume;
  facts.holding.attached = true;
  facts.trainer.running = in<Training, Stopping>(stage);
  facts.holding.mounted =
      in<ReadingLedger, Verifying, AwaitingGpus, PreparingData, CountingAttempt, FetchingCode,
         StartingTrainer, Filling, MarkingPrepared, Training, Stopping, Securing, ClosingLedger,
         SendingResult, MarkingDone, Unmounting>(stage);
  if (std::holds_alternative<Committing>(stage)) facts.move.verified = kVolume;
  facts.exit.unfit = in<GivingBack>(stage);
  facts.exit.done = in<SendingResult, MarkingDone, Tidying, CancellingFleet, Finished>(stage);
  facts.progress.ledger_known = true;
  facts.trouble.blocked = minutes(60);
  return state;
}

Happening plausible(Happening what) {
  if (auto* surveyed = std::get_if<StorageSurveyed>(&what))
    surveyed->survey.volumes = {the_volume()};
  if (auto* read = std::get_if<FleetRead>(&what)) read->fleet = {FleetKind::SpotFleet, "sfr-1"};
  if (auto* notice = std::get_if<NoticeSeen>(&what)) notice->deadline = Time(minutes(2));
  if (auto* stop = std::get_if<StopRequested>(&what)) stop->deadline = Time(minutes(2));
  return what;
}

// Answers name their question; what is sensed does not.
bool is_answer(const Happening& what) { return what.index() >= Happening(HostLooked{}).index(); }

std::string row(const Stage& stage, const Happening& what) {
  State state = plausible(stage);
  Effects effects;
  const Policy policy;
  const EffectId effect = is_answer(what) ? state.awaited : EffectId{};
  step(state, {Time(Duration(1000)), effect, what}, policy, effects);
  EXPECT_EQ(broken_invariant(state), nullptr) << name(stage) << " + " << name(what);
  std::string text;
  for (const Effect& done : effects) text += " " + std::string(name(done.what));
  const bool moved = state.stage.index() != stage.index();
  if (!moved && effects.size() == 0) return {};
  std::ostringstream line;
  line << name(stage) << " + " << name(what) << " -> "
       << (moved ? name(state.stage) : std::string_view("(same)"));
  if (!text.empty()) line << " :" << text;
  line << "\n";
  return line.str();
}

std::string golden_table() {
  std::string all =
      "# stage + event -> next stage : effects. A pair that is not listed is ignored, or only\n"
      "# remembered. Written by decide_test with SPOTTER_REWRITE=1.\n";
  for (const Stage& stage : one_of_each<Stage>()) {
    all += "\n";
    for (const Happening& what : one_of_each<Happening>()) all += row(stage, plausible(what));
  }
  return all;
}

TEST(Transitions, AreThoseOfTheGoldenTable) {
  const std::string now = golden_table();
  if (std::getenv("SPOTTER_REWRITE")) std::ofstream(kGolden) << now;
  std::ifstream file(kGolden);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(golden.str(), now) << "read the difference; if it is meant, SPOTTER_REWRITE=1";
}

TEST(Names, AreThereForEachStageEventAndCommandAndDiffer) {
  std::set<std::string_view> stages, happenings, commands;
  for (const Stage& stage : one_of_each<Stage>()) stages.insert(name(stage));
  for (const Happening& what : one_of_each<Happening>()) happenings.insert(name(what));
  for (const Command& command : one_of_each<Command>()) commands.insert(name(command));
  EXPECT_EQ(stages.size(), std::variant_size_v<Stage>);
  EXPECT_EQ(happenings.size(), std::variant_size_v<Happening>);
  EXPECT_EQ(commands.size(), std::variant_size_v<Command>);
  EXPECT_EQ(name(Stage(FindingDevice{})), "finding-device");
  EXPECT_EQ(name(Happening(EffectFailed{})), "effect-failed");
  EXPECT_EQ(name(Command(Exit{})), "exit");
}

}  // namespace
}  // namespace spotter::decide
