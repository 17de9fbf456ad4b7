// What the agents of a job have published in S3 (`publish:` of job.yaml), read by whoever may, from
// anywhere:
//
//   PREFIX/NAME[/INDEX]/status.json                  what the last agent said (wire/status.hpp)
//   PREFIX/NAME[/INDEX]/history/<ms>-<instance>.jsonl   each agent's moments (wire/history.hpp)
//   PREFIX/NAME[/INDEX]/metrics/<the same>.jsonl        and its learning curve (wire/curve.hpp)
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/s3/client.hpp"
#include "agent/wire/curve.hpp"
#include "agent/wire/history.hpp"

namespace spotter::command {

// Of the job, or of one experiment of a sweep.
struct Published {
  std::optional<std::size_t> experiment;
  std::string status;         // the object as it is; empty: there is none
  std::optional<double> age;  // its own, in seconds, by S3's clock: the machines' may be wrong
  wire::ReadHistory history;  // of all its agents, in the order in which they began
  wire::Curve curve;
  std::map<std::string, std::uint64_t> reached;  // by instance: the end of its own curve
  std::size_t foreign = 0;                       // lines of the curve that are none
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
