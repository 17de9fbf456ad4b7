// `spotter watch`: carries out what launch/fallback.hpp decides.
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
#include "agent/tools/jobs/due.hpp"
#include "agent/tools/jobs/fleets.hpp"
#include "agent/tools/jobs/job_volumes.hpp"
#include "agent/tools/jobs/launched_job.hpp"
#include "agent/tools/launch/job_command.hpp"
#include "agent/tools/launch/launch.hpp"
#include "agent/tools/launch/prospects.hpp"

namespace spotter::command {
namespace {

using Action = launch::Fallback::Action;
using State = launch::WatchedMachine::State;

struct WatchOptions {
  std::string job = "job.yaml";
  std::string interval = "1m";
  bool once = false;
  bool dry_run = false;
  Duration pause{};  // of interval

  // Of the timer that starts `--once` nothing is known but what is documented.
  Duration until_next_look() const { return once || dry_run ? launch::longest_interval : pause; }
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
  std::vector<JobFleet> all;
  std::vector<JobFleet> fleets;          // at work, none of `spotter prepare`
  std::optional<PoolPrices::Pool> spot;  // where a spot instance is, without its price
  std::string ended;  // fleets that are not: of an on-demand one the token is used up
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
  auto fleets = job_fleets(calls, key_of(job));
  if (!fleets) return tl::unexpected(fleets.error());
  seen.watched.now = calls.now();
  seen.all = *fleets;
  std::erase_if(*fleets, [&](const JobFleet& it) {
    if (!it.is_at_work() && !it.is_own()) seen.ended += "\n" + it.fleet.id.str();
    return !it.is_at_work() || it.role == launch::role_of_preparers;
  });
  seen.fleets = std::move(*fleets);
  const auto machines = all_job_instances(calls, key_of(job));
  if (!machines) return tl::unexpected(machines.error());
  for (const wire::Instance& it : *machines)
    if (wire::value_of(it.tags, tag::role) != launch::role_of_preparers) {
      const bool spot = it.lifecycle == "spot";
      seen.watched.machines.push_back({it.id, spot, state_of(it.state), it.launch_time});
      if (spot && state_of(it.state) <= State::Running)
        seen.spot = PoolPrices::Pool{it.type.str(), it.zone.str(), 0};
    }
  const auto done = is_done(calls, job);
  if (!done) return tl::unexpected(done.error());
  seen.watched.done = *done;
  for (const JobFleet& it : seen.fleets)
    if (!it.is_own()) seen.watched.beside.push_back({it.fleet.id, it.target});
  if (const JobFleet* own = seen.own()) {
    seen.watched.own = {own->fleet.id, own->target, own->fleet.kind != FleetKind::AutoScalingGroup};
    if (const auto rested = wire::parse_rfc3339(own->rests)) seen.watched.own->rested = *rested;
    seen.watched.own->silence = launch::silence_of(own->rests);
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

// Apart from the mark, which another watcher may write over. A policy of before has no right to it:
// then the mark alone says that the fleet rests.
void write_rest(AwsCalls& calls, const Seen& seen, const std::string& text) {
  const std::string id = seen.own()->fleet.id.str();
  const auto written = calls.perform(encode(wire::CreateTags{{id}, {{tag::rests, text}}}));
  if (!written) io::complain("watch", written.error().message);
}

// By the version of the template that the job's own fleet launches from: a newer one may be of a
// launch that failed later. Two watchers that saw the same time ask for the same fleet.
Result<wire::AwsCommand, CallError> request_of(const config::Job& job, const Seen& seen,
                                               const launch::WatchMark& mark) {
  const JobFleet& own = *seen.own();
  const auto& [id, version] = own.launch_template;
  if (id.empty() || version.empty())
    return failed("AWS does not say which launch template " + own.fleet.id.str() + " launches by");
  const std::string when = own.fleet.id.str() + "\n" + wire::to_rfc3339(mark.since) + seen.ended;
  const std::string token = "on-demand-" + wire::sha256_hex(when).substr(0, 40);
  return launch::request_on_demand(job, {id, version}, own.fleet.id, token, own.digest);
}

Result<void, CallError> ask_on_demand(AwsCalls& calls, const config::Job& job, const Seen& seen,
                                      const launch::WatchMark& mark, bool dry_run) {
  const auto request = request_of(job, seen, mark);
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

// For the own fleet: it ends its spot instance and asks for none, or asks again.
Result<void, CallError> set_target(AwsCalls& calls, const Seen& seen, int target, bool dry_run) {
  const Fleet& fleet = seen.own()->fleet;
  std::printf("%s %s the target %d\n", fleet.id.str().c_str(), dry_run ? "would get" : "gets",
              target);
  if (dry_run) return {};
  const auto changed =
      calls.perform(wire::query_of(launch::set_capacity(fleet, {.target = target})));
  if (!changed) return tl::unexpected(changed.error());
  return {};
}

class Watcher {
 public:
  Watcher(AwsCalls& calls, const config::Job& job, const config::Deadline& deadline,
          const WatchOptions& options)
      : calls_(calls), job_(job), deadline_(deadline), options_(options) {}

  // True: there is nothing left to watch.
  Result<bool, CallError> once() {
    auto seen = look_once(calls_, job_);
    if (!seen) return tl::unexpected(seen.error());
    if (auto added = add_prospect(*seen); !added) return tl::unexpected(added.error());
    const launch::Fallback next =
        decide_fallback(job_.launch->on_demand, launch::start_of(job_, deadline_), seen->watched);
    say(next.reason, next.mark.outlook ? launch::text_of(*next.mark.outlook) : "",
        launch::is_news(seen->watched.mark, next.mark));
    // Before the request: its token is made of what the tag says.
    Result<void, CallError> marked, done;
    if (!options_.dry_run) marked = write_mark(calls_, job_, *seen, next.mark);
    if (!marked && !launch::acts_unmarked(next)) return tl::unexpected(marked.error());
    if (!options_.dry_run && next.action == Action::Rest)
      write_rest(calls_, *seen, wire::to_rfc3339(seen->watched.now));
    if (!options_.dry_run && next.forget_rest) write_rest(calls_, *seen, "no");
    if (next.action == Action::AskOnDemand)
      done = ask_on_demand(calls_, job_, *seen, next.mark, options_.dry_run);
    if (next.action == Action::Rest) done = set_target(calls_, *seen, 0, options_.dry_run);
    if (next.action == Action::Wake) done = set_target(calls_, *seen, 1, options_.dry_run);
    if (next.action == Action::End) done = end(calls_, *seen, next.fleets, options_.dry_run);
    if (!done) return tl::unexpected(done.error());
    // Not before: at target 0 this tag must say that the fleet rests.
    if (!options_.dry_run && next.silence) write_rest(calls_, *seen, launch::tag_of(*next.silence));
    if (!marked) return tl::unexpected(marked.error());
    return next.action == Action::Over;
  }

 private:
  // The figures change at each look: alone they are printed when they are written down.
  void say(const std::string& reason, const std::string& figures, bool news) {
    if (reason == said_ && (figures.empty() || !news)) return;
    std::printf("%s %s%s%s\n", wire::to_rfc3339(calls_.now()).c_str(), reason.c_str(),
                figures.empty() ? "" : "; ", figures.c_str());
    said_ = reason;
  }

  void complain_once(const std::string& what) {
    if (!what.empty() && what != complained_) io::complain("watch", what);
    complained_ = what;
  }

  Result<void, CallError> add_prospect(Seen& seen) {
    if (job_.launch->on_demand.when != config::OnDemand::When::WhenNeeded || seen.own() == nullptr)
      return {};
    const auto due = due_of(deadline_, seen.all);
    if (!due) return failed("AWS does not say when the job's first fleet was made");
    refresh_prices();
    const auto& mark = seen.watched.mark;
    const auto before = mark ? mark->outlook : std::nullopt;
    const auto published = published_progress(job_);
    complain_once(published ? prices_.trouble : published.error().message);
    const double since = mark ? hours(seen.watched.now - mark->looked) : 0;
    const auto says = published ? *published : std::nullopt;
    launch::Prospect prospect{.due = *due,
                              .work = launch::work_of(deadline_, says, before, since),
                              .start = hours(launch::start_of(job_, deadline_)),
                              .interval = hours(options_.until_next_look()),
                              .on_demand = prices_.on_demand,
                              .spot = prices_.spot,
                              .zone = prices_.zone,
                              .dollars_left = {},
                              .gives_way = deadline_.gives_way};
    launch::keep_prices(prospect, prices_.known, before);
    if (const auto* pool = seen.spot ? prices_.find(*seen.spot) : nullptr) {
      prospect.spot = pool->dollars;
      prospect.zone = pool->zone;
    }
    if (published) spent_ = says ? says->progress.dollars : 0;
    seen.watched.publication_known = published.has_value();
    if (says && says->at) seen.watched.publication = {says->instance, *says->at};
    prospect.spent_unknown = deadline_.dollars && !spent_;
    if (deadline_.dollars && spent_)
      prospect.dollars_left = std::max(0.0, *deadline_.dollars - *spent_);
    seen.watched.prospect = prospect;
    return {};
  }

  void refresh_prices() {
    constexpr std::chrono::minutes often{5};
    const auto now = std::chrono::steady_clock::now();
    if (priced_ && now - *priced_ < often) return;
    prices_ = prices_now(calls_, *job_.launch);
    priced_ = now;
  }

  static double hours(Duration duration) {
    return std::chrono::duration<double>(duration).count() / 3600;
  }

  AwsCalls& calls_;
  const config::Job& job_;
  const config::Deadline& deadline_;
  const WatchOptions& options_;
  std::string said_, complained_;
  std::optional<double> spent_;  // as far as it could be read
  PoolPrices prices_;
  std::optional<std::chrono::steady_clock::time_point> priced_;
};

// Until the job has no fleet any more. A look that failed is followed by the next one.
int watch(Watcher& watcher, Duration interval) {
  for (launch::OverSince over;;) {
    const auto looked = watcher.once();
    std::fflush(stdout);
    if (!looked) io::complain("watch", looked.error().message);
    if (over.see(looked && *looked, std::chrono::steady_clock::now())) return 0;
    std::this_thread::sleep_for(interval);
  }
}

int run(const WatchOptions& given) {
  WatchOptions options = given;
  auto job = job_to_launch(options.job);
  if (!job) return io::complain("watch", job.error().message, wrong_input);
  const auto deadline = config::load_deadline(options.job);
  if (!deadline) return io::complain("watch", deadline.error().message, wrong_input);
  const auto interval = config::duration.parse(options.interval);
  if (!interval || *interval > launch::longest_interval || *interval < std::chrono::seconds(1))
    return io::complain("watch", "--interval " + options.interval + ": a duration of 1s to 10m",
                        wrong_input);
  options.pause = *interval;
  const auto calls = AwsCalls::open();
  if (!calls) return io::complain("watch", calls.error().message);
  if (const auto named = name_zones(**calls, *job->launch); !named)
    return io::complain("watch", named.error().message);
  Watcher watcher(**calls, *job, *deadline, options);
  if (!options.once && !options.dry_run) return watch(watcher, *interval);
  const auto looked = watcher.once();
  return looked ? 0 : io::complain("watch", looked.error().message);
}

}  // namespace

void add_watch(CLI::App& app, int& status) {
  const auto [command, options] = add_job_command<WatchOptions>(
      app, "watch",
      "For `launch: {on_demand: after 20m}`: asks for an on-demand instance when the job has had "
      "no spot instance for so long, and ends it when there is one again; for `when-needed` it "
      "does so when the job's deadline asks for it; runs until the job is over, on any machine "
      "that has the launcher's permissions",
      status, run);
  command->add_flag("--once", options->once, "Looks and acts once: for a timer");
  command->add_option("--interval", options->interval, "How often it looks: 1s to 10m")
      ->capture_default_str();
  command->add_flag("--dry-run", options->dry_run,
                    "Looks once, prints what it would do, and does nothing");
}

}  // namespace spotter::command
