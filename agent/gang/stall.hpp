// When the ranks of one machine hang: none of them does a step for long. Each then says where it
// is, which shows who hangs and who only waits for that one. Pure.
#pragma once

#include "agent/gang/record.hpp"

namespace spotter::gang {

// The record that a rank has written.
struct RankSeen {
  std::size_t local = 0;   // its number on this machine
  std::int64_t step = -1;  // the last one that it said; -1: none yet
  std::string stack{};     // as Python's faulthandler has it; empty: it has not said
};

class StallWatch {
 public:
  // `limit`: without a step. Ranks that only wait may be ended a quarter later: the one that hangs
  // may be on a machine that cannot say so.
  explicit StallWatch(Duration limit) : limit_(limit) {}

  enum class Turn : std::uint8_t {
    Nothing,
    Ask,  // the ranks where they are; then look() again
    End   // the round, because of `words()`
  };
  // No round is under way, or its ranks are ended.
  void rest() { seen_.clear(); }
  // To be called now and then. Before a rank has said a step nothing hangs: what comes before the
  // first one may take long.
  Turn look(Time now, const std::vector<RankSeen>& ranks);
  // The reason of the last End, for a person: which ranks hang, and where.
  const std::string& words() const { return words_; }
  // ... and whose fault it is: Hung: a rank's here; Torn: these only wait, on a machine or a
  // network elsewhere; Other: it cannot be seen.
  End end() const { return end_; }

 private:
  Duration limit_;
  std::vector<std::int64_t> seen_;  // steps
  Time since_{};                    // they have not changed
  std::optional<Time> asked_;
  std::string words_;
  End end_ = End::Other;
};

// Waits for others, by the innermost call of its stack: in a collective, or in the backward pass,
// in which gradients are summed.
bool only_waits(std::string_view stack);
// "train.py:30 in load"; empty: it is no stack.
std::string innermost(std::string_view stack);

}  // namespace spotter::gang
