// launch.on_demand: after 20m, or when-needed. Whether an on-demand instance is asked for, stays,
// or goes, by what AWS shows of the job. `spotter watch` asks, as only somebody outside can act
// when no instance lives. Pure.
//
// The job's own fleet asks for spot capacity all the time. Beside it, for as long as it gets none,
// is an on-demand fleet of one (request_on_demand()). Both may have an instance at once: EBS
// attaches the job's volume to one of them, and claims let one write (config/launch.cpp requires
// either), so the other waits. When the on-demand machine is ended it shuts down as any other: its
// agent has the trainer write a checkpoint and releases the volume, for which the spot instance
// waits.
//
// When a deadline asks for the on-demand instance (launch/deadline.hpp) a spot instance may be
// there, and is to be left: then the job's own fleet rests at target 0, which ends that instance.
#pragma once

#include "agent/config/launch.hpp"
#include "agent/launch/watch_mark.hpp"

namespace spotter::launch {

struct WatchedMachine {
  InstanceId id;
  bool spot = true;
  enum class State : std::uint8_t { Starting, Running, Ending, Ended } state = State::Starting;
  std::optional<wire::WallTime> launched;
  FleetId fleet = {};  // that launched it, as AWS's tag says; empty: not known yet
};

struct WatchedFleet {
  FleetId id;
  int target = 0;     // 0: its agent gave the job up, a person stopped it, or it rests
  bool rests = true;  // it may: a group at 0 is one that has ended
  // Its tag spotter:rests: when a watcher had it rest. Apart from the mark, which each look of each
  // watcher may write over.
  std::optional<wire::WallTime> rested;
  // The same tag says, once it was woken, why. It does not rest again for that instance, or it
  // would each time its spot instance is there.
  std::optional<Silence> silence = {};
  std::optional<wire::WallTime> created = {};
};

// A description of EC2 may be 30 s old: a target of 0 that has stood for longer is not a rest whose
// mark is not seen yet.
inline constexpr std::chrono::minutes stands{1};

// The job as AWS shows it. Fleets: those that launch instances now or later.
struct Watched {
  wire::WallTime now{};
  bool done = false;                 // its volume says so
  std::optional<WatchedFleet> own;   // the job's own fleet
  std::vector<WatchedFleet> beside;  // on demand, of one place after the other
  std::vector<WatchedMachine> machines;
  std::optional<WatchMark> mark;     // of an earlier look
  std::optional<Prospect> prospect;  // REQUIRED for when-needed
  // Could it be read? Then none: nothing was published.
  bool publication_known = false;
  std::optional<Published> publication = {};
  // A job with pools in several regions has these, too:
  bool elsewhere = false;    // `own` is one of several, and `beside` may be in another region
  std::string missing = {};  // regions where it has no own fleet at work, or that could not be read
  std::string unread = {};   // the latter alone
  // The region where an on-demand instance is asked for if none comes where one is; empty: nowhere.
  std::string next_on_demand = {};
};

struct Fallback {
  enum class Action : std::uint8_t {
    Wait,
    AskOnDemand,   // request_on_demand()
    AskElsewhere,  // `fleets` end, which have no instance, and another is asked for elsewhere
    End,           // `fleets`, with their instances
    Rest,          // the job's own fleet gets the target 0,
    Wake,          // or 1 again
    GiveUp,        // it gets the target 0 for good, as the job was given up in another region
    Over           // there is nothing to watch
  };
  Action action = Action::Wait;
  std::vector<FleetId> fleets;
  std::string reason;                   // a sentence for a person
  WatchMark mark;                       // of this look
  bool forget_rest = false;             // the fleet's tag of a rest is of one that is over
  std::optional<Silence> silence = {};  // of Wake: what that tag is to say then
};

// `start`: start_of() of the job.
Fallback decide_fallback(const config::OnDemand& wanted, Duration start, const Watched& seen);

// The time for which a spot instance has to be seen running before the job returns to it: it boots
// and installs the package meanwhile, and an instance that is taken away again at once costs no
// move. It is at most the time for which the job waits for one.
// `start`: takes the place of that wait for a job with a deadline.
Duration settling_time(const config::OnDemand& wanted, Duration start);

// Agents see themselves that the job is done. First they delete what a move or the data has left,
// for up to `tidy_limit` of decide/policy.hpp; what still runs long after that has no agent.
inline constexpr std::chrono::minutes tidied{20};

// May it be done though the mark could not be written down? A deadline does not wait for a tag;
// what counts from a mark does, and so does a rest, which without one is taken for a stop.
bool acts_unmarked(const Fallback& next);

// EC2 shows a new fleet some seconds late: there is nothing to watch when looks say so for a while.
inline constexpr std::chrono::minutes over_for{1};
class OverSince {
 public:
  // Has each look said so for that long?
  bool see(bool over, std::chrono::steady_clock::time_point now);

 private:
  std::optional<std::chrono::steady_clock::time_point> since_;
};

// The on-demand fleets beside the own fleet of a job with pools in several regions: only one of two
// stays, and an instance in a region that does not answer is not taken for gone. Pure.

// The older one stays if two were asked for at once. If a second was asked for because the first
// one's region did not answer for a while, the one whose machine came first stays: it trains. Each
// watcher has to choose the same, so the reason against the oldest has to be visible to all.
struct Stays {
  FleetId id;
  bool is_sure = true;  // else the next looks show it
};
// REQUIRES: there is one.
Stays which_stays(const Watched& seen);

}  // namespace spotter::launch
