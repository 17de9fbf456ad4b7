#include "tests/explore/search.hpp"

#include <xxhash.h>

#include <algorithm>

#include "tests/explore/world.hpp"

namespace spotter::explore {

Search::Search(Limits limits, std::uint8_t faults, std::uint64_t most)
    : limits_(limits),
      most_faults_(faults),
      most_(most),
      table_(1U << 16U, kNone),
      waiting_(faults + 2U) {}

Search::Index Search::find_or_add(std::uint64_t print) {
  if (visited_.size() * 3 > table_.size() * 2) {
    table_.assign(table_.size() * 2, kNone);
    const std::size_t mask = table_.size() - 1;
    for (Index i = 0; i < visited_.size(); ++i) {
      std::size_t at = visited_[i].print & mask;
      while (table_[at] != kNone) at = (at + 1) & mask;
      table_[at] = i;
    }
  }
  const std::size_t mask = table_.size() - 1;
  std::size_t at = print & mask;
  for (; table_[at] != kNone; at = (at + 1) & mask) {
    if (visited_[table_[at]].print == print) return table_[at];
  }
  table_[at] = static_cast<Index>(visited_.size());
  visited_.emplace_back().print = print;
  return table_[at];
}

// A node is known by 64 bits of its bytes: among ten million, two are mistaken for one another with
// a chance of three in a million.
Search::Index Search::visit(Node& node, Index parent, const Move& move, std::uint8_t faults) {
  Packed bytes = pack(node);
  const std::uint64_t print = XXH3_64bits(bytes.data(), bytes.size());
  const std::size_t before = visited_.size();
  const Index index = find_or_add(print);
  const bool fresh = visited_.size() != before;
  Visited& its = visited_[index];
  if (!fresh && (its.expanded || its.faults <= faults)) return index;
  its.parent = parent;
  its.move = move;
  its.faults = faults;
  waiting_[faults].push_back({index, std::move(bytes)});
  return index;
}

bool Search::expand(const Waiting& waiting) {
  const Index index = waiting.index;
  const Node node = unpack(waiting.bytes.data());
  visited_[index].expanded = true;
  const std::uint8_t faults = visited_[index].faults;
  const std::vector<Move> all = moves(node, limits_);
  bool first = true;
  for (const Move& move : all) {
    if (faults + move.cost > most_faults_) continue;
    Node next = node;
    apply(next, move);
    ++outcome_.transitions;
    if (next.broken) {
      tell(index, &move, next.broken);
      return false;
    }
    const auto spent = static_cast<std::uint8_t>(faults + move.cost);
    const Index successor = visit(next, index, move, spent);
    if (first) visited_[index].calm = successor;
    first = false;
  }
  if (!first) return true;
  ++outcome_.ends;
  Node end = node;
  judge_end(end);
  if (end.broken) tell(index, nullptr, end.broken);
  return !end.broken;
}

Outcome Search::run() {
  Node first = first_node();
  visit(first, kNone, {}, 0);
  for (std::size_t faults = 0; faults <= most_faults_; ++faults) {
    std::vector<Waiting> now = std::move(waiting_[faults]);
    for (std::uint32_t depth = 1; !now.empty(); ++depth) {
      for (Waiting& waiting : now) {
        const Visited& its = visited_[waiting.index];
        if (its.expanded || its.faults != faults) continue;
        if (visited_.size() >= most_) {
          outcome_.complete = false;
        } else if (!expand(waiting)) {
          outcome_.states = visited_.size();
          return outcome_;
        }
        waiting.bytes = {};
      }
      if (!outcome_.complete) break;
      outcome_.depth = std::max(outcome_.depth, depth);
      now = std::move(waiting_[faults]);
      waiting_[faults].clear();
    }
    outcome_.states_by_faults.push_back(visited_.size());
  }
  outcome_.states = visited_.size();
  if (outcome_.complete) check_liveness();
  return outcome_;
}

// Every node has one calm successor: from each the end must come, so no circle is in that graph.
void Search::check_liveness() {
  constexpr std::uint32_t kUnknown = 0xffffffff, kOnTheWay = 0xfffffffe;
  std::vector<std::uint32_t> left(visited_.size(), kUnknown);
  std::vector<Index> way;
  for (Index from = 0; from < visited_.size(); ++from) {
    Index at = from;
    while (at != kNone && left[at] == kUnknown) {
      left[at] = kOnTheWay;
      way.push_back(at);
      at = visited_[at].calm;
    }
    if (at != kNone && left[at] == kOnTheWay) {
      return tell(from, nullptr, "nothing goes wrong any more, and the job never ends");
    }
    std::uint32_t moves_left = at == kNone ? 0 : left[at] + 1;
    for (; !way.empty(); way.pop_back()) left[way.back()] = moves_left++;
    outcome_.calm_moves = std::max(outcome_.calm_moves, left[from]);
  }
}

void Search::tell(Index last, const Move* move, const char* words) {
  outcome_.broken = words;
  std::vector<Move> all;
  for (Index at = last; visited_[at].parent != kNone; at = visited_[at].parent) {
    all.push_back(visited_[at].move);
  }
  std::reverse(all.begin(), all.end());
  if (move) all.push_back(*move);
  Node node = first_node();
  const auto say = [&](const Move& next) {
    const Node before = node;
    apply(node, next);
    outcome_.story.push_back(describe(before, next, node));
  };
  for (const Move& next : all) say(next);
  if (move || visited_[last].calm == kNone) return;
  outcome_.story.push_back("... and from here on, with nothing going wrong:");
  for (int i = 0; i < 40; ++i) {
    const std::vector<Move> next = moves(node, limits_);
    if (next.empty()) return;
    say(next.front());
  }
}

}  // namespace spotter::explore
