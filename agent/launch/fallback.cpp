#include "agent/launch/fallback.hpp"

#include <algorithm>

#include "agent/capacity/planner.hpp"

namespace spotter::launch {
namespace {

using Action = Fallback::Action;
using Spot = WatchMark::Spot;
using State = WatchedMachine::State;
using std::chrono::seconds;

using capacity::Use;

constexpr std::chrono::minutes settled{5};  // a boot with its installation takes two to four
// On-demand capacity comes within seconds of the request, or not; EC2 may show it half a minute
// later.
constexpr std::chrono::minutes nothing_comes{2};

seconds whole(Duration duration) { return std::chrono::ceil<seconds>(duration); }

std::string minutes_text(Duration duration) {
  const auto all = whole(duration).count();
  return all < 120 ? std::to_string(all) + " s" : std::to_string(all / 60) + " min";
}

bool is_there(const WatchedMachine& it) {
  return it.spot && (it.state == State::Starting || it.state == State::Running);
}

// Prefers one that runs, then the one of the look before.
const WatchedMachine* spot_machine(const Watched& seen, const std::optional<WatchMark>& before) {
  const WatchedMachine* best = nullptr;
  const auto rank = [&](const WatchedMachine& it) {
    return (it.state == State::Running ? 2 : 0) + (before && before->instance == it.id ? 1 : 0);
  };
  for (const WatchedMachine& it : seen.machines)
    if (is_there(it) && (best == nullptr || rank(it) > rank(*best))) best = &it;
  return best;
}

bool lives(const WatchedMachine& it) { return it.state != State::Ended; }

Spot spot_of(const Watched& seen) {
  if (seen.done) return Spot::Done;
  if (seen.own && seen.own->target == 0) {
    const bool marked = seen.mark && seen.mark->spot == Spot::Rests;
    return marked || seen.own->rested ? Spot::Rests : Spot::Stopped;
  }
  const auto runs = [](const WatchedMachine& it) {
    return is_there(it) && it.state == State::Running;
  };
  if (std::ranges::any_of(seen.machines, runs)) return Spot::Runs;
  return std::ranges::any_of(seen.machines, is_there) ? Spot::Starts : Spot::None;
}

// A spot instance that came and went between two looks counts from now.
WatchMark mark_look(const Watched& seen) {
  const Spot spot = spot_of(seen);
  WatchMark fresh{
      .looked = seen.now, .spot = spot, .since = seen.now, .instance = {}, .outlook = {}};
  if (spot == Spot::Runs) fresh.instance = spot_machine(seen, seen.mark)->id;
  if (!seen.mark || seen.mark->spot != spot || seen.mark->since > seen.now) return fresh;
  if (fresh.instance != seen.mark->instance) return fresh;  // it took the place of another
  const bool came = std::ranges::any_of(seen.machines, [&](const WatchedMachine& it) {
    return it.spot && it.launched && *it.launched > seen.mark->since;
  });
  if (spot != Spot::None || !came) fresh.since = seen.mark->since;
  return fresh;
}

bool runs_on_demand(const WatchedMachine& it) {
  return !it.spot && (it.state == State::Starting || it.state == State::Running);
}

// The on-demand machine that came last, as its fleet replaces one that failed.
const WatchedMachine* on_demand_machine(const Watched& seen) {
  const WatchedMachine* last = nullptr;
  for (const WatchedMachine& it : seen.machines)
    if (runs_on_demand(it) && (last == nullptr || it.launched > last->launched)) last = &it;
  return last;
}

// The job runs on demand as soon as an on-demand instance was asked for.
Sight sight_of(const Watched& seen) {
  Sight sight{.now = seen.now,
              .runs = Use::Nothing,
              .spot = std::ranges::any_of(seen.machines, is_there),
              .before = {},
              .looked = {},
              .had_spot = false};
  const bool paid = !seen.beside.empty() || std::ranges::any_of(seen.machines, runs_on_demand);
  if (sight.spot) sight.runs = Use::Spot;
  if (paid) sight.runs = Use::OnDemand;
  if (!seen.mark) return sight;
  sight.before = seen.mark->outlook;
  sight.looked = seen.mark->looked;
  sight.had_spot = seen.mark->spot == Spot::Starts || seen.mark->spot == Spot::Runs;
  const bool asked = seen.mark->spot != Spot::Rests && seen.mark->spot != Spot::Stopped;
  if (asked && seen.own && seen.own->target > 0) return sight;
  // No spot instance was asked for, so its absence says nothing of the capacity.
  sight.looked = seen.now;
  sight.had_spot = sight.spot;
  return sight;
}

// An on-demand instance was asked for, a region cannot be read, and a machine that is in none of
// the others has published not long ago. No longer: a deadline does not wait for a region.
bool may_run_unseen(const Watched& seen, Duration start) {
  const bool asked =
      seen.mark && seen.mark->outlook && seen.mark->outlook->choice == capacity::Use::OnDemand;
  if (seen.unread.empty() || !asked) return false;
  if (!seen.publication_known) return true;
  const auto& last = seen.publication;
  const auto limit = std::chrono::ceil<std::chrono::seconds>(start + silent_for);
  return last && seen.now - *last->at < limit &&
         std::ranges::none_of(seen.machines,
                              [&](const WatchedMachine& it) { return it.id == last->instance; });
}

class Decider {
 public:
  Decider(const config::OnDemand& wanted, Duration start, const Watched& seen)
      : wanted_(wanted), start_(start), seen_(seen) {
    result_.mark = mark_look(seen);
    // Keeps the mark of a new rest: the target of 0 that goes with it may not be shown yet.
    if (seen.own && seen.own->target > 0 && seen.own->rested)
      result_.forget_rest = abs(seen.now - *seen.own->rested) > 2 * stands;
    has_deadline_ = wanted.when == config::OnDemand::When::WhenNeeded && seen.prospect.has_value();
    if (!has_deadline_ || seen.done || !seen.own) return;
    result_.mark.outlook = look_ahead(*seen.prospect, sight_of(seen));
    choice_ = result_.mark.outlook->choice;
  }

