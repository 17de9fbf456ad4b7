// The ledger on the volume, which a damaged disk or another program may have changed.
#include "agent/wire/ledger.hpp"

#include <cmath>

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  const auto file = wire::parse_ledger(bytes);
  if (!file) return;
  const decide::Ledger& ledger = file->ledger;
  for (const double amount : {ledger.seconds, ledger.dollars, ledger.stall}) {
    must(std::isfinite(amount) && amount >= 0, "an amount is a number, not below zero");
  }
  const std::string printed = to_json(*file);
  const auto again = wire::parse_ledger(printed);
  must(again && to_json(*again) == printed, "a ledger printed reads the same");
}

}  // namespace spotter::fuzz
