// AWS Batch: values -> requests, answers -> values. REST-JSON: POST /v1/ACTION. No I/O.
//
// A decoder skips what it does not know, and fails on an answer that is no JSON object or lacks
// what it needs. Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_Operations.html
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/aws/formats/batch_values.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/base/result.hpp"

namespace spotter::wire {

struct BatchCall {
  std::string action;  // SubmitJob
  std::string body;    // a JSON object
  Repeatable repeatable = Repeatable::Read;
};

std::string path_of(const BatchCall& call);  // /v1/submitjob
// The same for a person's shell: aws batch submit-job --cli-input-json '{...}'
std::string command_of(const BatchCall& call);

BatchCall create(const BatchEnvironment& environment);
// Of what differs, and of nothing else: some settings Batch changes only by replacing the hosts,
// and some only where it works with its own role.
// https://docs.aws.amazon.com/batch/latest/userguide/updating-compute-environments.html
BatchCall update(const BatchEnvironment& environment, const BatchResource& there);
BatchCall create(const BatchQueue& queue);
BatchCall update(const BatchQueue& queue, const BatchResource& there);
// Tries again when the host was reclaimed or the program exits with interrupted_exit_code, never
// when it failed by itself.
BatchCall register_definition(const BatchDefinition& definition);
BatchCall submit(const BatchSubmission& submission);
BatchCall terminate(const std::string& job, const std::string& reason);

BatchCall describe_environment(const std::string& name);
BatchCall describe_queue(const std::string& name);
BatchCall describe_definitions(const std::string& name);  // the active ones
BatchCall describe_jobs(const std::vector<std::string>& ids);
// Of any status, the newest first. `name` may end in '*'.
BatchCall list_jobs(const std::string& queue, const std::string& name, const std::string& token);
BatchCall list_children(const std::string& array, const std::string& status,
                        const std::string& token);

// Nothing: there is none of that name.
Result<std::optional<BatchResource>> decode_environment(std::string_view json,
                                                        const BatchEnvironment& wanted);
Result<std::optional<BatchResource>> decode_queue(std::string_view json, const BatchQueue& wanted);
// The ARN of the newest revision, where that is as wanted; else empty.
Result<std::string> decode_definition(std::string_view json, const BatchDefinition& wanted);
Result<std::string> decode_registered(std::string_view json);  // the ARN
Result<std::string> decode_submitted(std::string_view json);   // the job's id
Result<std::vector<BatchJob>> decode_jobs(std::string_view json);
Result<Page<BatchJob>> decode_job_list(std::string_view json);

}  // namespace spotter::wire
