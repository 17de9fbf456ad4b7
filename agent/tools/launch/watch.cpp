// `spotter watch`: carries out what launch/fallback.hpp decides.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include "agent/aws/formats/aws_command.hpp"
#include "agent/aws/formats/ec2_words.hpp"
#include "agent/aws/formats/launching.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/base/exit_status.hpp"
#include "agent/io/complain.hpp"
#include "agent/job/values.hpp"
#include "agent/launch/fallback.hpp"
#include "agent/tools/jobs/fleets.hpp"
#include "agent/tools/jobs/job_volumes.hpp"
#include "agent/tools/jobs/launched_job.hpp"
#include "agent/tools/launch/launch.hpp"

namespace spotter::command {
namespace {

using Action = launch::Fallback::Action;
using State = launch::WatchedMachine::State;

struct WatchOptions {
  std::string job = "job.yaml";
  std::string interval = "1m";
  bool once = false;
  bool dry_run = false;
};

State state_of(wire::InstanceState state) {
  if (state == wire::InstanceState::Pending) return State::Starting;
  if (state == wire::InstanceState::Running) return State::Running;
  const bool ended =
      state == wire::InstanceState::Terminated || state == wire::InstanceState::Stopped;
  return ended ? State::Ended : State::Ending;
}

// What one look sees.
struct Seen {
  launch::Watched watched;
  std::vector<JobFleet> fleets;  // at work, none of `spotter prepare`
  std::string ended;             // fleets that are not: of an on-demand one the token is used up
  const JobFleet* own() const {
    const auto it = std::ranges::find_if(fleets, &JobFleet::is_own);
    return it == fleets.end() ? nullptr : &*it;
  }
};

Result<bool, CallError> is_done(AwsCalls& calls, const config::Job& job) {
  if (job.storage.share || job.sweep) return false;  // then the end of its fleet says so
  const auto volumes = volumes_of(calls, job);
  if (!volumes) return tl::unexpected(volumes.error());
  return std::ranges::any_of(*volumes, [](const wire::Volume& it) {
    return wire::value_of(it.tags, tag::done) == "true";
  });
}

Result<Seen, CallError> look_once(AwsCalls& calls, const config::Job& job) {
  Seen seen;
  seen.watched.now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  auto fleets = job_fleets(calls, key_of(job));
  if (!fleets) return tl::unexpected(fleets.error());
  std::erase_if(*fleets, [&](const JobFleet& it) {
    if (!it.is_at_work() && !it.is_own()) seen.ended += "\n" + it.fleet.id.str();
    return !it.is_at_work() || it.role == launch::role_of_preparers;
  });
  seen.fleets = std::move(*fleets);
  const auto machines = all_job_instances(calls, key_of(job));
  if (!machines) return tl::unexpected(machines.error());
  for (const wire::Instance& it : *machines)
    if (wire::value_of(it.tags, tag::role) != launch::role_of_preparers)
      seen.watched.machines.push_back(
          {it.id, it.lifecycle == "spot", state_of(it.state), it.launch_time});
  const auto done = is_done(calls, job);
  if (!done) return tl::unexpected(done.error());
  seen.watched.done = *done;
  for (const JobFleet& it : seen.fleets)
    if (!it.is_own()) seen.watched.beside.push_back({it.fleet.id, it.target});
  if (const JobFleet* own = seen.own()) {
    seen.watched.own = {own->fleet.id, own->target};
    seen.watched.mark = launch::mark_of(own->watched);
  }
  return seen;
}

Result<void, CallError> write_mark(AwsCalls& calls, const config::Job& job, const Seen& seen,
                                   const launch::WatchMark& mark) {
  const JobFleet* own = seen.own();
  if (own == nullptr || !launch::is_news(seen.watched.mark, mark)) return {};
  const std::string text = launch::tag_of(mark);
  const FleetId& id = own->fleet.id;
  const auto written =
      own->fleet.kind == FleetKind::AutoScalingGroup
          ? calls.perform(wire::query_of(launch::mark_group(id, job.name.str(), text)))
          : calls.perform(encode(wire::CreateTags{{id.str()}, {{tag::watched, text}}}));
  if (!written) return tl::unexpected(written.error());
  return {};
}

// With the template that the job's own fleet launches from: `spotter launch` makes a version of it
// before each fleet. Two watchers that saw the same time ask for the same fleet.
Result<wire::AwsCommand, CallError> request_of(AwsCalls& calls, const config::Job& job,
                                               const Seen& seen, const launch::WatchMark& mark) {
  const JobFleet& own = *seen.own();
  const auto templates = templates_of(calls, launch::resource_name(job));
  if (!templates) return tl::unexpected(templates.error());
  if (templates->empty())
    return failed("there is no launch template " + launch::resource_name(job) +
                  ": `spotter launch` makes it");
  const wire::LaunchTemplate& newest = templates->front();
  const std::string when = own.fleet.id.str() + "\n" + wire::to_rfc3339(mark.since) + seen.ended;
  const std::string token = "on-demand-" + wire::sha256_hex(when).substr(0, 40);
  return launch::request_on_demand(job, {newest.id, newest.latest_version}, own.fleet.id, token,
                                   own.digest);
}

Result<void, CallError> ask_on_demand(AwsCalls& calls, const config::Job& job, const Seen& seen,
                                      const launch::WatchMark& mark, bool dry_run) {
  const auto request = request_of(calls, job, seen, mark);
  if (!request) return tl::unexpected(request.error());
  if (dry_run) {
    std::printf("%s\n", wire::command_of(*request).c_str());
    return {};
  }
  const auto made = calls.ask(wire::query_of(*request), wire::decode_created_fleet);
  if (!made) return tl::unexpected(made.error());
  std::printf("%s asks for it\n", made->id.str().c_str());
  if (!made->errors.empty()) io::complain("watch", made->id.str() + ": " + made->errors);
  return {};
}

Result<void, CallError> end(AwsCalls& calls, const Seen& seen, const std::vector<FleetId>& ids,
                            bool dry_run) {
  std::vector<JobFleet> ended = seen.fleets;
  std::erase_if(
      ended, [&](const JobFleet& it) { return std::ranges::find(ids, it.fleet.id) == ids.end(); });
  for (const JobFleet& it : ended)
    std::printf("%s %s\n", it.fleet.id.str().c_str(), dry_run ? "would be ended" : "is ended");
  return dry_run ? Result<void, CallError>{} : end_fleets(calls, ended, true);
}

class Watcher {
 public:
  Watcher(AwsCalls& calls, const config::Job& job, const WatchOptions& options)
      : calls_(calls), job_(job), options_(options) {}

