// `spotter sweep`: the experiments of a job.
#pragma once

#include "agent/aws/aws_calls.hpp"
#include "agent/config/index_list.hpp"
#include "agent/config/job.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

void add_results(CLI::App& sweep, int& status);  // sweep_results.cpp

}  // namespace spotter::command

// A sweep on AWS Batch: its submissions, and the state of each set.

namespace spotter::command {

// The list of sets is part of the name: another list makes another sweep.
struct BatchSweep {
  config::Batch batch;
  std::size_t sets = 0;
  std::string name;    // of the jobs: <job>-<12 hexadecimal digits of the list's SHA-256>
  std::string region;  // empty: the one that AWS_REGION names
};

// A job.yaml that has sweep.batch; fails without it.
Result<config::Job> batch_job(const std::string& job_file);

// The sweep of job.yaml, with its sets fetched and checked. Fails without sweep.batch.
Result<BatchSweep> batch_sweep(const std::string& job_file);

// One SubmitJob, of all sets or of those to retry.
struct Submission {
  wire::BatchJob job;
  sweep::IndexList list;  // the sets of its array's children, in this order
};
// If these tags are of a job of the same name on other storage, returns a message; the thing must
// then not be changed or ended. Empty: it is not a namesake's.
std::string namesake(const std::string& what, const wire::BatchTags& its,
                     const wire::BatchTags& ours);

// The oldest first; empty if there is no queue yet. Fails if one is a namesake's.
Result<std::vector<Submission>, CallError> submissions(AwsCalls& calls, const BatchSweep& sweep);

struct SetState {
  std::string status;  // of AWS Batch; empty: never submitted
  std::string job;     // id, of a child with its index
  std::string reason;
  std::optional<int> exit_code;
};
// The state of each set, by index, from its newest submission.
Result<std::vector<SetState>, CallError> states(AwsCalls& calls, const BatchSweep& sweep,
                                                const std::vector<Submission>& all);

// Submits these sets (all of them: 0 to sets - 1) and returns the job's id. After a lost answer it
// checks whether there is one more submission than `before`.
Result<std::string, CallError> submit_list(AwsCalls& calls, const BatchSweep& sweep,
                                           const sweep::IndexList& list,
                                           const std::string& definition, std::size_t before);
wire::BatchSubmission submission_of(const BatchSweep& sweep, const sweep::IndexList& list,
                                    const std::string& definition);

// Makes or updates what the jobs need, and prints that to stderr; returns the definition's ARN.
Result<std::string, CallError> prepare(AwsCalls& calls, const BatchSweep& sweep);

// Adds submit, status, cancel, retry and image.
void add_batch(CLI::App& sweep, int& status);

// The image of a sweep on AWS Batch: what puts it into ECR.

// The commands of docker (podman takes the same words) and `aws` that make an image and put it
// where `sweep.batch.image` says, a line each, with comments; whoever runs them does so in two
// folders. Fails unless that is a name with a tag at a registry of ECR.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/docker-push-ecr-image.html
Result<std::string> image_commands(std::string_view image);

}  // namespace spotter::command
