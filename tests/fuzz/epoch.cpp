// The object of a fence in S3, which whoever may write to the bucket may have changed.
#include "agent/wire/head.hpp"

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  const auto epoch = wire::parse_epoch(bytes);
  if (!epoch) return;
  must(epoch->number > 0 && epoch->number + 1 > epoch->number, "the next epoch has a number");
  must(!epoch->line.empty() && !epoch->volume.empty() && !epoch->holder.empty(),
       "an epoch names a line, a volume and a holder");
  const std::string printed = wire::to_json(*epoch);
  const auto again = wire::parse_epoch(printed);
  must(again && wire::to_json(*again) == printed, "an epoch printed reads the same");
}

}  // namespace spotter::fuzz
