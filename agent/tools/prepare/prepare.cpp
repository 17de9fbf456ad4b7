#include "agent/tools/prepare/prepare.hpp"

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>

#include "agent/aws/formats/batch.hpp"
#include "agent/base/exit_status.hpp"
#include "agent/io/complain.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/sweep/sweep_sets.hpp"
#include "agent/tools/jobs/job_volumes.hpp"
#include "agent/tools/jobs/launched_job.hpp"
#include "agent/tools/jobs/places.hpp"
#include "agent/tools/prepare/prepare_remote.hpp"

namespace spotter::command {
namespace {

std::atomic<bool> asked_to_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal's handler sets it");
bool is_stopping() { return asked_to_stop; }

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { asked_to_stop = true; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

// The volume, which is made if there is none. Each refusal says what to do; what happens after this
// look, the agent's core sees.
Result<VolumeId, CallError> provide(AwsCalls& calls, const config::Job& job,
                                    const wire::Identity& here) {
  auto found = free_volume(calls, job, here.instance);
  if (!found) return tl::unexpected(found.error());
  if (!*found) {
    config::Job alone = job;
    alone.sweep.reset();  // only this experiment's volume
    if (alone.launch)
      if (auto named = name_zones(calls, *alone.launch); !named)
        return tl::unexpected(named.error());
    if (auto fits = fit_new_volume(alone, here.zone); !fits) return tl::unexpected(fits.error());
    // The same request for one minute: two concurrent calls make one volume.
    const auto minute = std::chrono::floor<std::chrono::minutes>(std::chrono::system_clock::now());
    const auto made = provide_volumes(
        calls, alone, "prepare " + std::to_string(minute.time_since_epoch().count()));
    if (!made) return tl::unexpected(made.error());
    found = free_volume(calls, job, here.instance);
    if (!found) return tl::unexpected(found.error());
    if (!*found) return failed("the new volume is not seen yet: run it again");
  }
  const wire::Volume& volume = **found;
  if (volume.zone == here.zone) return volume.id;
  return failed(volume.id.str() + " is in " + volume.zone.str() + ", and this instance in " +
                here.zone.str() + ": run it on one of that zone");
}

int prepare_one(AwsCalls& calls, const config::Job& job, const wire::Identity& here,
                const FillHere& fill_here) {
  const auto volume = provide(calls, job, here);
  if (!volume) {
    io::complain("prepare", volume.error().message);
    return 1;
  }
  if (is_stopping()) return wire::interrupted_exit_code;
  io::complain("prepare",
               volume->str() + " is prepared on " + here.instance.str() + " in " + here.zone.str());
  const int status = fill_here(job);
  if (const auto free = await_free(calls, *volume, here.instance); !free) {
    io::complain("prepare", free.error().message);
    return 1;
  }
  if (status == 0) io::complain("prepare", volume->str() + " is ready, and free");
  if (status == wire::interrupted_exit_code)
    io::complain("prepare", "stopped; what is there stays: run it again");
  return status;
}

int prepare_here(AwsCalls& calls, const config::Job& job, const wire::Identity& here,
                 const FillHere& fill_here) {
  if (!job.sweep) return prepare_one(calls, job, here, fill_here);
  const auto sets = sets_of(job);
  if (!sets) {
    io::complain("prepare", sets.error().message);
    return 1;
  }
  for (std::size_t index = 0; index < sets->size(); ++index) {
    config::Job one = job;
    set_experiment(one, index, (*sets)[index]);
    if (const int status = prepare_one(calls, one, here, fill_here); status != 0) return status;
  }
  return 0;
}

int run(const RemoteOptions& options, const FillHere& fill_here) {
  const auto job = config::load_job(options.job, config::Environment::of_process());
  if (!job) {
    std::fputs(config::describe(job.error(), options.job).c_str(), stderr);
    return wrong_input;
  }
  if (job->storage.share) {
    io::complain(
        "prepare",
        "the job's storage is " + config::describe(*job->storage.share) +
            (job->storage.in_bucket()
                 ? ": nothing is to be prepared. Name the data in `channels:`, which reads it "
                   "where "
                   "it is in S3: what is elsewhere is brought there once, as by `aws s3 sync`"
                 : ": put the data there, or name it in `channels:`; a volume (storage.ebs) is "
                   "prepared"));
    return wrong_input;
  }
  const auto calls = calls_in(job->launch ? job->launch->region : "");
  if (!calls) {
    io::complain("prepare", calls.error().message);
    return 1;
  }
  catch_signals();
  if (const auto here = AwsCalls::here()) return prepare_here(**calls, *job, *here, fill_here);
  return prepare_remote(**calls, *job, options, asked_to_stop);
}

}  // namespace

void add_prepare(CLI::App& app, FillHere fill_here, int& status) {
  auto* command = app.add_subcommand(
      "prepare",
      "Makes the job's volume, gives it a file system and folders, and copies what `prepare:` of "
      "job.yaml names; run again, it copies only what is missing");
  auto options = std::make_shared<RemoteOptions>();
  command->add_option("job", options->job, "The job's description")->capture_default_str();
  add_remote_options(*command, *options);
  command->callback(
      [options, fill_here = std::move(fill_here), &status] { status = run(*options, fill_here); });
}

}  // namespace spotter::command