  Fallback decide() {
    if (seen_.done) return end_all();
    if (!seen_.own && seen_.beside.empty()) return without_fleet();
    if (!seen_.own) return end_beside("the job's own fleet has ended");
    if (!wanted_.needs_watcher())
      return seen_.beside.empty() ? say(Action::Over, "job.yaml asks for no on-demand instance")
                                  : end_beside("job.yaml asks for none any more");
    if (result_.mark.spot == Spot::Stopped) return stopped();
    if (seen_.beside.size() > 1) return keep_one();
    if (result_.mark.spot == Spot::Rests) return resting();
    return seen_.beside.empty() ? without() : with(seen_.beside.front());
  }

 private:
  Fallback say(Action action, std::string reason) {
    result_.action = action;
    result_.reason = std::move(reason);
    return std::move(result_);
  }

  // All but `keep`.
  Fallback end_beside(const std::string& why, const FleetId& keep = {}) {
    for (const WatchedFleet& it : seen_.beside)
      if (it.id != keep) result_.fleets.push_back(it.id);
    return say(Action::End, "the on-demand instance ends: " + why);
  }

  Fallback keep_one() {
    const Stays stays = which_stays(seen_);
    const std::string two = "two on-demand fleets are there";
    if (!stays.is_sure)
      return say(Action::Wait, two + ": " + stays.id.str() + " stays if its instance runs on");
    return end_beside(two + ", and " + stays.id.str() + " stays", stays.id);
  }

  // `spotter launch` waits for the end of these before it asks for a new fleet.
  Fallback without_fleet() {
    if (std::ranges::any_of(seen_.machines, lives))
      return say(Action::Wait, "the job has no fleet; its instances end");
    return say(Action::Over, "the job has no fleet");
  }

