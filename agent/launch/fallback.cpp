#include "agent/launch/fallback.hpp"

#include <algorithm>
#include <chrono>

namespace spotter::launch {
namespace {

using Action = Fallback::Action;
using Spot = WatchMark::Spot;
using State = WatchedMachine::State;
using std::chrono::seconds;

constexpr Spot all_spots[] = {Spot::None, Spot::Starts, Spot::Runs, Spot::Stopped, Spot::Done};
constexpr const char* spot_words[] = {"no spot", "spot starts", "spot runs", "stopped", "done"};
constexpr std::chrono::minutes settled{5};  // a boot with its installation takes two to four

seconds whole(Duration duration) { return std::chrono::ceil<seconds>(duration); }

std::string minutes_text(Duration duration) {
  const auto all = whole(duration).count();
  return all < 120 ? std::to_string(all) + " s" : std::to_string(all / 60) + " min";
}

bool is_there(const WatchedMachine& it) {
  return it.spot && (it.state == State::Starting || it.state == State::Running);
}

const WatchedMachine* spot_machine(const Watched& seen) {
  const auto it = std::ranges::find_if(seen.machines, is_there);
  return it == seen.machines.end() ? nullptr : &*it;
}

bool lives(const WatchedMachine& it) { return it.state != State::Ended; }

Spot spot_of(const Watched& seen) {
  if (seen.done) return Spot::Done;
  if (seen.own && seen.own->target == 0) return Spot::Stopped;
  const auto runs = [](const WatchedMachine& it) {
    return is_there(it) && it.state == State::Running;
  };
  if (std::ranges::any_of(seen.machines, runs)) return Spot::Runs;
  return spot_machine(seen) == nullptr ? Spot::None : Spot::Starts;
}

// A spot instance that came and went between two looks counts from now.
WatchMark mark_look(const Watched& seen) {
  const Spot spot = spot_of(seen);
  const WatchMark fresh{seen.now, spot, seen.now};
  if (!seen.mark || seen.mark->spot != spot || seen.mark->since > seen.now) return fresh;
  const bool came = std::ranges::any_of(seen.machines, [&](const WatchedMachine& it) {
    return it.spot && it.launched && *it.launched > seen.mark->since;
  });
  return spot == Spot::None && came ? fresh : WatchMark{seen.now, spot, seen.mark->since};
}

class Decider {
 public:
  Decider(const config::OnDemand& wanted, const Watched& seen) : wanted_(wanted), seen_(seen) {
    result_.mark = mark_look(seen);
  }

  Fallback decide() {
    if (seen_.done) return end_all();
    if (!seen_.own && seen_.beside.empty()) return without_fleet();
    if (!seen_.own) return end_beside("the job's own fleet has ended", 0);
    if (wanted_.when != config::OnDemand::When::After)
      return seen_.beside.empty() ? say(Action::Over, "job.yaml asks for no on-demand instance")
                                  : end_beside("job.yaml asks for none any more", 0);
    if (seen_.own->target == 0) return stopped();
    if (seen_.beside.size() > 1) return end_beside("another watcher asked for one, too", 1);
    return seen_.beside.empty() ? without() : with(seen_.beside.front());
  }

 private:
  Fallback say(Action action, std::string reason) {
    result_.action = action;
    result_.reason = std::move(reason);
    return std::move(result_);
  }

  // All but the first `keep`.
  Fallback end_beside(const std::string& why, std::size_t keep) {
    for (std::size_t i = keep; i < seen_.beside.size(); ++i)
      result_.fleets.push_back(seen_.beside[i].id);
    return say(Action::End, "the on-demand instance ends: " + why);
  }

  // `spotter launch` waits for the end of these before it asks for a new fleet.
  Fallback without_fleet() {
    if (std::ranges::any_of(seen_.machines, lives))
      return say(Action::Wait, "the job has no fleet; its instances end");
    return say(Action::Over, "the job has no fleet");
  }

  Fallback end_all() {
    const bool tidying = std::ranges::any_of(seen_.machines, lives) &&
                         seen_.now - result_.mark.since < whole(tidied);
    if (tidying && (seen_.own || !seen_.beside.empty()))
      return say(Action::Wait,
                 "the job is done: its agent removes what is left, and ends the fleet");
    if (seen_.own) result_.fleets.push_back(seen_.own->id);
    for (const WatchedFleet& it : seen_.beside) result_.fleets.push_back(it.id);
    return say(result_.fleets.empty() ? Action::Over : Action::End, "the job is done");
  }

  Fallback stopped() {
    const std::string why =
        seen_.own->id.str() + " is at target 0: the job was given up or stopped";
    return seen_.beside.empty() ? say(Action::Wait, why + "; `spotter launch` starts it again")
                                : end_beside(why, 0);
  }

  Fallback without() {
    if (const WatchedMachine* spot = spot_machine(seen_))
      return say(Action::Wait, "the job has the spot instance " + spot->id.str());
    const wire::WallTime since = result_.mark.since;
    const wire::WallTime until = since + whole(wanted_.after);
    const std::string none = "no spot instance since " + wire::to_rfc3339(since);
    if (seen_.now >= until)
      return say(Action::AskOnDemand, none + ": an on-demand instance is asked for");
    return say(Action::Wait, none + ": on demand from " + wire::to_rfc3339(until));
  }

  Fallback with(const WatchedFleet& fleet) {
    if (fleet.target == 0)
      return say(Action::Wait, fleet.id.str() +
                                   " is at target 0: the job was given up on its on-demand "
                                   "instance; see `spotter status`");
    const WatchedMachine* spot = spot_machine(seen_);
    const Duration settling = settling_time(wanted_);
    if (spot != nullptr && result_.mark.spot == Spot::Runs &&
        seen_.now - result_.mark.since >= whole(settling))
      return end_beside("the spot instance " + spot->id.str() + " is there", 0);
    if (spot != nullptr)
      return say(Action::Wait, "the spot instance " + spot->id.str() +
                                   " has come: the job returns to it when it has run for " +
                                   minutes_text(settling));
    return say(Action::Wait, "on demand, by " + fleet.id.str() + ", until there is spot capacity");
  }

  const config::OnDemand& wanted_;
  const Watched& seen_;
  Fallback result_;
};

}  // namespace

std::string tag_of(const WatchMark& mark) {
  return wire::to_rfc3339(mark.looked) + " " + spot_words[static_cast<std::size_t>(mark.spot)] +
         " since " + wire::to_rfc3339(mark.since);
}

std::optional<WatchMark> mark_of(std::string_view tag) {
  for (const Spot spot : all_spots) {
    const std::string between =
        " " + std::string(spot_words[static_cast<std::size_t>(spot)]) + " since ";
    const auto at = tag.find(between);
    if (at == tag.npos) continue;
    const auto looked = wire::parse_rfc3339(tag.substr(0, at));
    const auto since = wire::parse_rfc3339(tag.substr(at + between.size()));
    if (looked && since) return WatchMark{*looked, spot, *since};
  }
  return std::nullopt;
}

Duration settling_time(const config::OnDemand& wanted) {
  return std::min<Duration>(wanted.after, settled);
}

bool is_news(const std::optional<WatchMark>& before, const WatchMark& now) {
  return !before || before->spot != now.spot || before->since != now.since ||
         now.looked - before->looked >= marked_every;
}

Fallback decide_fallback(const config::OnDemand& wanted, const Watched& seen) {
  return Decider(wanted, seen).decide();
}

}  // namespace spotter::launch
