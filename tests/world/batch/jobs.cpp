#include "tests/world/batch/jobs.hpp"

#include "tests/world/batch/ecs_agent.hpp"
#include "tests/world/batch/plan.hpp"
#include "tests/world/batch/resources.hpp"
#include "tests/world/batch/retry.hpp"

namespace spotter::world::batch {
namespace {

// AWS's own words.
// https://docs.aws.amazon.com/batch/latest/userguide/job_retries.html
constexpr const char* exited = "Essential container in task exited";
constexpr const char* not_started = "Task failed to start";
constexpr const char* too_long = "Job attempt duration exceeded timeout";
constexpr const char* dependency_failed = "Dependent Job failed";
constexpr const char* child_failed = "Array Child Job failed";
constexpr const char* queue_deleted = "Job queue is being deleted";

std::string host_terminated(const InstanceId& host) {
  return "Host EC2 (instance " + host.str() + ") terminated.";
}

std::string child_id(const std::string& parent, int index) {
  return parent + ':' + std::to_string(index);
}
std::string parent_id(const std::string& id) { return id.substr(0, id.find(':')); }

std::size_t place_of(Status status) { return static_cast<std::size_t>(status); }

}  // namespace

Job* Jobs::find(const std::string& id) {
  const auto found = state_.jobs.find(id);
  return found == state_.jobs.end() ? nullptr : &found->second;
}

Job* Jobs::running(const Run& run) {
  Job* const job = find(run.job);
  return job && job->status == Status::Running && job->run() == run ? job : nullptr;
}

template <class Visit>
void Jobs::each(Job& job, Visit visit) {
  bool any = false;
  for (int i = 0; job.is_array() && i < job.what->size; ++i) {
    if (Job* const child = find(child_id(job.id, i))) {
      any = true;
      visit(*child);
    }
  }
  if (!any) visit(job);
}

Expected<void> Jobs::check_dependencies(const Submission& what) {
  for (const Json& it : what.depends_on) {
    if (!it.contains("jobId")) continue;
    const std::string id = it["jobId"];
    const Job* const other = find(id);
    if (!other) return client_refusal("Job " + id + " does not exist");
    if (it.value("type", "") == "N_TO_N" && other->what->size != what.size) {
      return client_refusal("N_TO_N: the array " + id + " has another size");
    }
  }
  return {};
}

Expected<Job> Jobs::submit(const Json& request, const std::string& caller) {
  Problem problem;
  const Reader reader(request, problem);
  const std::string queue_name = reader.required("jobQueue");
  const std::string definition_name = reader.required("jobDefinition");
  if (problem) return tl::unexpected(*problem);
  const JobQueue* const queue = Resources(state_).queue(queue_name);
  if (!queue || queue->condition == Condition::Deleting) {
    return client_refusal("Job queue " + queue_name + " does not exist");
  }
  if (!queue->enabled) {
    return client_refusal("Cannot submit job, JobQueue " + queue->name + " is not ENABLED.");
  }
  const JobDefinition* const definition = Resources(state_).definition(definition_name);
  if (!definition || !definition->active) {
    return client_refusal("Job definition " + definition_name + " does not exist or is not ACTIVE");
  }
  auto planned = plan(*definition, *queue, request);
  if (!planned) return tl::unexpected(planned.error());
  planned->caller = caller;
  if (auto checked = check_dependencies(*planned); !checked) {
    return tl::unexpected(checked.error());
  }
  Job job{.id = state_.random.uuid(),
          .what = std::make_shared<const Submission>(std::move(*planned)),
          .created = state_.now};
  job.tags = job.what->tags;
  Job& made = state_.jobs[job.id] = std::move(job);
  for (const Json& it : made.what->depends_on) {
    if (!it.contains("type")) wait_for(made, it["jobId"]);
  }
  state_.schedule(state_.random.within(state_.settings.entry), JobEnters{made.id});
  return made;
}

void Jobs::wait_for(Job& job, const std::string& other) {
  job.waits_for.insert(other);
  state_.dependents.emplace(other, job.id);
}

// The job's final status; a child that never came to be ended like its array.
std::optional<Status> Jobs::outcome(const std::string& id) {
  const Job* job = find(id);
  if (!job) job = find(parent_id(id));
  return job && is_final(job->status) ? std::optional(job->status) : std::nullopt;
}

// Also for whoever waits, each time that one it waits for has ended.
void Jobs::on(const JobEnters& happening) {
  Job* const job = find(happening.id);
  if (!job || (job->status != Status::Submitted && job->status != Status::Pending)) return;
  if (job->is_array() && job->status == Status::Pending && job->waits_for.empty()) return;
  for (auto it = job->waits_for.begin(); it != job->waits_for.end();) {
    const auto ended = outcome(*it);
    if (ended == Status::Failed) return finish(*job, Status::Failed, dependency_failed);
    it = ended ? job->waits_for.erase(it) : std::next(it);
  }
  if (job->waits_for.empty()) return proceed(*job);
  if (job->status != Status::Pending) set(*job, Status::Pending);
}

void Jobs::proceed(Job& job) {
  if (job.is_array()) return spawn(job);
  set(job, Status::Runnable);
}

// https://docs.aws.amazon.com/batch/latest/userguide/array_jobs.html
void Jobs::spawn(Job& array) {
  set(array, Status::Pending);
  array.children[place_of(Status::Pending)] = array.what->size;
  for (int i = 0; i < array.what->size; ++i) {
    Job& child = state_.jobs[child_id(array.id, i)] = {.id = child_id(array.id, i),
                                                       .what = array.what,
                                                       .index = i,
                                                       .status = Status::Pending,
                                                       .created = state_.now,
                                                       .tags = array.tags};
    for (const Json& it : array.what->depends_on) {
      const std::string type = it.value("type", "");
      if (type == "SEQUENTIAL" && i > 0) wait_for(child, child_id(array.id, i - 1));
      if (type == "N_TO_N") wait_for(child, child_id(it["jobId"], i));
    }
    state_.schedule(Duration{0}, JobEnters{child.id});
  }
}

void Jobs::set(Job& job, Status status, const std::string& reason) {
  const Status before = job.status;
  auto& runnable = state_.runnable[job.what->queue];
  if (before == Status::Runnable) runnable.erase(job.turn);
  job.status = status;
  job.status_reason = reason;
  if (status == Status::Runnable) {
    if (job.turn == 0) job.turn = state_.number();  // who is tried again keeps its turn
    runnable[job.turn] = job.id;
  }
  state_.changed = true;
  if (job.index) count(job, before);
}

void Jobs::count(const Job& child, Status before) {
  Job& array = *find(parent_id(child.id));
  --array.children[place_of(before)];
  ++array.children[place_of(child.status)];
  const int failed = array.children[place_of(Status::Failed)];
  const int done = array.children[place_of(Status::Succeeded)] + failed;
  if (done < array.what->size) return;
  finish(array, failed > 0 ? Status::Failed : Status::Succeeded, failed > 0 ? child_failed : "");
}

void Jobs::finish(Job& job, Status status, const std::string& reason) {
  if (is_final(job.status)) return;
  job.stopped = state_.now;
  const auto tell = [&](const std::string& id) {
    const auto [first, last] = state_.dependents.equal_range(id);
    for (auto it = first; it != last; ++it) state_.schedule(Duration{0}, JobEnters{it->second});
    state_.dependents.erase(first, last);
  };
  tell(job.id);
  for (int i = 0; job.is_array() && i < job.what->size; ++i) tell(child_id(job.id, i));
  set(job, status, reason);
}

void Jobs::place(Job& job, Host& host) {
  Attempt attempt{.host = host.id, .task = state_.random.hex(32)};
  const std::string definition = job.what->definition.substr(job.what->definition.rfind('/') + 1);
  attempt.log_stream = definition.substr(0, definition.find(':')) + "/default/" + attempt.task;
  job.attempts.push_back(std::move(attempt));
  host.used += job.what->needs;
  host.runs.insert(job.run());
  host.idle = 0;
  set(job, Status::Starting);
  state_.schedule(state_.random.within(state_.settings.start), ContainerStarts{job.run()});
}

void Jobs::on(const ContainerStarts& happening) {
  Job* const job = find(happening.run.job);
  if (!job || job->status != Status::Starting || job->run() != happening.run) return;
  Attempt& attempt = job->attempts.back();
  const Submission& what = *job->what;
  attempt.started = job->started = state_.now;
  RunJob order{.run = happening.run,
               .host = attempt.host,
               .command = what.command,
               .environment = what.environment,
               .task = attempt.task,
               .log_stream = attempt.log_stream};
  // https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html
  const auto variable = [&](const char* name, std::string value) {
    order.environment.emplace_back(name, std::move(value));
  };
  variable("AWS_BATCH_JOB_ID", job->id);
  variable("AWS_BATCH_JOB_ATTEMPT", std::to_string(happening.run.attempt));
  variable("AWS_BATCH_JQ_NAME", what.queue);
  variable("AWS_BATCH_CE_NAME", state_.hosts.at(attempt.host).environment);
  if (job->index) {
    variable("AWS_BATCH_JOB_ARRAY_INDEX", std::to_string(*job->index));
    variable("AWS_BATCH_JOB_ARRAY_SIZE", std::to_string(what.size));
  }
  state_.orders.emplace_back(std::move(order));
  if (what.timeout) state_.schedule(*what.timeout, TimeoutDue{happening.run});
  set(*job, Status::Running);
}

void Jobs::stop(const Job& job) {
  state_.orders.emplace_back(StopJob{job.run(), job.attempts.back().host});
  const auto host = state_.hosts.find(job.attempts.back().host);
  const Duration timeout = host == state_.hosts.end() ? state_.settings.stop_timeout
                                                      : stop_timeout(state_, host->second);
  state_.schedule(timeout, KillDue{job.run()});
}

void Jobs::give_up(Job& job, const std::string& reason) {
  if (job.given_up) return;
  job.given_up = reason;
  stop(job);
}

void Jobs::on(const TimeoutDue& happening) {
  if (Job* const job = running(happening.run)) give_up(*job, too_long);
}

void Jobs::on(const KillDue& happening) {
  if (const Job* const job = running(happening.run)) {
    state_.orders.emplace_back(KillJob{happening.run, job->attempts.back().host});
  }
}

void Jobs::ended(const Run& run, Ending ending) {
  Job* const job = running(run);
  if (!job) return;
  const auto host = state_.hosts.find(job->attempts.back().host);
  const bool reclaimed = host != state_.hosts.end() && host->second.leaving;
  ending.status_reason = !ending.exit_code ? not_started : exited;
  if (reclaimed && ending.exit_code != 0) ending.status_reason = host_terminated(host->first);
  close(*job, std::move(ending));
}

// The attempt is over; what becomes of the job?
void Jobs::close(Job& job, Ending ending) {
  Attempt& attempt = job.attempts.back();
  attempt.stopped = state_.now;
  if (const auto host = state_.hosts.find(attempt.host); host != state_.hosts.end()) {
    Host& it = host->second;
    it.used -= job.what->needs;
    it.runs.erase(job.run());
    it.idle = it.runs.empty() ? state_.number() : 0;
    if (it.runs.empty()) state_.schedule(state_.settings.idle_host, HostIdles{it.id, it.idle});
  }
  if (job.given_up) ending.status_reason = *job.given_up;
  attempt.ending = ending;
  if (job.given_up) return finish(job, Status::Failed, *job.given_up);
  if (ending.exit_code == 0) return finish(job, Status::Succeeded, ending.status_reason);
  const bool again = tries_again(job.what->retry, job.run().attempt, ending);
  if (again) return set(job, Status::Runnable, ending.status_reason);
  finish(job, Status::Failed, ending.status_reason);
}

void Jobs::drain(Host& host) {
  const auto runs = host.runs;
  for (const Run& run : runs) {
    Job& job = *find(run.job);
    if (job.status == Status::Running) stop(job);
    if (job.status == Status::Starting) close(job, {.status_reason = host_terminated(host.id)});
  }
}

void Jobs::lose(Host& host) {
  const auto runs = host.runs;
  for (const Run& run : runs) close(*find(run.job), {.status_reason = host_terminated(host.id)});
}

Expected<Job*> Jobs::named(const Json& request, std::string& reason) {
  Problem problem;
  const Reader reader(request, problem);
  const std::string id = reader.required("jobId");
  reason = reader.required("reason");
  if (problem) return tl::unexpected(*problem);
  Job* const job = find(id);
  if (!job) return client_refusal("Job " + id + " does not exist");
  return job;
}

Expected<void> Jobs::cancel(const Json& request) {
  std::string reason;
  const auto job = named(request, reason);
  if (!job) return tl::unexpected(job.error());
  each(**job, [&](Job& it) {
    it.cancelled = it.cancelled || it.status < Status::Starting;
    cancel(it, reason);
  });
  return {};
}

Expected<void> Jobs::terminate(const Json& request) {
  std::string reason;
  const auto job = named(request, reason);
  if (!job) return tl::unexpected(job.error());
  each(**job, [&](Job& it) {
    it.terminated = it.terminated || !is_final(it.status);
    terminate(it, reason);
  });
  return {};
}

void Jobs::cancel(Job& job, const std::string& reason) {
  if (job.status < Status::Starting) finish(job, Status::Failed, reason);
}

void Jobs::terminate(Job& job, const std::string& reason) {
  cancel(job, reason);
  if (job.status == Status::Running) give_up(job, reason);
  if (job.status != Status::Starting) return;
  job.given_up = reason;  // nothing runs yet
  close(job, {});
}

void Jobs::end_all_of(const std::string& queue) {
  for (auto& [id, job] : state_.jobs) {
    if (job.what->queue != queue || job.index) continue;
    each(job, [&](Job& it) { terminate(it, queue_deleted); });
  }
}

}  // namespace spotter::world::batch
