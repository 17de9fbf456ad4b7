// Which places outlive the machine: under Spotter those on the job's storage, and no other.
#pragma once

#include <filesystem>

#include "agent/base/result.hpp"

namespace spotter::checkpoint {

// Fails where `place` is neither below $SPOTTER_STORAGE nor below $SPOTTER_CHECKPOINTS, and says
// what to do: a checkpoint there would be lost with the machine, and must not be called durable.
// Links are followed, and it need not exist yet. Without $SPOTTER_CHECKPOINTS there is no job, and
// each place is as good.
Result<void> is_on_storage(const std::filesystem::path& place);

}  // namespace spotter::checkpoint
