// Reads what a job's agents publish in S3 (`publish:` of job.yaml), from any machine with
// permission:
//
//   PREFIX/NAME[/INDEX]/status.json                  the last agent's status (wire/status.hpp)
//   PREFIX/NAME[/INDEX]/history/<ms>-<instance>.jsonl   each agent's entries (wire/history.hpp)
//   PREFIX/NAME[/INDEX]/metrics/<the same>.jsonl        and its learning curve (wire/curve.hpp)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/aws/s3/client.hpp"
#include "agent/report/model.hpp"

namespace spotter::command {

// Of the job, or of one experiment of a sweep.
struct Published {
  std::string status;         // the object's content; empty: there is none
  std::optional<double> age;  // the object's, in seconds by S3's clock, as machines' may be wrong
  report::Source source;
};

enum class Wanted : std::uint8_t {
  Status,  // only the newest agent's history
  All,
};

// All that is below s3://bucket/prefix/NAME/, the job's own first, then by experiment; empty: there
// is nothing. Fails as S3 does; an object that goes away meanwhile is none.
Result<std::vector<Published>, s3::Failure> read_published(s3::Client& client,
                                                           const wire::S3Location& place,
                                                           Wanted wanted);

}  // namespace spotter::command