  Fallback end_all() {
    // Without the own fleet its agent has ended that one, last of all; and there is no mark that
    // would say since when.
    const bool tidying = seen_.own && std::ranges::any_of(seen_.machines, lives) &&
                         seen_.now - result_.mark.since < whole(tidied);
    if (tidying)
      return say(Action::Wait,
                 "the job is done: its agent removes what is left, and ends the fleet");
    if (seen_.own) result_.fleets.push_back(seen_.own->id);
    for (const WatchedFleet& it : seen_.beside) result_.fleets.push_back(it.id);
    return say(result_.fleets.empty() ? Action::Over : Action::End, "the job is done");
  }

  Fallback stopped() {
    const std::string why =
        seen_.own->id.str() + " is at target 0: the job was given up or stopped";
    if (seen_.beside.empty()) return say(Action::Wait, why + "; `spotter launch` starts it again");
    if (seen_.now - result_.mark.since > stands) return end_beside(why);
    return say(Action::Wait, why + "; its on-demand instance ends if the next looks see it, too");
  }

  Fallback without() {
    const WatchedMachine* spot = spot_machine(seen_, result_.mark);
    if (has_deadline_ && choice_ == Use::OnDemand && may_run_unseen(seen_, start_))
      return say(Action::Wait, "the job is to run on demand, and may do so in " + seen_.unread +
                                   ", which does not answer");
    if (spot != nullptr && has_deadline_ && choice_ == Use::OnDemand)
      return say(Action::AskOnDemand, "the deadline: were the spot instance " + spot->id.str() +
                                          " lost, it would be missed: an on-demand instance is "
                                          "asked for");
    if (spot != nullptr)
      return say(Action::Wait, "the job has the spot instance " + spot->id.str());
    if (has_deadline_) return without_spot();
    const wire::WallTime since = result_.mark.since;
    const wire::WallTime until = since + whole(wanted_.after);
    const std::string none = "no spot instance since " + wire::to_rfc3339(since);
    if (seen_.now >= until)
      return say(Action::AskOnDemand, none + ": an on-demand instance is asked for");
    return say(Action::Wait, none + ": on demand from " + wire::to_rfc3339(until));
  }

  Fallback without_spot() {
    const std::string none = "no spot instance since " + wire::to_rfc3339(result_.mark.since);
    if (choice_ == Use::OnDemand)
      return say(Action::AskOnDemand,
                 none + ": for the deadline an on-demand instance is asked for");
    if (result_.mark.outlook->trouble == Outlook::Trouble::Budget)
      return say(Action::Wait, none +
                                   ": the job waits for one, as on demand its budget is not "
                                   "enough (limits.gives_way)");
    if (seen_.prospect->spent_unknown)
      return say(Action::Wait, none +
                                   ": the job waits for one; on demand only when it can be read "
                                   "what it has spent");
    return say(Action::Wait, none + ": the job waits for one, as there is time");
  }

  // The job's own fleet is at target 0, by the watcher.
  Fallback resting() {
    const auto works = [](const WatchedFleet& it) { return it.target > 0; };
    if (std::ranges::none_of(seen_.beside, works) && !seen_.beside.empty())
      return given_up(seen_.beside.front());
    // Its machine failed, and there may be no other: without a spot instance nothing would train.
    const WatchedMachine* machine = on_demand_machine(seen_);
    if (seen_.beside.empty() && seen_.missing.empty() && is_fresh_rest())
      return say(Action::Wait, seen_.own->id.str() +
                                   " is at target 0, as AWS shows it: it is "
                                   "looked at again before it is woken");
    if (seen_.beside.empty() || machine == nullptr) return wake("the on-demand instance has gone");
    if (const auto silent = silence(*machine)) {
      if (seen_.missing.empty()) result_.silence = silent;
      return wake(silent_text(*silent));
    }
    if (has_deadline_ && choice_ == Use::OnDemand)
      return say(Action::Wait, "on demand, by " + seen_.beside.front().id.str() +
                                   ", as the deadline asks; " + seen_.own->id.str() + " rests");
    return wake("there is time again");
  }

