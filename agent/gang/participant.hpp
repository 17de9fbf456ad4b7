// One machine's part in a gang, with S3 alone: when to say that it lives, when a round is over, who
// is in the next one. Pure: answers and time come in, reads and writes go out. tests/gang runs many
// of them through lost answers, outages and deaths, and searches for two leaders of one round.
//
// It looks at the record, works out what the record should say, and writes that if it differs, on
// the condition that nobody else wrote meanwhile. So a lost answer is settled by the next look, and
// it does not matter which member does what all of them see.
//
// No clock is compared with another machine's: a member is dead when its `beats` stood still for a
// lease and a margin of the time in which this one could read the record. A member that cannot
// renew its own for a lease ends its workers: by then the others have not yet taken it for dead.
//
// The gang knows its members: a round is complete once all that live are ready. torchrun's own
// rendezvous waits 30 s for whoever else may come; here only the first round does. A member that
// was killed without a notice is waited for `last_call`.
#pragma once

#include <functional>
#include <set>
#include <variant>

#include "agent/gang/record.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter::gang {

struct Settings {
  std::string job;  // Record::job
  std::string id;   // Member::id
  std::string name;
  std::string address;  // where the others reach this machine
  std::string word{};   // Member::word
  std::size_t size = 1;
  std::size_t min = 1;
  bool replaced = false;  // Member::replaced
  Duration lease{60'000};
  Duration margin{15'000};
  Duration look_every{1'000};
  Duration look_every_forming{300};
  Duration first_call{30'000};   // of the first round: so long for others once there are `min`
  Duration last_call{5'000};     // of a later one: for a member that lives, or seems to
  Duration grace{5'000};         // for workers to end by themselves when their round is over
  Duration restart{15'000};      // ... and their torchrun, until it asks for the next round
  Duration last_grace{300'000};  // ... when the gang is done
  // Rounds in succession that end with nobody lost and no new checkpoint, until the gang has
  // failed: one may be the network's fault.
  std::uint32_t most_failures = 2;
  // Rounds in succession whose machines do not reach one another: no fault of the trainer's, and a
  // network may be away for long. With these pauses, each as much longer than the one before, and
  // the ten seconds that a machine tries, that is half an hour.
  std::uint32_t most_apart = 50;
  // Rounds that lost their connections after the workers began, without a new checkpoint: a network
  // that is away would have been found out before they did.
  std::uint32_t most_torn = 5;
  // The same for each of the two, until a machine that was in no round before is left out: it may
  // be what they do not reach.
  std::uint32_t most_apart_with_new = 3;
  // Until one that was left out is taken back, where too few stay: a fleet may launch another
  // meanwhile.
  Duration until_taken_back{300'000};
  // The second time that a machine is the reason for a round's end is no accident.
  std::uint32_t most_faults = 1;
  // After so many rounds with a new checkpoint, and without one that hung or was apart between
  // them, it would be the first time again.
  std::uint32_t rounds_to_forget = 3;
  Duration apart_pause{2'000};
  Duration longest_apart_pause{30'000};

  Duration beat_every() const { return lease / 6; }
  // Between two rounds the others wait for it, and whether it lives decides how long.
  Duration beat_every_forming() const { return last_call / 3; }
  // The wait for a member of the round that lives: one that hangs is ended after the grace.
  Duration slow_call() const { return grace + 2 * look_every + restart; }
};

// --- Output: one at a time, answered by looked() or wrote() and the like.
struct Look {};
struct Write {
  Record record;
  std::string etag;  // of the record that it replaces; empty: there must be none
};
using Ask = std::variant<Look, Write>;

// --- Input.
struct Seen {
  Record record;
  std::string etag;
};

// A round that this machine is in.
struct Place {
  struct Machine {
    std::string id, name, address;
    std::uint16_t port = 0;  // of the store that it keeps, or would keep
    std::string word{};
  };
  std::uint64_t round = 0;
  std::size_t rank = 0;  // among the machines; 0 leads
  std::vector<Machine> machines{};
};

// The fate of this machine's workers in the last round.
struct Last {
  End end = End::Other;
  bool apart = false;    // they never began: it could not reach another machine of the round, ...
  std::string missed{};  // ... Member::missed
};

// Why the workers should save and stop, soon.
struct Stop {
  std::string why;
  std::optional<Time> by;  // until then they may train on; none: at once
};

class Participant {
 public:
  explicit Participant(Settings settings) : settings_(std::move(settings)) {}

  std::optional<Ask> next(Time now);
  // The answers; `seen`: none: there is no record yet.
  void looked(Time now, std::optional<Seen> seen);
  void wrote(Time now, const std::string& etag);
  void refused(Time now);     // the condition does not hold
  void unanswered(Time now);  // or unclear: the write may have been done, or be done later

  // Its workers have ended, or never began, and it has a store at that port. `progress`: the step
  // of the newest checkpoint; -1: there is none. Answered by place(), or by refuses(). A launcher
  // that follows one that waited knows of no end: what that one said remains.
  void ready(std::uint16_t port, std::int64_t progress, Last last = {});
  // Its workers have ended, and its launcher is not yet ready().
  void idle();
  // A notice: it trains on until then, and is in no further round. A time that is over: it stops
  // now. The soonest of several counts.
  void leave(Time until);
  bool is_leaving() const { return leaves_at_.has_value(); }
  // Its workers have ended well. When it leads, the gang is done.
  void finished() { finished_ = true; }
  // Its launcher has ended, and none follows: it gives up its membership.
  void go() { gone_ = true; }

  // The new round that it is in, once; its workers then run until ready().
  std::optional<Place> place();
  bool has_place() const { return place_.has_value(); }
  // A launcher that waits for a round waits in vain.
  bool refuses() const {
    return is_leaving() || is_done() || has_failed() || is_foreign() || given_back_;
  }
  // It was the reason for a round's end too often, and its agent is to end it.
  bool is_given_back() const { return given_back_; }
  bool is_done() const { return looked_ && record_.phase == Record::Phase::Done; }
  bool has_failed() const { return looked_ && was_open_ && record_.phase == Record::Phase::Failed; }
  // Its machines did not reach one another, or lost one another, whatever the trainer did.
  bool fell_apart() const {
    return has_failed() &&
           (record_.apart > settings_.most_apart || record_.torn > settings_.most_torn);
  }
  // The record is of another job of this name.
  bool is_foreign() const { return foreign_; }
  bool is_gone() const;
  // The workers must be ended now: their round is over, or the lease is.
  std::optional<std::string> must_end(Time now) const;
  std::optional<Stop> must_stop() const;
  // A round that it was in.
  bool is_over(std::uint64_t round) const {
    return record_.round != round || record_.phase == Record::Phase::Forming;
  }
  bool leads() const { return in_round_ != 0 && leads_; }
  std::uint64_t round() const { return in_round_; }
  const Record& record() const { return record_; }
  // The reason why the launcher waits for a round, for a person.
  std::string waits_for() const;

 private:
  Record wanted(Time now) const;
  void join(Record& record, Time now) const;
  void drop_the_dead(Record& record) const;
  void form(Record& record) const;
  bool waited(const Record& record) const;
  bool lives(const Member& member) const;
  bool is_silent(const Member& member) const;
  void saw(Time now, Duration passed);
  void forget_last();
  void drop_place();
  void watch(Duration passed);
  void watch_leavers(Time before);
  void take_place();

  struct Watched {
    std::uint64_t beats = 0;
    bool writes = false;  // it has, since this machine watches it
    Duration still{};     // of the time in which this machine could look
  };

  Settings settings_;
  Record record_;
  std::string etag_;
  bool looked_ = false, foreign_ = false, was_open_ = false;
  bool awaited_ = false;
  Time look_at_{}, looked_at_{};
  std::map<std::string, Watched> watched_;
  std::string waiting_;  // who is ready, as one text
  Duration steady_{};    // it has not changed

  Record writing_;  // the last that was sent
  std::uint64_t writes_ = 0;
  Time sent_{}, accepted_{};  // when that was; when the last one was sent that S3 has taken

  bool ready_ = false, finished_ = false, works_ = false, gone_ = false, leads_ = false;
  bool given_back_ = false;
  Last last_;
  bool said_ = false;     // to ready(), and no workers have begun since
  bool untaken_ = false;  // a place of `in_round_`: no launcher has had it, nor another since
  std::uint16_t port_ = 0;
  std::int64_t progress_ = -1;
  std::optional<Time> leaves_at_;
  bool sooner_ = false;  // than the record says
  std::uint64_t in_round_ = 0;
  std::optional<Place> place_;
  std::optional<Time> over_since_, done_since_;
  // Members of the round: until when they can be counted on; none: not at all.
  std::map<std::string, std::optional<Time>> leavers_;
};

// Functions on the record alone, pure: they conclude from the round that is over about the trainer
// and the machines, and choose who is in the next one.

bool stays(const Member& member);  // it may be in a further round
bool is_ranked(const Record& record, const std::string& id);
std::size_t count(const Record& record, bool (*which)(const Member&));

using IsSilent = std::function<bool(const Member&)>;

// Begins the next round with those that are ready, or says that the gang has failed. `is_silent`:
// the member's beats have stood still for so long that it is not only slow, or always.
// REQUIRES: its phase is Forming, and nobody is waited for.
void begin_round(Record& record, const Settings& settings, const IsSilent& is_silent);

// One member's report of its gang, for people and Prometheus: who is in it and does what, whom it
// waits for, what the last new round was for and took, and the share of time in which it trained.
class Accountant {
 public:
  // To be called at each turn. `asks`: its launcher waits for a round. All members have their names
  // in the report. REQUIRES: the same participant at each call.
  const wire::GangReport& look(Time now, const Participant& participant, bool asks);

 private:
  void begin(Time now, const Participant& participant);

  wire::GangReport report_;
  std::uint64_t round_ = 0;  // that this machine is in
  std::optional<Time> since_, looked_;
  Duration trained_{}, between_{};            // since it asked for its first round
  std::uint32_t apart_ = 0, failures_ = 0;    // Record's, when that round began
  std::map<std::string, std::string> names_;  // of that round, by id
  std::set<std::string> leavers_;             // who said so since
};

}  // namespace spotter::gang
