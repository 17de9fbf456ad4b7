#include "agent/launch/efa.hpp"

#include <algorithm>

namespace spotter::launch {

Interfaces interfaces_of(const wire::TypeSize& type) {
  const std::uint64_t most = type.efas.value_or(0);
  if (most == 0) return {};
  std::vector<std::uint64_t> cards = type.cards;
  if (cards.empty()) cards.push_back(0);
  std::ranges::sort(cards);
  Interfaces made;
  // With a card more than EFAs, as p6-b300.48xlarge has, the first card has none.
  if (cards.size() == most + 1) {
    made.push_back({cards.front(), "interface"});
    cards.erase(cards.begin());
  }
  for (const std::uint64_t card : cards) {
    if (count_efas(made) == most) break;
    made.push_back({card, made.empty() ? "efa" : "efa-only"});
  }
  return made;
}

Result<Interfaces> shared_interfaces(const std::vector<wire::TypeSize>& types) {
  Interfaces shared;
  std::string names;
  for (const wire::TypeSize& it : types) {
    Interfaces own = interfaces_of(it);
    if (&it == &types.front()) shared = own;
    const auto [end, other] = std::ranges::mismatch(shared, own);
    shared.erase(end, shared.end());
    names += (names.empty() ? "" : ", ") + it.type.str();
  }
  if (count_efas(shared) > 0) return shared;
  return failure("no network interface with EFA fits each of " + names);
}

std::size_t count_efas(const Interfaces& interfaces) {
  return static_cast<std::size_t>(std::ranges::count_if(
      interfaces, [](const Interface& it) { return it.type.starts_with("efa"); }));
}

}  // namespace spotter::launch
