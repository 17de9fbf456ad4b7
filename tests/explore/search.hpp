// All nodes that can be reached from the first with at most so many faults, each visited once.
#pragma once

#include "tests/explore/moves.hpp"
#include "tests/explore/pack.hpp"

namespace spotter::explore {

struct Outcome {
  std::string broken;  // empty: every promise holds in every node
  std::vector<std::string> story;
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;
  std::uint64_t ends = 0;  // nodes in which all is over
  std::vector<std::uint64_t> states_by_faults;
  std::uint32_t depth = 0;       // moves of the longest shortest story
  std::uint32_t calm_moves = 0;  // from the node that is farthest from its end
  bool complete = true;          // false: there were more nodes than `most`
};

class Search {
 public:
  Search(Limits limits, std::uint8_t faults, std::uint64_t most);
  Outcome run();

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = 0xffffffff;

  // The part of a visited node that stays. Its bytes are dropped when its successors are known.
  struct Visited {
    std::uint64_t print = 0;
    Index parent = kNone;
    Index calm = kNone;  // what follows when nothing goes wrong any more
    Move move;
    std::uint8_t faults = 0;
    bool expanded = false;
  };
  struct Waiting {
    Index index;
    Packed bytes;
  };

  Index find_or_add(std::uint64_t print);
  Index visit(Node& node, Index parent, const Move& move, std::uint8_t faults);
  bool expand(const Waiting& waiting);
  void check_liveness();
  void tell(Index last, const Move* move, const char* words);

  Limits limits_;
  std::uint8_t most_faults_;
  std::uint64_t most_;
  Outcome outcome_;
  std::vector<Visited> visited_;
  // Open addressing by `print`; kNone: free. At most two thirds are in use.
  std::vector<Index> table_;
  std::vector<std::vector<Waiting>> waiting_;  // by faults; each in order of discovery
};

}  // namespace spotter::explore