  // Nothing may be beside it yet, or any more, as a description of EC2 may be older than the rest.
  bool is_fresh_rest() const {
    return abs(seen_.now - seen_.own->rested.value_or(result_.mark.since)) < stands;
  }

  // Each place that the job was in once may be woken. If one of them has no fleet, the job may have
  // ended: its agent ends the fleet of its own region only, and `spotter stop` ends one region
  // after the other.
  Fallback wake(const std::string& why) {
    if (!seen_.missing.empty())
      return say(Action::Wait, why + ", but " + seen_.own->id.str() +
                                   " is not woken: the job has no fleet in " + seen_.missing +
                                   ", where it may have ended; `spotter launch` starts it again, "
                                   "`spotter stop job.yaml` ends the rest");
    return say(Action::Wake, why + ": " + seen_.own->id.str() + " asks for spot capacity again");
  }

  // It has had the job for long enough to publish something, since its launch or since the rest.
  std::optional<Silence> silence(const WatchedMachine& it) const {
    if (!seen_.publication_known || !it.launched) return std::nullopt;
    wire::WallTime last = std::max(result_.mark.since, *it.launched);
    if (seen_.publication) last = std::max(last, *seen_.publication->at);
    if (seen_.now - last < whole(start_ + silent_for)) return std::nullopt;
    return Silence{last, it.id};
  }

  static std::string silent_text(const Silence& it) {
    return "the on-demand instance " + it.instance.str() + " has published nothing since " +
           wire::to_rfc3339(it.since);
  }

  // A fleet was woken because of it, and it has not published since.
  bool is_silent(const WatchedMachine& it) const {
    const auto& known = seen_.own->silence;
    if (!known || known->instance != it.id) return false;
    const auto& last = seen_.publication;
    return !last || last->instance != it.id || *last->at <= known->since;
  }

  // Its agent lowers the job's own fleet, too, but not in another region.
  Fallback given_up(const WatchedFleet& fleet) {
    const bool asks = seen_.elsewhere && seen_.own->target > 0;
    return say(asks ? Action::GiveUp : Action::Wait,
               fleet.id.str() +
                   " is at target 0: the job was given up on its on-demand instance; see "
                   "`spotter status`");
  }

  // EC2 says "running" before the machine has booted; the spot instance trains until it has. A
  // launch in the future says that one of the clocks is wrong, and nothing of the machine.
  bool has_settled(const WatchedMachine& it) const {
    if (!runs_on_demand(it) || it.state != State::Running) return false;
    const auto settling = whole(settling_time(wanted_, start_));
    return !it.launched || *it.launched > seen_.now + settling ||
           seen_.now - *it.launched >= settling;
  }

  // A spot instance is there beside the on-demand one, and the deadline wants that one.
  Fallback leave(const WatchedMachine& spot, const WatchedFleet& fleet) {
    const bool runs = std::ranges::any_of(seen_.machines, [&](const WatchedMachine& it) {
      return has_settled(it) && !is_silent(it);
    });
    const std::string why = "on demand, by " + fleet.id.str() + ", as the deadline asks";
    const auto silent = std::ranges::find_if(
        seen_.machines, [&](const WatchedMachine& it) { return is_silent(it); });
    if (!runs && silent != seen_.machines.end())
      return say(Action::Wait, silent_text(*seen_.own->silence) + ": the spot instance " +
                                   spot.id.str() + " stays beside it");
    if (!runs || !seen_.own->rests) return say(Action::Wait, why);
    result_.forget_rest = false;
    result_.mark.spot = Spot::Rests;
    result_.mark.since = seen_.now;
    result_.mark.instance = {};
    return say(Action::Rest, why + ": the spot instance " + spot.id.str() + " ends, and " +
                                 seen_.own->id.str() + " rests");
  }

