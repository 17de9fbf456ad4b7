// By when a job is to have finished, as job.yaml says it:
//
//   finish_by: 2026-12-04T18:00Z     or within: 36h, from the first launch
//   limits: {dollars: 50, gives_way: deadline | dollars}
//   launch: {on_demand: when-needed, work: 40h, start: 15m}
//
// Apart from Job: `spotter watch` and `spotter plan` keep it, and who shows it reads it.
#pragma once

#include "agent/base/clock_text.hpp"
#include "agent/config/job.hpp"

namespace spotter::config {

class Reader;
struct Node;

struct Deadline {
  std::optional<wire::WallTime> finish_by;
  std::optional<Duration> within;
  // The time that all of the training takes, until its own pace is known; and that of a start, from
  // the request to the first new step, with a move of the volume.
  std::optional<Duration> work, start;
  std::optional<double> dollars;  // limits.dollars
  // The limit that gives way when deadline and dollars cannot both be kept.
  enum class GivesWay : std::uint8_t { Deadline, Dollars } gives_way = GivesWay::Deadline;

  bool is_set() const { return finish_by || within; }
};

// Its keys, of all of job.yaml, with what is wrong with them.
Deadline read_deadline(Reader& reader, const Node& root);
// Checks that involve other parts of the job; where the dollars give way they are no limit of the
// job any more.
void check_deadline(Reader& reader, const Node& root, const Deadline& deadline, Job& job);

// Reads a file that load_job() has read without a problem.
Result<Deadline> load_deadline(const std::string& path);

}  // namespace spotter::config
