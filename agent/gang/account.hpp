// One member's report of its gang, for people and Prometheus: who is in it and does what, whom it
// waits for, what the last new round was for and took, and the share of time in which it trained.
// Pure.
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "agent/gang/participant.hpp"

namespace spotter::gang {

struct Account {
  enum class Why : std::uint8_t {
    First,   // round
    Left,    // a machine with a notice
    Lost,    // a machine without one
    Joined,  // another machine
    Apart,   // the machines did not reach one another
    Torn,    // ... or lost one another, once they trained
    Failed   // nobody came or went: the workers ended
  };
  // A member is in the round; waits for the next one; is waited for by those; leaves, or is given
  // back; or is ready beside a round that it is not in.
  enum class Does : std::uint8_t { Trains, Waits, Awaited, Leaves, Spare };
  struct Of {
    std::string name;
    Does does = Does::Awaited;
    bool operator==(const Of&) const = default;
  };
  std::vector<Of> members{};  // that live, those of the round first, in the order of their ranks
  std::size_t machines = 0;   // in the round; 0: none is under way
  std::uint64_t round = 0;    // the last one that began
  std::string leader{};       // its name; empty: there was no round
  std::string waits_for{};    // empty: this machine waits for nobody
  // The last round that this machine is or was in. `took`: from the moment at which it knew that
  // the one before would end, or asked for its first, until the round began.
  std::uint64_t rounds = 0;  // of this process
  Why why = Why::First;
  std::string who{};  // the machines that are the reason, by name
  Duration took{};

  bool operator==(const Account&) const = default;
};

std::string_view to_text(Account::Why why);    // "first", "left", "lost", ...
std::string_view to_text(Account::Does does);  // "trains", "waits", ...

class Accountant {
 public:
  // To be called at each turn. `asks`: its launcher waits for a round. REQUIRES: the same
  // participant at each call.
  const Account& look(Time now, const Participant& participant, bool asks);
  // Since it asked for its first round: in rounds, and between them.
  Duration trained() const { return trained_; }
  Duration between() const { return between_; }

 private:
  void begin(Time now, const Participant& participant);

  Account account_;
  std::uint64_t round_ = 0;  // that this machine is in
  std::optional<Time> since_, looked_;
  Duration trained_{}, between_{};
  std::uint32_t apart_ = 0, failures_ = 0;    // Record's, when that round began
  std::map<std::string, std::string> names_;  // of that round, by id
  std::set<std::string> leavers_;             // who said so since
};

}  // namespace spotter::gang
