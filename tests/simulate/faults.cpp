#include "tests/simulate/faults.hpp"

#include <array>

namespace spotter::simulate {

std::string_view name(Fault fault) {
  constexpr std::array<std::string_view, kFaults> names = {"notice",
                                                           "short-notice",
                                                           "kill",
                                                           "withdrawal",
                                                           "stop",
                                                           "hibernate",
                                                           "failed-termination",
                                                           "rebalance",
                                                           "notice-at-finish",
                                                           "agent-kill",
                                                           "metadata-broken",
                                                           "metadata-slow",
                                                           "clock-step",
                                                           "throttled",
                                                           "denied",
                                                           "dry-run",
                                                           "zone-closes",
                                                           "all-zones-close",
                                                           "attach-hangs",
                                                           "attach-busy",
                                                           "detach-hangs",
                                                           "device-absent",
                                                           "late-device",
                                                           "other-name",
                                                           "slow-snapshots",
                                                           "hour-snapshots",
                                                           "snapshot-error",
                                                           "snapshot-recoverable",
                                                           "volume-error",
                                                           "key-forbidden",
                                                           "overlap",
                                                           "raised-target",
                                                           "fleet-of-many",
                                                           "second-volume",
                                                           "volume-deleted",
                                                           "untagged-blank",
                                                           "foreign-disk",
                                                           "git-unreachable",
                                                           "revision-gone",
                                                           "disk-full",
                                                           "disk-read-only",
                                                           "dirty-log",
                                                           "sync-fails",
                                                           "crashes",
                                                           "no-result",
                                                           "hangs",
                                                           "deaf",
                                                           "unaware",
                                                           "mute",
                                                           "permanent-crash",
                                                           "hours-limit",
                                                           "dollars-limit"};
  static_assert(!names.back().empty());
  return names[static_cast<std::size_t>(fault)];
}

}  // namespace spotter::simulate
