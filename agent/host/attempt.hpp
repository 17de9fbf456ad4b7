// If several machines may take up the same work, each of them works in a folder of its own:
//
//   <home>/attempt-<token>/   one machine's: checkpoints, result, ledger
//   <home>/DONE, model, ...   links into the attempt whose result counts
//
// A machine that was thought dead writes to its own attempt, where nobody looks any more.
#pragma once

#include "agent/host/verb.hpp"

namespace spotter::act::host {

// The newest attempt before `token`; empty: there is none.
Result<std::string> find_parent(const std::filesystem::path& home, std::uint64_t token);

// Makes `<home>/<attempt>` as a copy of `<home>/<parent>` (empty: of what ran there before there
// were claims, if anything did), which appears whole or not at all; one that is there already is
// left as it is. Code and the channels' data are not copied: they can be had again. The ledger's
// hours and dollars go on, its failures do not. Removes the attempts before the parent: they will
// not be asked for again.
Result<void> begin_attempt(const std::filesystem::path& home, const std::string& attempt,
                           const std::string& parent);

// `attempt` has the result that counts: links to what is in it, and the other attempts are removed.
// Safe to repeat.
Result<void> publish_attempt(const std::filesystem::path& home, const std::string& attempt);

}  // namespace spotter::act::host
