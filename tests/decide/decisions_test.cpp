// Every stage meets every event, and somebody decided what then: a function of its own, one for all
// stages, or ignored() for a reason that stands here. A new stage, event or function that fits none
// of the reasons fails.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "agent/decide/describe.hpp"
#include "agent/decide/transitions.hpp"

namespace spotter::decide {
namespace {

enum class By : std::uint8_t { Own, All, Nobody };

// Tells which function overload resolution takes for the pair: its own, the one for each stage, or
// the last resort.
template <class AnyStage, class AnyEvent>
By decided_by() {
  using Function = Next (*)(const AnyStage&, const AnyEvent&, Context&);
  const Function taken = &on;
  const Function last_resort = &on<AnyStage, AnyEvent>;
  if (taken == last_resort) return By::Nobody;
  constexpr bool has_general =
      std::is_same_v<AnyEvent, NoticeSeen> || std::is_same_v<AnyEvent, StopRequested> ||
      std::is_same_v<AnyEvent, NoticeWithdrawn> || std::is_same_v<AnyEvent, TrainerEnded>;
  if constexpr (has_general) {
    const Function general = &on<AnyStage>;
    if (taken == general) return By::All;
  }
  return By::Own;
}

using Pair = std::pair<std::string, std::string>;
using Table = std::map<Pair, By>;

template <class AnyStage, std::size_t... Event>
void add_row(Table& table, std::index_sequence<Event...>) {
  const std::string stage(name(Stage(AnyStage{})));
  ((table[{stage, std::string(name(Happening(std::in_place_index<Event>)))}] =
        decided_by<AnyStage, std::variant_alternative_t<Event, Happening>>()),
   ...);
}

template <std::size_t... Index>
Table whole_table(std::index_sequence<Index...>) {
  Table table;
  (add_row<std::variant_alternative_t<Index, Stage>>(
       table, std::make_index_sequence<std::variant_size_v<Happening>>()),
   ...);
  return table;
}

const Table& table() {
  static const Table all = whole_table(std::make_index_sequence<std::variant_size_v<Stage>>());
  return all;
}

using Names = std::set<std::string>;

// The answers to what a stage asks. All others can only be to what an earlier stage asked and did
// not wait for: the next look at the world settles those.
const std::map<std::string, Names> kAnswers = {
    {"looking-around", {"host-looked"}},
    {"identifying", {"identity-read"}},
    {"reading-fleet", {"fleet-read"}},
    {"surveying", {"storage-surveyed"}},
    {"attaching", {"call-accepted"}},
    {"claiming", {"call-accepted"}},
    {"finding-device", {"device-found"}},
    {"inspecting", {"disk-inspected"}},
    {"formatting", {"filesystem-made"}},
    {"mounting", {"mounted"}},
    {"reading-ledger", {"ledger-read"}},
    {"verifying", {"checkpoints-verified"}},
    {"preparing", {"mounted"}},
    {"releasing", {"unmounted"}},
    {"preparing-data", {"mounted"}},
    {"releasing-data", {"unmounted"}},
    {"snapshotting", {"snapshot-started"}},
    {"creating-candidate", {"volume-created"}},
    {"marking-verified", {"call-accepted"}},
    {"committing", {"call-accepted"}},
    {"promoting", {"call-accepted"}},
    {"discarding", {"call-accepted"}},
    {"writing-epoch", {"epoch-written"}},
    {"releasing-epoch", {"epoch-written"}},
    {"awaiting-gpus", {"gpus-found"}},
    {"giving-back", {"call-accepted"}},
    {"counting-attempt", {"ledger-written"}},
    {"fetching-code", {"code-fetched"}},
    {"filling", {"volume-filled"}},
    {"marking-prepared", {"call-accepted"}},
    {"starting-trainer", {"trainer-started"}},
    {"training",
     {"storage-surveyed", "call-accepted", "epoch-written", "ledger-read", "fleet-read",
      "snapshot-started"}},
    {"stopping", {"ledger-read"}},
    {"securing", {"storage-synced"}},
    {"closing-ledger", {"ledger-written"}},
    {"sending-result", {"result-sent"}},
    {"unmounting", {"unmounted"}},
    {"final-snapshot", {"snapshot-started"}},
    {"detaching", {"call-accepted"}},
    {"marking-done", {"call-accepted", "epoch-written"}},
    {"tidying", {"storage-surveyed", "call-accepted", "epoch-written"}},
    {"cancelling-fleet", {"identity-read", "fleet-read", "call-accepted"}},
    {"scaling-to-zero", {"identity-read", "fleet-read", "call-accepted"}},
    {"finished", {"identity-read"}},
    {"gave-up", {"identity-read"}},
};

// Events that come unasked, and the only stages in which they mean something.
const std::map<std::string, Names> kSensed = {
    {"started", {"booting"}},  // a process starts once
    // The others await an answer, which comes at its deadline at the latest, or may rest.
    {"woke",
     {"looking-around", "identifying",    "reading-fleet", "waiting",          "blocked",
      "preparing",      "reading-ledger", "training",      "stopping",         "counting-attempt",
      "securing",       "closing-ledger", "unmounting",    "detaching",        "releasing-data",
      "released",       "giving-back",    "tidying",       "cancelling-fleet", "scaling-to-zero",
      "finished",       "gave-up",        "sending-result"}},
    // Elsewhere no trainer of ours runs, or one is being taken over: then its checkpoints on the
    // volume say more than its words.
    {"trainer-progressed", {"training", "stopping"}},
    {"trainer-resumed", {"training"}},
    {"checkpoint-made", {"training", "stopping"}},
    {"home-kept", {"counting-attempt", "training", "stopping", "securing", "closing-ledger"}},
    {"rebalance-recommended", {"training"}},  // nothing else could be done sooner
    {"ruled-out", {"training"}},              // by a trainer's report; it is repeated with each
    {"trainer-hung", {"training"}},           // said again as long as it hangs
};

// Events that no stage ever ignores.
const Names kAlways = {"notice-seen", "notice-withdrawn", "stop-requested", "trainer-ended"};

bool has(const std::map<std::string, Names>& all, const std::string& key, const std::string& what) {
  const auto found = all.find(key);
  return found != all.end() && found->second.count(what) != 0;
}

// Must somebody decide about the pair?
bool matters(const std::string& stage, const std::string& event) {
  if (kAlways.count(event)) return true;
  if (kSensed.count(event)) return has(kSensed, event, stage);
  if (event == "effect-failed") return kAnswers.count(stage) != 0;  // each question may fail
  return has(kAnswers, stage, event);
}

TEST(Decisions, NoPairOfStageAndEventIsUndecided) {
  std::map<By, int> count;
  for (const auto& [pair, by] : table()) {
    ++count[by];
    const auto& [stage, event] = pair;
    if (matters(stage, event)) {
      EXPECT_NE(by, By::Nobody) << stage << " + " << event << " is ignored, and may happen";
    } else {
      EXPECT_EQ(by, By::Nobody) << stage << " + " << event << " is decided, and cannot happen";
    }
  }
  EXPECT_EQ(table().size(), std::variant_size_v<Stage> * std::variant_size_v<Happening>);
  RecordProperty("own", count[By::Own]);
  RecordProperty("for-all-stages", count[By::All]);
  RecordProperty("ignored-for-a-reason", count[By::Nobody]);
}

TEST(Decisions, EveryReasonNamesAStageAndAnEventThatExist) {
  for (const auto& [stage, events] : kAnswers) {
    for (const std::string& event : events) EXPECT_EQ(table().count({stage, event}), 1U) << stage;
  }
  for (const auto& [event, stages] : kSensed) {
    for (const std::string& stage : stages) EXPECT_EQ(table().count({stage, event}), 1U) << stage;
  }
  for (const std::string& event : kAlways) EXPECT_EQ(table().count({"booting", event}), 1U);
}

}  // namespace
}  // namespace spotter::decide
