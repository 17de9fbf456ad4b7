// Whether this Spotter may work on a storage: asked before anything is written there.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "agent/host/failure.hpp"

namespace spotter::act::host {

// Looks at the version of all that is kept in a home: the record of the storage, the ledger, the
// record of finished files, history, learning curve, and the newest checkpoint in each of
// `directories`. Fails for what a newer Spotter wrote; what is absent, damaged or cannot be read is
// its reader's to say. Kind: "newer-format".
Result<void> check_formats(const std::filesystem::path& home,
                           const std::vector<std::string>& directories);

}  // namespace spotter::act::host
