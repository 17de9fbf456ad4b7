// `sweep:` of job.yaml: the list of experiments.
#pragma once

#include "agent/config/parameters.hpp"
#include "agent/config/reader.hpp"

namespace spotter::config {

// {parameters: s3://bucket/list.yml | ./list.yml | [{lr: 0.1}, ...]}, or {grid: {lr: [0.1, 0.2],
// ...}}, or {random: {sets: 20, seed: 7, parameters: {lr: {log_uniform: [1e-4, 0.1]}, ...}}}.
void read_sweep(Reader& reader, const Node& node, const std::string& path, Sweep& sweep);

// {metric: val_loss, mode: min}; without a mode where the metric's name says it.
// `metric`: how it may be called.
Reader::Take objective(Reader& reader, std::optional<sweep::Objective>& objective,
                       const Scalar<std::string>& metric);

// Parses a YAML (or JSON) list of maps. Fails for one that is empty or has more than
// sweep::most_sets.
Result<std::vector<sweep::Set>, std::vector<Problem>> parse_sets(std::string_view text);
// The same for a job's list, which came from `source`; also checks that each set has what the
// trainer's command needs. The one message names every mistake.
Result<std::vector<sweep::Set>> read_sets(std::string_view text, const std::string& source,
                                          const Trainer& trainer);
inline constexpr std::size_t sets_size_limit = 4U << 20;
inline constexpr std::size_t sets_expanded_limit = 64U << 20;

}  // namespace spotter::config