  // It asks for one since a while, and got none: one that has ended was one, and EC2 is about to
  // replace it.
  bool lacks_capacity(const WatchedFleet& fleet) const {
    const auto limit = std::min<seconds>(nothing_comes, whole(settling_time(wanted_, start_)));
    const auto paid = [&](const WatchedMachine& it) {
      return !it.spot && (lives(it) || (it.launched && *it.launched >= fleet.created));
    };
    return fleet.created && seen_.now - *fleet.created >= limit &&
           std::ranges::none_of(seen_.machines, paid);
  }

  Fallback ask_elsewhere(const WatchedFleet& fleet) {
    result_.fleets = {fleet.id};
    return say(Action::AskElsewhere, "no on-demand instance came of " + fleet.id.str() + " since " +
                                         wire::to_rfc3339(*fleet.created) +
                                         ": one is asked for in " + seen_.next_on_demand);
  }

  Fallback with(const WatchedFleet& fleet) {
    if (fleet.target == 0) return given_up(fleet);
    const WatchedMachine* spot = spot_machine(seen_, result_.mark);
    if (has_deadline_ && choice_ == Use::Nothing)
      return end_beside("there is time to wait for spot capacity");
    const bool needed = spot == nullptr || (has_deadline_ && choice_ == Use::OnDemand);
    if (needed && !seen_.next_on_demand.empty() && lacks_capacity(fleet))
      return ask_elsewhere(fleet);
    if (has_deadline_ && choice_ == Use::OnDemand && spot != nullptr) return leave(*spot, fleet);
    const Duration settling = settling_time(wanted_, start_);
    if (spot != nullptr && result_.mark.spot == Spot::Runs &&
        seen_.now - result_.mark.since >= whole(settling))
      return end_beside("the spot instance " + spot->id.str() + " is there");
    if (spot != nullptr)
      return say(Action::Wait, "the spot instance " + spot->id.str() +
                                   " has come: the job returns to it when it has run for " +
                                   minutes_text(settling));
    return say(Action::Wait, "on demand, by " + fleet.id.str() + ", until there is spot capacity");
  }

  const config::OnDemand& wanted_;
  Duration start_;
  const Watched& seen_;
  Fallback result_;
  bool has_deadline_ = false;
  Use choice_ = Use::Nothing;  // of a job with a deadline
};

// Each look of each watcher shows a machine that was launched so long ago.
constexpr std::chrono::minutes shown{3};

wire::WallTime created(const WatchedFleet& it) { return it.created.value_or(wire::WallTime{}); }

wire::WallTime runs_since(const Watched& seen, const WatchedFleet& fleet) {
  auto first = wire::WallTime::max();
  for (const WatchedMachine& it : seen.machines)
    if (!it.spot && it.state <= WatchedMachine::State::Running && it.fleet == fleet.id)
      first = std::min(first, it.launched.value_or(first));
  return first;
}

}  // namespace

Duration settling_time(const config::OnDemand& wanted, Duration start) {
  const bool due = wanted.when == config::OnDemand::When::WhenNeeded;
  return std::min<Duration>(due ? start : wanted.after, settled);
}

bool acts_unmarked(const Fallback& next) {
  const bool acts = next.action == Action::AskOnDemand || next.action == Action::AskElsewhere ||
                    next.action == Action::End || next.action == Action::Wake;
  return acts && next.mark.outlook.has_value();
}

bool OverSince::see(bool over, std::chrono::steady_clock::time_point now) {
  if (!over) since_.reset();
  if (over && !since_) since_ = now;
  return since_ && now - *since_ >= over_for;
}

Fallback decide_fallback(const config::OnDemand& wanted, Duration start, const Watched& seen) {
  return Decider(wanted, start, seen).decide();
}

Stays which_stays(const Watched& seen) {
  const auto oldest = std::ranges::min_element(seen.beside, {}, created);
  const auto best = std::ranges::min_element(seen.beside, {}, [&](const WatchedFleet& it) {
    return std::pair(runs_since(seen, it), created(it));
  });
  return {best->id, best == oldest || seen.now - runs_since(seen, *best) >= shown};
}

}  // namespace spotter::launch
