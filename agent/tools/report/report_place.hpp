// Which job a person wants to see, of what they say on the command line.
#pragma once

#include <string>

#include "agent/tools/report/report_sources.hpp"

namespace spotter::command {

struct JobToShow {
  std::string job;      // its description, or its name; empty: job.yaml here, or the service's
  std::string from;     // as ReportPlace has it
  std::string publish;  // s3://bucket/prefix, where its agents publish
};

// job.yaml; what an agent may do on this machine is of no concern, nothing is run. Fails with all
// its mistakes.
Result<config::Job> read_description(const std::string& file);

// A folder may be called as a job is.
bool is_a_file(const std::string& path);

// Reads the description. Fails in words that say what to name.
Result<ReportPlace> place_of(const JobToShow& options);

}  // namespace spotter::command
