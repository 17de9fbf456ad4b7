// A sweep on AWS Batch: what was submitted of it, and what has become of each set.
#pragma once

#include <string>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/job/index_list.hpp"
#include "agent/job/job.hpp"

namespace CLI {
class App;
}

namespace spotter::command {

// The list of sets is part of the name: another list is another sweep.
struct BatchSweep {
  config::Batch batch;
  std::size_t sets = 0;
  std::string name;  // of the jobs: <job>-<12 hexadecimal digits of the list's SHA-256>
};

// job.yaml's, with its sets fetched and checked. Fails without sweep.batch.
Result<BatchSweep> batch_sweep(const std::string& job_file);

// One SubmitJob, of all sets or of those that were tried again.
struct Submission {
  wire::BatchJob job;
  sweep::IndexList list;  // its array's children are these, in this order
};
// Was what has these tags made for a job of the same name on other storage? Then what to say, and
// nothing of it may be changed or ended.
std::string namesake(const std::string& what, const wire::BatchTags& its,
                     const wire::BatchTags& ours);

// The oldest first; none where there is no queue yet. Fails where one is a namesake's.
AwsResult<std::vector<Submission>> submissions(AwsCalls& calls, const BatchSweep& sweep);

struct SetState {
  std::string status;  // of AWS Batch; empty: never submitted
  std::string job;     // id, of a child with its index
  std::string reason;
  std::optional<int> exit_code;
};
// By index: of each set what its newest submission says.
AwsResult<std::vector<SetState>> states(AwsCalls& calls, const BatchSweep& sweep,
                                        const std::vector<Submission>& all);

// Submits these sets; all of them: `list` is 0 to sets - 1. The job's id. A lost answer is settled
// by looking whether there is one more submission than `before`.
AwsResult<std::string> submit_list(AwsCalls& calls, const BatchSweep& sweep,
                                   const sweep::IndexList& list, const std::string& definition,
                                   std::size_t before);
wire::BatchSubmission submission_of(const BatchSweep& sweep, const sweep::IndexList& list,
                                    const std::string& definition);

// Makes or updates what the jobs need, and says so on stderr; the definition's ARN.
AwsResult<std::string> prepare(AwsCalls& calls, const BatchSweep& sweep);

// submit, status, cancel and retry.
void add_batch(CLI::App& sweep, int& status);

}  // namespace spotter::command