  // True: there is nothing left to watch.
  Result<bool, CallError> once() {
    const auto seen = look_once(calls_, job_);
    if (!seen) return tl::unexpected(seen.error());
    const launch::Fallback next = decide_fallback(job_.launch->on_demand, seen->watched);
    say(next.reason);
    // Before the request: its token is made of what the tag says.
    if (!options_.dry_run)
      if (auto marked = write_mark(calls_, job_, *seen, next.mark); !marked)
        return tl::unexpected(marked.error());
    Result<void, CallError> done;
    if (next.action == Action::AskOnDemand)
      done = ask_on_demand(calls_, job_, *seen, next.mark, options_.dry_run);
    if (next.action == Action::End) done = end(calls_, *seen, next.fleets, options_.dry_run);
    if (!done) return tl::unexpected(done.error());
    return next.action == Action::Over;
  }

 private:
  void say(const std::string& reason) {
    if (reason == said_) return;
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    std::printf("%s %s\n", wire::to_rfc3339(now).c_str(), reason.c_str());
    said_ = reason;
  }

  AwsCalls& calls_;
  const config::Job& job_;
  const WatchOptions& options_;
  std::string said_;
};

// Until the job has no fleet any more, in two looks: EC2 shows a new fleet some seconds late. A
// look that failed is followed by the next one.
int watch(Watcher& watcher, Duration interval) {
  for (int over = 0; over < 2;) {
    const auto looked = watcher.once();
    std::fflush(stdout);
    if (!looked) io::complain("watch", looked.error().message);
    over = looked && *looked ? over + 1 : 0;
    if (over < 2) std::this_thread::sleep_for(interval);
  }
  return 0;
}

int run(const WatchOptions& options) {
  auto job = job_to_launch(options.job);
  if (!job) return io::complain("watch", job.error().message, wrong_input);
  const auto interval = config::duration.parse(options.interval);
  if (!interval || *interval > launch::longest_interval)
    return io::complain("watch", "--interval " + options.interval + ": a duration of at most 10m",
                        wrong_input);
  const auto calls = AwsCalls::open();
  if (!calls) return io::complain("watch", calls.error().message);
  if (const auto named = name_zones(**calls, *job->launch); !named)
    return io::complain("watch", named.error().message);
  Watcher watcher(**calls, *job, options);
  if (!options.once && !options.dry_run) return watch(watcher, *interval);
  const auto looked = watcher.once();
  return looked ? 0 : io::complain("watch", looked.error().message);
}

}  // namespace

void add_watch(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "watch",
      "For `launch: {on_demand: after 20m}`: asks for an on-demand instance when the job has had "
      "no spot instance for so long, and ends it when there is one again; runs until the job is "
      "over, on any machine that has the launcher's permissions");
  auto options = std::make_shared<WatchOptions>();
  command->add_option("job", options->job, "The job's description")->capture_default_str();
  command->add_flag("--once", options->once, "Looks and acts once: for a timer");
  command->add_option("--interval", options->interval, "How often it looks; at most 10m")
      ->capture_default_str();
  command->add_flag("--dry-run", options->dry_run,
                    "Looks once, prints what it would do, and does nothing");
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace spotter::command
