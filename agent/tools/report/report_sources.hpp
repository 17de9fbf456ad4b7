// Reads the input of a job's model: from the storage, if it is mounted, or from what the agents
// publish in S3.
#pragma once

#include <optional>
#include <string>

#include "agent/job/job.hpp"
#include "agent/report/model.hpp"

namespace spotter::command {

struct ReportPlace {
  std::optional<config::Job> job;
  // The job's home, a folder with the home under the job's name, a sweep's folder with its
  // experiments, or s3://bucket/prefix/NAME; empty: the job's own storage, or else where it
  // publishes.
  std::string from;
};

// All except prices (report_prices.hpp), for report::build(). Of a sweep all experiments. Reads the
// storage, which may hang, so agents must not call it. Fails without any history, with a message
// that says what to do. `warnings`: what could not be read.
Result<report::Input> read_input(const ReportPlace& place, std::vector<std::string>* warnings);

}  // namespace spotter::command
