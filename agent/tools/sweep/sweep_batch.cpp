#include "agent/tools/sweep/sweep_batch.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/pages.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/launch/requests.hpp"
#include "agent/sweep/sweep_sets.hpp"
#include "agent/tools/jobs/fleets.hpp"

namespace spotter::command {
namespace {

constexpr std::size_t described_at_once = 100;    // DescribeJobs
constexpr std::size_t payload_limit = 30 * 1024;  // of SubmitJob
// https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
constexpr std::chrono::seconds settling{3};  // before a submitted job is listed

// Fetches all pages; `request` makes the request for a token.
template <class MakeRequest>
Result<std::vector<wire::BatchJob>, CallError> all_jobs(AwsCalls& calls, MakeRequest request) {
  return calls.all_pages<wire::BatchJob>("ListJobs", [&](const std::string& token) {
    return calls.ask(request(token), wire::decode_job_list);
  });
}

Result<sweep::IndexList> list_of(const wire::BatchJob& job, const BatchSweep& sweep) {
  const auto given = job.environment.find(sweep::indices_variable);
  auto list = sweep::all_indices(std::max<std::size_t>(1, job.size));
  if (given != job.environment.end()) {
    auto parsed = sweep::parse_index_list(given->second);
    if (!parsed) return failure("job " + job.id + ": " + parsed.error().message);
    list = std::move(*parsed);
  }
  if (list.of == sweep.sets && list.indices.size() == std::max<std::size_t>(1, job.size))
    return list;
  return failure("job " + job.id + " was submitted with " + std::to_string(list.of) +
                 " sets, and the list has " + std::to_string(sweep.sets));
}

SetState state_of(const wire::BatchJob& job) {
  return {job.status, job.id, job.reason, job.exit_code};
}

}  // namespace

Result<config::Job> batch_job(const std::string& job_file) {
  auto job = config::load_job(job_file, config::Environment::of_process());
  if (!job) {
    std::string text = config::describe(job.error(), job_file);
    while (text.ends_with('\n')) text.pop_back();
    return failure(std::move(text));
  }
  if (!job->sweep) return failure(job_file + " has no `sweep:`");
  if (!job->sweep->batch) return failure(job_file + " has no `sweep.batch:`");
  return std::move(*job);
}

Result<BatchSweep> batch_sweep(const std::string& job_file) {
  const auto job = batch_job(job_file);
  if (!job) return tl::unexpected(job.error());
  const auto sets = sets_of(*job);
  if (!sets) return failure(sets.error().message);
  if (sets->empty()) return failure(job_file + ": the sweep has no sets");
  std::string text;
  for (const auto& set : *sets) text += sweep::to_json(set) + "\n";
  return BatchSweep{*job->sweep->batch, sets->size(),
                    job->name.str() + "-" + wire::sha256_hex(text).substr(0, 12),
                    job->launch ? job->launch->region : ""};
}

std::string namesake(const std::string& what, const wire::BatchTags& its,
                     const wire::BatchTags& ours) {
  using wire::value_of;
  const std::string theirs = value_of(its, tag::storage);
  const std::string mine = value_of(ours, tag::storage);
  const std::string name = value_of(ours, tag::job);
  // Without the tag it is older than the tag.
  if (theirs.empty() || mine.empty() || theirs == mine || value_of(its, tag::job) != name)
    return {};
  return two_jobs(name, mine, theirs, "the " + what);
}

Result<std::vector<Submission>, CallError> submissions(AwsCalls& calls, const BatchSweep& sweep) {
  const wire::BatchQueue& queue = sweep.batch.queue;
  const auto there = calls.ask(wire::describe_queue(queue.name), wire::decode_queue, queue);
  if (!there) return tl::unexpected(there.error());
  std::vector<Submission> found;
  if (!*there) return found;
  const auto listed = all_jobs(calls, [&](const std::string& token) {
    return wire::list_jobs(queue.name, sweep.name, token);
  });
  if (!listed) return tl::unexpected(listed.error());
  for (std::size_t first = 0; first < listed->size(); first += described_at_once) {
    std::vector<std::string> ids;
    for (std::size_t i = first; i < std::min(first + described_at_once, listed->size()); ++i)
      ids.push_back((*listed)[i].id);
    auto jobs = calls.ask(wire::describe_jobs(ids), wire::decode_jobs);
    if (!jobs) return tl::unexpected(jobs.error());
    for (auto& job : *jobs) {
      const auto foreign = namesake("sweep " + job.id, job.tags, sweep.batch.definition.tags);
      if (!foreign.empty()) return failed(foreign);
      auto list = list_of(job, sweep);
      if (!list) return failed(list.error().message);
      found.push_back({std::move(job), std::move(*list)});
    }
  }
  std::ranges::stable_sort(found, {}, [](const Submission& it) { return it.job.created; });
  return found;
}

Result<std::vector<SetState>, CallError> states(AwsCalls& calls, const BatchSweep& sweep,
                                                const std::vector<Submission>& all) {
  std::vector<SetState> result(sweep.sets);
  for (const auto& [job, list] : all) {
    for (const auto index : list.indices) result[index] = state_of(job);
    for (const auto& [status, many] : job.children) {
      if (many == 0) continue;
      const auto children = all_jobs(calls, [&, id = job.id, what = status](const auto& token) {
        return wire::list_children(id, what, token);
      });
      if (!children) return tl::unexpected(children.error());
      for (const wire::BatchJob& child : *children)
        if (child.index && *child.index < list.indices.size())
          result[list.indices[*child.index]] = state_of(child);
    }
  }
  return result;
}

wire::BatchSubmission submission_of(const BatchSweep& sweep, const sweep::IndexList& list,
                                    const std::string& definition) {
  wire::BatchSubmission submission{.name = sweep.name,
                                   .queue = sweep.batch.queue.name,
                                   .definition = definition,
                                   .size = list.indices.size(),
                                   .tags = sweep.batch.definition.tags};
  // In an array of all sets each child has its set's index already.
  if (list.indices.size() < sweep.sets || sweep.sets == 1)
    submission.environment[sweep::indices_variable] = sweep::to_text(list);
  return submission;
}

Result<std::string, CallError> submit_list(AwsCalls& calls, const BatchSweep& sweep,
                                           const sweep::IndexList& list,
                                           const std::string& definition, std::size_t before) {
  const auto call = wire::submit(submission_of(sweep, list, definition));
  if (call.body.size() > payload_limit)
    return failed("the list of indices is longer than AWS Batch takes (30 KiB)");
  auto id = calls.ask(call, wire::decode_submitted);
  if (id || !id.error().unsettled()) return id;
  std::this_thread::sleep_for(settling);
  const auto now = submissions(calls, sweep);
  if (now && now->size() > before) return now->back().job.id;
  return failed(id.error().message + "; see `spotter sweep status` before another try");
}

}  // namespace spotter::command
