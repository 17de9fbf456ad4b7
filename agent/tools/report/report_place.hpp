// Finds the job to show from the command line.
#pragma once

#include <string>

#include "agent/tools/report/report_sources.hpp"

namespace spotter::command {

struct JobToShow {
  std::string job;      // its file, or its name; empty: job.yaml here, or the service's
  std::string from;     // see ReportPlace
  std::string publish;  // s3://bucket/prefix, where its agents publish
};

// The named file; without one job.yaml here, or the service's; "": there is none.
std::string job_file(const JobToShow& options);

// Parses job.yaml without what concerns an agent on this machine, as nothing is run. Fails with all
// its mistakes.
Result<config::Job> read_description(const std::string& file);

// Distinguishes a job's file from a folder of the job's name.
bool is_a_file(const std::string& path);

// Reads the job's file. Fails with a message that says which option is missing.
Result<ReportPlace> place_of(const JobToShow& options);

}  // namespace spotter::command
