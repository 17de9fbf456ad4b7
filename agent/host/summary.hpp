// The outcome of an experiment, by its folder on the storage.
#pragma once

#include <filesystem>
#include <optional>

#include "agent/sweep/summary.hpp"

namespace spotter::act::host {

// `folder`: `<job>/<index>` on the storage, the experiment's home itself or one with a home
// `attempt-<token>` for each claim. Touches the storage, which may hang. Whoever publishes says its
// own token as `winner`; later ones then do not count. Without it the winner is where `DONE` leads,
// or the newest. Fails when the folder is there and cannot be read.
Result<sweep::Summary> summary_of(const std::filesystem::path& folder, std::size_t index,
                                  sweep::Set parameters, std::optional<std::uint64_t> winner = {});

}  // namespace spotter::act::host
