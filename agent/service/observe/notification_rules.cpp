#include "agent/service/observe/notification_rules.hpp"

#include <algorithm>

#include "agent/base/text.hpp"
#include "agent/decide/describe.hpp"
#include "agent/wire/status.hpp"

namespace spotter {
namespace {

using decide::Facts;
using decide::Surrender;

template <class StageType>
constexpr std::size_t index_of() {
  return decide::Stage(StageType{}).index();
}

template <class... Any>
bool in(const decide::Stage& stage) {
  return (std::holds_alternative<Any>(stage) || ...);
}

std::string place(const Facts& facts) {
  if (facts.identity.instance.empty()) return "this machine";
  return facts.identity.instance.str() +
         (facts.identity.zone.empty() ? "" : " in " + facts.identity.zone.str());
}

std::string spent(const decide::Ledger& ledger) {
  std::string text = wire::duration_text(ledger.seconds) + " of instances";
  if (ledger.dollars > 0) text += printed(", $%.2f", ledger.dollars);
  const auto ends = decide::interruptions(ledger);
  return text + ", " + std::to_string(ends) + (ends == 1 ? " interruption" : " interruptions");
}

std::string of_notice(const decide::NoticeSeen& notice, Time now, const Facts& facts) {
  std::string text = notice_words(place(facts), notice.deadline, now);
  if (facts.trainer.running && facts.trainer.step >= 0)
    text += "; the trainer is at step " + std::to_string(facts.trainer.step) +
            " and is asked to checkpoint";
  return text;
}

// A crash on the same machine is not reported; repeated crashes will be.
bool goes_on(const Facts& facts) {
  const decide::Ledger& ledger = facts.progress.ledger;
  return facts.trouble.crashes == 0 &&
         (ledger.newest_step >= 0 || ledger.releases + ledger.losses > 0);
}

std::string of_resumption(const Facts& facts) {
  const std::int64_t step = facts.progress.ledger.newest_step;
  return "training goes on on " + place(facts) +
         (step < 0 ? " from its begin: there was no checkpoint"
                   : " from the checkpoint of " + decide::numbered(facts, step));
}

}  // namespace

std::string notice_words(const std::string& machine, Time deadline, Time now) {
  const auto left = std::chrono::floor<std::chrono::seconds>(std::max(Duration(0), deadline - now));
  return "interruption notice: " + machine + " ends in " + std::to_string(left.count()) + " s";
}

std::optional<Notification> NotificationRules::after(const decide::Event& event, std::size_t before,
                                                     const decide::State& state,
                                                     const decide::Policy& policy) {
  const Facts& facts = state.facts;
  if (const auto* notice = std::get_if<decide::NoticeSeen>(&event.what)) {
    if (!facts.exit.done) return Notification{"notice", of_notice(*notice, event.at, facts)};
  }
  if (state.stage.index() == before) return std::nullopt;
  if (in<decide::MarkingDone>(state.stage)) marking_ = true;
  if (in<decide::Training>(state.stage)) {
    blocked_.clear();
    const bool started = before == index_of<decide::StartingTrainer>();
    if (started && goes_on(facts)) return Notification{"resumed", of_resumption(facts)};
  }
  if (in<decide::Blocked>(state.stage)) {
    std::string words = "a person is needed: " + decide::describe(state, policy);
    if (words == blocked_) return std::nullopt;
    blocked_ = words;
    return Notification{"failed", std::move(words)};
  }
  // Reported before the fleet is cancelled, which ends this machine.
  if (over_) return std::nullopt;
  if (facts.exit.surrender != Surrender::None) {
    over_ = true;
    return Notification{"failed", "given up: " + std::string(decide::words(facts.exit.surrender)) +
                                      "; " + spent(facts.progress.ledger)};
  }
  // If the job was done before, the agent that marked it has reported it.
  if (!marking_ || !in<decide::Unmounting, decide::Releasing>(state.stage)) return std::nullopt;
  over_ = true;
  return Notification{"finished",
                      "finished, and the result is safe: " + spent(facts.progress.ledger)};
}

// A trouble that passes (a slow hour) and comes again is reported once.
std::optional<Notification> NotificationRules::of_deadline(const launch::OwnOutlook& outlook) {
  if (outlook.trouble == launch::Outlook::Trouble::None || outlook.trouble == trouble_)
    return std::nullopt;
  trouble_ = outlook.trouble;
  return Notification{"deadline", launch::text_of(outlook)};
}

}  // namespace spotter
