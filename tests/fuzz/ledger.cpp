// The ledger on the volume, which a damaged disk or another program may have changed.
#include "agent/host/ledger.hpp"

#include <cmath>

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  const auto ledger = act::host::parse_ledger(bytes);
  if (!ledger) return;
  for (const double amount : {ledger->seconds, ledger->dollars, ledger->stall}) {
    must(std::isfinite(amount) && amount >= 0, "an amount is a number, not below zero");
  }
  const std::string printed = to_json(*ledger);
  const auto again = act::host::parse_ledger(printed);
  must(again && to_json(*again) == printed, "a ledger printed reads the same");
}

}  // namespace spotter::fuzz
