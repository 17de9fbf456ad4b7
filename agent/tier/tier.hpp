// The S3 tier of a trainer that writes folders and knows nothing of us: what `spotter tier` does,
// with the rights of the trainer's user. It reads what the guard recorded
// (<mount>/.spotter/checkpoints.json), and changes only the checkpoint directory and the bucket.
#pragma once

#include <optional>

#include "agent/aws/s3/client.hpp"
#include "agent/guard/place.hpp"

namespace spotter::tier {

struct Options {
  guard::Where where;
  wire::S3Location to;  // its key ends with a slash, or is empty
  std::string job;      // whose checkpoints these are
  s3::Settings s3;
};

// Copies the newest recorded folder to S3, and then the next one if a newer was recorded meanwhile.
// Returns the name of the last one; none: no folder is recorded. The guard calls it
// (guard/run.hpp).
Result<std::optional<std::string>> copy(const Options& options);

// Brings a whole folder from S3 to the directory, before the trainer starts, if it is newer than
// the newest recorded one. `say` gets sentences for a person. Returns the folder's name; none: the
// trainer goes on with what is there, or begins from scratch, as S3 has nothing either.
//
// The numbers in the names say which one is newer; if a name has none, the storage's own is taken
// if there is one. Fails if no folder is recorded and S3 cannot be read, or has only torn ones:
// nothing begins from scratch then.
Result<std::optional<std::string>> fetch(const Options& options,
                                         const std::function<void(const std::string&)>& say);

}  // namespace spotter::tier
