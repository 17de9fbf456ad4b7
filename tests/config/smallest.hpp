// The smallest job.yaml, and what is wrong with a larger one.
#pragma once

#include "agent/config/job.hpp"

namespace spotter::config {

inline const Environment as_root{
    .variables = {{"SPOTTER_MOUNT", "/data/mnt"}, {"WHO", "me"}}, .user = "root", .root = true};

inline std::string problems_of(std::string_view text, const Environment& environment = as_root) {
  const auto job = parse_job(text, environment);
  return job ? "" : describe(job.error(), "job.yaml");
}

inline constexpr std::string_view smallest = R"(job: small
storage: {ebs: {tag: {Name: v}}}
trainer: {command: ./train.sh}
)";

// The smallest job with more lines after its own three.
inline std::string smallest_and(std::string_view more) {
  return std::string(smallest) + std::string(more);
}

}  // namespace spotter::config
