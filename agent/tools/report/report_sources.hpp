// Where the model of a job is read from: the storage, where it is mounted, or what the agents
// publish in S3.
#pragma once

#include <optional>
#include <string>

#include "agent/job/job.hpp"
#include "agent/report/model.hpp"

namespace spotter::command {

struct ReportPlace {
  std::optional<config::Job> job;
  // The job's home, a folder that has it under the job's name, a sweep's folder with one of each
  // experiment, or s3://bucket/prefix/NAME; empty: the job's own storage, or else where it is
  // published.
  std::string from;
};

// All but the prices (report_prices.hpp); report::build() makes the model of it. Of a sweep all of
// its experiments. Touches the storage, which may hang: this is no agent. Fails where there is no
// history, in words that say what to do. `warnings`: what was there and could not be read.
Result<report::Told> told_by(const ReportPlace& place, std::vector<std::string>* warnings);

}  // namespace spotter::command
