#include "agent/config/experiment.hpp"

#include <algorithm>

#include "agent/aws/formats/s3.hpp"

namespace spotter::command {
namespace {

constexpr const char* own_variable = "SPOTTER_EXPERIMENT";
constexpr const char* attempt_variable = "SPOTTER_ATTEMPT";
// After that another machine tries.
constexpr int tries_of_an_attempt = 2;

tl::unexpected<std::vector<config::Problem>> problem(std::string message) {
  return tl::unexpected(std::vector{config::Problem{.message = std::move(message)}});
}

Result<sweep::ArrayIndex> index_of(const sweep::Variable& variable) {
  if (const std::string own = variable(own_variable); !own.empty()) {
    const auto index = wire::parse_count(own);
    if (!index) return failure(std::string(own_variable) + "='" + own + "' is no number");
    return sweep::ArrayIndex{own_variable, *index, {}};
  }
  auto array = TRY(sweep::array_index(variable));
  if (array) return std::move(*array);
  return failure(
      "the job has a sweep, but nothing says which experiment this is: run it in an array of AWS "
      "Batch, Slurm or Kubernetes, on a fleet with `claims:`, or set SPOTTER_EXPERIMENT (`spotter "
      "sweep expand` lists them)");
}

// Slurm's --array=3,7 is a part of the sweep; an array of Batch has all of it.
bool counts_all(const sweep::ArrayIndex& index) { return !index.variable.starts_with("SLURM"); }

}  // namespace

void set_experiment(config::Job& job, std::size_t index, const sweep::Set& set) {
  job.experiment = {index, set};
  job.storage.ebs.tag.value = config::of_experiment(job.storage.ebs.tag.value, index);
}

Result<config::Job, std::vector<config::Problem>> with_experiment(
    Result<config::Job, std::vector<config::Problem>> given, const config::Environment& environment,
    const FetchSets& fetch) {
  auto job = TRY(std::move(given));
  const auto variable = [&](const char* name) {
    const auto found = environment.variables.find(name);
    return found == environment.variables.end() ? std::string() : found->second;
  };
  if (job.claims) job.attempt = variable(attempt_variable);
  if (const auto dash = job.attempt.rfind('-'); dash != job.attempt.npos)
    job.token = wire::parse_count(job.attempt.substr(dash + 1)).value_or(0);
  if (!job.attempt.empty()) {
    int& tries = job.on_failure.attempts_without_progress;
    tries = std::min(tries, tries_of_an_attempt);
  }
  if (!job.sweep) return job;
  if (job.sweep->stop && job.attempt.empty()) {
    return problem(
        "sweep.stop ends experiments only where machines claim them, on a fleet with `claims:`; "
        "here each runs to its end: remove sweep.stop");
  }
  const auto index = index_of(variable);
  if (!index) return problem(index.error().message);
  const auto in_a_list = [](const config::Problem& it) { return std::vector{it}; };
  const auto sets = TRY(fetch(job).map_error(in_a_list));
  const std::string list = "the sweep's list has " + std::to_string(sets.size()) + " sets";
  if (index->index >= sets.size()) {
    return problem(index->variable + "=" + std::to_string(index->index) + ", but " + list +
                   ", counted from 0");
  }
  if (counts_all(*index) && index->part && index->part->of != sets.size()) {
    return problem("the array has " + std::to_string(index->part->of) + " jobs, but " + list +
                   ": submit one of that size");
  }
  const auto& set = sets[index->index];
  auto command = sweep::fill(job.trainer.command, set);
  if (!command) return problem(command.error().message);
  job.trainer.command = std::move(*command);
  set_experiment(job, index->index, set);
  return job;
}

}  // namespace spotter::command
