// What the agents of a job have published in S3 (`publish:` of job.yaml), read by whoever may, from
// anywhere:
//
//   PREFIX/NAME[/INDEX]/status.json                  what the last agent said (wire/status.hpp)
//   PREFIX/NAME[/INDEX]/history/<ms>-<instance>.jsonl   each agent's moments (wire/history.hpp)
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
  std::string status;         // the object as it is; empty: there is none
  std::optional<double> age;  // its own, in seconds, by S3's clock: the machines' may be wrong
  report::Source source;
};

enum class Wanted : std::uint8_t {
  Status,  // of the history only the newest agent's
  All,
};

// All that is below s3://bucket/prefix/NAME/, the job's own first, then by experiment; empty: there
// is nothing. Fails as S3 does; an object that goes away meanwhile is none.
s3::Outcome<std::vector<Published>> read_published(s3::Client& client,
                                                   const wire::S3Location& place, Wanted wanted);

}  // namespace spotter::command
