// The role that the trainer has credentials of: `trainer.role` of job.yaml, and its default.
#pragma once

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/config/job.hpp"

namespace spotter::config {

// Stands for the instances' own role, which may delete the job's volumes.
inline constexpr const char* instances_role = "instance";

inline bool has_instances_role(const Trainer& trainer) { return trainer.role == instances_role; }

// The name or ARN of the trainer's own role: the one in job.yaml, else by convention the name of
// the instances' role followed by "-trainer". REQUIRES: it has not the instances' own role.
inline std::string trainers_role(const Trainer& trainer, const std::string& instances) {
  return trainer.role.empty() ? instances + "-trainer" : trainer.role;
}

// The ARN of the trainer's role, by default in the account and after the name of `who`. Empty: we
// have no role, and job.yaml names none. REQUIRES: the trainer has not the instance's own role.
std::string trainers_role_arn(const Trainer& trainer, const wire::CallerIdentity& who);

// The places in S3 that the trainer uses, as job.yaml names them: all objects whose keys begin with
// that key, which ends with a slash or is empty where the trainer writes.
struct TrainersPlaces {
  std::vector<wire::S3Location> read;
  std::vector<wire::S3Location> manifests;    // of channels: these objects alone
  std::vector<wire::S3Location> checkpoints;  // and whatever else it writes
  std::vector<wire::S3Location> gang;         // the record
};
TrainersPlaces trainers_places(const Job& job);

// Many jobs have the same role by default, so its policies are all of theirs. A session policy
// leaves each job's trainer, of S3, what its own job.yaml names, and of all else what the role has.
// If the places are too many for a session, it may read the folders above them, but none in which
// the job writes; fails if these are too many, too.
// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
Result<std::string> session_policy(const Job& job, std::string_view partition);

}  // namespace spotter::config
