// The learning curve beside the result: `metrics.jsonl` in the job's or the experiment's home.
#pragma once

#include <sys/types.h>
#include <cstdint>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "agent/host/failure.hpp"
#include "agent/wire/curve.hpp"

namespace spotter::act::host {

inline constexpr std::size_t metrics_limit = 8U << 20;  // of the file: 4096 points, each with all

// New lines (wire/curve.hpp) join those of `path`, a few thousand at most: a long job's are thinned
// evenly. What the file has of steps after `resumed`, or after the first new one, is left out: it
// was trained in vain. The file is replaced as a whole and durable, with this mode. A file that is
// not just as Spotter writes it (a trainer's own, a larger one than any of ours) is first moved
// aside to `path`.before; the answer says so, and is empty else. Kinds: "layout-unusable" where one
// lies there already, "newer-format", those of fail_errno.
Result<std::string> keep_metrics(const std::filesystem::path& path, std::string_view lines,
                                 std::optional<std::uint64_t> resumed, mode_t mode = 0644);

// Empty where there is none, or it cannot be read.
wire::Curve read_metrics(const std::filesystem::path& path);

}  // namespace spotter::act::host
