#include "agent/guard/recover.hpp"

#include <algorithm>

namespace spotter::guard {
namespace {

using What = Difference::What;

bool is_there(const Difference& one) { return one.what != What::Missing; }

// Companions follow; but for one that has lost what it said.
bool speaks_against(const Difference& one) {
  if (one.companion) return one.what == What::Changed && one.proof == Proof::Torn;
  return is_there(one) && one.proof != Proof::Whole;
}

// A trainer that ended by itself meant what it left, and so did a person.
Plan take_up(const std::vector<Difference>& differences) {
  Plan plan;
  for (const Difference& one : differences) {
    const bool torn = is_there(one) && one.proof == Proof::Torn && !one.companion;
    (torn ? plan.away : plan.taken).push_back(one.name);
    if (torn && plan.why.empty()) plan.why = one.name + ": " + one.why;
  }
  plan.back = !plan.away.empty();
  return plan;
}

std::string reason(const std::vector<Difference>& differences) {
  const auto torn = std::ranges::find(differences, Proof::Torn, &Difference::proof);
  if (torn != differences.end()) return torn->name + ": " + torn->why;
  const auto unknown = std::ranges::find_if(differences, speaks_against);
  if (unknown != differences.end())
    return unknown->name + " was not finished when its trainer ended";
  return "the trainer ended between two files of one save";
}

}  // namespace

Plan plan(const std::vector<Difference>& differences, End end, bool complete) {
  if (end == End::Unwatched || end == End::Finished || end == End::Stopped)
    return take_up(differences);
  const bool news = std::ranges::any_of(
      differences, [](const Difference& one) { return is_there(one) && !one.companion; });
  // It removes the last one before it writes the next.
  const bool lost = !news && std::ranges::any_of(differences, [](const Difference& one) {
    return !is_there(one) && one.newest;
  });
  if (!lost && (complete || !news) && std::ranges::none_of(differences, speaks_against))
    return take_up(differences);
  // The set before the one that was being written may be whole, and not recorded yet. A companion
  // that names the newest may have been written for either.
  const bool named = std::ranges::any_of(
      differences, [](const Difference& one) { return one.companion && is_there(one); });
  const bool written_over = std::ranges::any_of(differences, [](const Difference& one) {
    return one.current && one.what == What::Changed && !one.companion;
  });
  const bool older =
      !named && !written_over && std::ranges::any_of(differences, [](const Difference& one) {
        return !one.current && is_there(one);
      });
  const bool whole = older && std::ranges::none_of(differences, [](const Difference& one) {
                       return !one.current && speaks_against(one);
                     });
  Plan plan;
  plan.back = true;
  plan.why = reason(differences);
  for (const Difference& one : differences) {
    if (!is_there(one)) continue;  // it may have been removed after that set
    const bool taken = whole && !one.current && !one.companion;
    (taken ? plan.taken : plan.away).push_back(one.name);
  }
  return plan;
}

}  // namespace spotter::guard
