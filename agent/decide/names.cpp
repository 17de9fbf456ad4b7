#include <array>

#include "agent/decide/describe.hpp"

namespace spotter::decide {
namespace {

// In the order of the variants' alternatives (tests/decide checks that none is missing).
constexpr std::array<std::string_view, std::variant_size_v<Stage>> kStages = {
    "booting",          "looking-around",   "identifying",
    "reading-fleet",    "surveying",        "waiting",
    "blocked",          "attaching",        "claiming",
    "finding-device",   "inspecting",       "formatting",
    "mounting",         "reading-ledger",   "verifying",
    "preparing",        "snapshotting",     "creating-candidate",
    "marking-verified", "committing",       "promoting",
    "discarding",       "writing-epoch",    "releasing-epoch",
    "awaiting-gpus",    "preparing-data",   "counting-attempt",
    "fetching-code",    "starting-trainer", "filling",
    "marking-prepared", "training",         "stopping",
    "securing",         "closing-ledger",   "unmounting",
    "final-snapshot",   "detaching",        "releasing",
    "releasing-data",   "released",         "giving-back",
    "marking-done",     "tidying",          "cancelling-fleet",
    "scaling-to-zero",  "finished",         "gave-up",
    "leaving"};

constexpr std::array<std::string_view, std::variant_size_v<Happening>> kHappenings = {
    "started",
    "woke",
    "notice-seen",
    "notice-withdrawn",
    "rebalance-recommended",
    "trainer-progressed",
    "trainer-resumed",
    "checkpoint-made",
    "home-kept",
    "trainer-ended",
    "ruled-out",
    "stop-requested",
    "host-looked",
    "identity-read",
    "fleet-read",
    "storage-surveyed",
    "call-accepted",
    "epoch-written",
    "snapshot-started",
    "volume-created",
    "device-found",
    "disk-inspected",
    "filesystem-made",
    "mounted",
    "unmounted",
    "ledger-read",
    "ledger-written",
    "storage-synced",
    "checkpoints-verified",
    "gpus-found",
    "code-fetched",
    "volume-filled",
    "trainer-started",
    "effect-failed"};

constexpr std::array<std::string_view, std::variant_size_v<Command>> kCommands = {
    "look-at-host",
    "read-identity",
    "read-fleet",
    "survey-storage",
    "attach-volume",
    "detach-volume",
    "claim-volume",
    "create-snapshot",
    "create-volume",
    "mark-verified",
    "promote-volume",
    "mark-done",
    "mark-prepared",
    "write-epoch",
    "delete-volume",
    "delete-snapshot",
    "cancel-fleet",
    "scale-fleet-to-zero",
    "give-back-instance",
    "leave-fleet",
    "complete-lifecycle",
    "find-device",
    "inspect-disk",
    "make-filesystem",
    "mount",
    "unmount",
    "prepare-share",
    "release-share",
    "prepare-data",
    "release-data",
    "read-ledger",
    "write-ledger",
    "sync-storage",
    "verify-checkpoints",
    "await-gpus",
    "fetch-code",
    "fill-volume",
    "start-trainer",
    "pace-trainer",
    "stop-trainer",
    "kill-trainer",
    "abandon",
    "exit"};

}  // namespace

std::string_view name(const Stage& stage) { return kStages[stage.index()]; }
std::string_view name(const Happening& happening) { return kHappenings[happening.index()]; }
std::string_view name(const Command& command) { return kCommands[command.index()]; }

}  // namespace spotter::decide
