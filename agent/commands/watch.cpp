#include <cstdio>
#include <thread>

#include "agent/aws/formats/aws_command.hpp"
#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/aws/s3/client.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/job_storage.hpp"
#include "agent/commands/launch.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/commands/prospects.hpp"
#include "agent/config/values.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/fallback.hpp"
#include "agent/launch/requests.hpp"
#include "agent/wire/head.hpp"

namespace spotter::command {
namespace {

using Action = launch::Fallback::Action;
using State = launch::WatchedMachine::State;

// A look at one place.
struct Seen {
  launch::Watched watched;
  std::vector<JobFleet> all;
  std::vector<JobFleet> fleets;          // at work, none of `spotter prepare`
  std::optional<PoolPrices::Pool> spot;  // where a spot instance is, without its price
  std::optional<wire::Head> head;        // of a home in a bucket; none: it could not be read
  std::string ended;    // fleets that are not: of an on-demand one the token is used up
  std::string trouble;  // not empty: nothing is known of it, as AWS does not answer there
  const JobFleet* own() const {
    const auto it = std::ranges::find_if(fleets, &JobFleet::is_own);
    return it == fleets.end() ? nullptr : &*it;
  }
};

// A look at all its places, in their order.
struct Looked {
  std::vector<Seen> places;
  std::size_t here = 0;     // where the job is
  launch::Watched watched;  // there, with the instances and on-demand fleets of the others

  const Seen& seen() const { return places[here]; }
  std::vector<JobFleet> all() const {
    std::vector<JobFleet> all;
    for (const Seen& it : places) std::ranges::copy(it.all, std::back_inserter(all));
    return all;
  }
  std::vector<launch::PlaceSeen> places_seen(const std::vector<JobPlace>& of) const {
    std::vector<launch::PlaceSeen> seen;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Seen& it = places[i];
      seen.push_back({of[i].calls->region().str(), it.watched.own, it.watched.mark});
    }
    return seen;
  }
};

launch::WatchedFleet watched(const JobFleet& own) {
  launch::WatchedFleet fleet{own.fleet.id, own.target,
                             own.fleet.kind != FleetKind::AutoScalingGroup};
  if (const auto rested = wire::parse_rfc3339(own.rests)) fleet.rested = *rested;
  fleet.silence = launch::silence_of(own.rests);
  return fleet;
}

// AWS's tag: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-fleet-tags.html
constexpr const char* of_fleet = "aws:ec2:fleet-id";

State state_of(wire::InstanceState state) {
  if (state == wire::InstanceState::Pending) return State::Starting;
  if (state == wire::InstanceState::Running) return State::Running;
  const bool ended =
      state == wire::InstanceState::Terminated || state == wire::InstanceState::Stopped;
  return ended ? State::Ended : State::Ending;
}

// A head that cannot be read, as with a policy of before, says nothing: the end of its fleets says
// so later.
std::optional<wire::Head> read_head(const config::Job& job) {
  const auto head = job.headed_at();
  if (!head) return std::nullopt;
  s3::Client client(
      {.environment = act::Environment::of_this_process(), .patience = std::chrono::seconds(20)});
  const auto answer =
      client.perform({.bucket = head->bucket, .key = head->key + std::string(wire::head_name)});
  if (!answer) return std::nullopt;
  const auto read = wire::parse_head(answer->body);
  return read ? std::optional(*read) : std::nullopt;
}

Result<bool, CallError> is_done(AwsCalls& calls, const config::Job& job, const Seen& seen) {
  if (seen.head) return seen.head->epoch.state == decide::Epoch::State::Done;
  if (job.storage.share || job.sweep) return false;  // then the end of its fleet says so
  const auto volumes = TRY(volumes_of(calls, job));
  return std::ranges::any_of(
      volumes, [](const wire::Volume& it) { return wire::value_of(it.tags, tag::done) == "true"; });
}

Result<Seen, CallError> look_once(AwsCalls& calls, const config::Job& job) {
  Seen seen;
  auto fleets = TRY(job_fleets(calls, key_of(job)));
  seen.watched.now = calls.now();
  seen.all = fleets;
  std::erase_if(fleets, [&](const JobFleet& it) {
    if (!it.is_at_work() && !it.is_own()) seen.ended += "\n" + it.fleet.id.str();
    return !it.is_at_work() || it.role == launch::role_of_preparers;
  });
  seen.fleets = std::move(fleets);
  const auto machines = TRY(all_job_instances(calls, key_of(job)));
  for (const wire::Instance& it : machines)
    if (wire::value_of(it.tags, tag::role) != launch::role_of_preparers) {
      const bool spot = it.lifecycle == "spot";
      const std::string fleet = wire::value_of(it.tags, of_fleet);
      seen.watched.machines.push_back({it.id, spot, state_of(it.state), it.launch_time,
                                       FleetId::fits(fleet) ? FleetId(fleet) : FleetId()});
      if (!spot || state_of(it.state) > State::Running) continue;
      seen.spot = PoolPrices::Pool{it.type.str(), it.zone.str(), 0};
    }
  if (job.storage.in_bucket() && !job.sweep) seen.head = read_head(job);
  const auto done = TRY(is_done(calls, job, seen));
  seen.watched.done = done;
  for (const JobFleet& it : seen.fleets)
    if (!it.is_own()) {
      seen.watched.beside.push_back({it.fleet.id, it.target});
      seen.watched.beside.back().created = it.created;
    }
  if (const JobFleet* own = seen.own()) {
    seen.watched.own = watched(*own);
    seen.watched.mark = launch::mark_of(own->watched);
  }
  return seen;
}

// Fails where nothing can be decided: AWS does not answer somewhere, and none of the fleets that it
// shows elsewhere asks for an instance.
Result<Looked, CallError> look_at(const std::vector<JobPlace>& places) {
  Looked looked;
  std::optional<CallError> trouble;
  std::string unread;
  for (const JobPlace& it : places) {
    auto seen = look_once(*it.calls, it.job);
    if (!seen) {
      trouble = seen.error();
      seen = Seen{};
      const std::string region = it.calls->region().str();
      seen->trouble = region + ": " + trouble->message;
      unread += (unread.empty() ? "" : " and ") + region;
    }
    looked.places.push_back(std::move(*seen));
  }
  const auto seen_places = looked.places_seen(places);
  looked.here = launch::place_of_job(seen_places);
  if (trouble && !seen_places[looked.here].asks()) return tl::unexpected(*trouble);
  looked.watched = looked.seen().watched;
  looked.watched.elsewhere = places.size() > 1;
  looked.watched.unread = unread;
  looked.watched.missing = launch::missing_in(seen_places);
  for (std::size_t i = 0; i < looked.places.size(); ++i) {
    if (i == looked.here) continue;
    const launch::Watched& there = looked.places[i].watched;
    std::ranges::copy(there.beside, std::back_inserter(looked.watched.beside));
    std::ranges::copy(there.machines, std::back_inserter(looked.watched.machines));
    looked.watched.done = looked.watched.done || there.done;
  }
  return looked;
}

// A place at a look, to act there. With `dry_run` it says what it would do, and does nothing.
struct There {
  AwsCalls& calls;
  const config::Job& job;
  const Seen& seen;
  bool dry_run;

  Result<void, CallError> write_tag(const FleetId& fleet, const std::string& key,
                                    const std::string& text) const {
    TRY(calls.perform(encode(wire::CreateTags{{fleet.str()}, {{key, text}}})));
    return {};
  }

  void try_to_mark(const FleetId& fleet, const launch::WatchMark& mark) const {
    if (const auto written = write_tag(fleet, tag::watched, launch::tag_of(mark)); !written)
      io::complain("watch", written.error().message);
  }

  // At the own fleet; and at the on-demand fleets that are there, whose instances read it, as the
  // own fleet may be in another region.
  Result<void, CallError> write_mark(const launch::WatchMark& mark) const {
    const JobFleet* own = seen.own();
    if (own == nullptr) return {};
    const std::string text = launch::tag_of(mark);
    const FleetId& id = own->fleet.id;
    if (own->fleet.kind != FleetKind::AutoScalingGroup) return write_tag(id, tag::watched, text);
    TRY(calls.perform(launch::mark_group(id, job.name.str(), text)));
    return {};
  }

  void mark_on_demand(const launch::WatchMark& mark) const {
    for (const JobFleet& each : seen.fleets)
      if (!each.is_own()) try_to_mark(each.fleet.id, mark);
  }

  // At the own fleet, apart from the mark, which another watcher may write over.
  Result<void, CallError> write_rest(const std::string& text) const {
    return write_tag(seen.own()->fleet.id, tag::rests, text);
  }

  // A policy of before has no right to it: then the mark alone says that the fleet rests.
  void try_to_write_rest(const std::string& text) const {
    if (const auto written = write_rest(text); !written)
      io::complain("watch", written.error().message);
  }

  // By the version of the template that the job's own fleet launches from: a newer one may be of a
  // launch that failed later. Two watchers that saw the same time ask for the same fleet.
  Result<wire::AwsCommand, CallError> request_of(const launch::WatchMark& mark,
                                                 const std::string& ended) const {
    const JobFleet& own = *seen.own();
    const auto& [id, version] = own.launch_template;
    if (id.empty() || version.empty())
      return failed("AWS does not say which launch template " + own.fleet.id.str() +
                    " launches by");
    const std::string when = own.fleet.id.str() + "\n" + wire::to_rfc3339(mark.since) + ended;
    const std::string token = "on-demand-" + wire::sha256_hex(when).substr(0, 40);
    launch::FleetRequest wanted{{id, version}, token, own.digest};
    wanted.ends_at = launch::ends_by_itself(job, calls.now());
    return launch::request_on_demand(job, own.fleet.id, wanted);
  }

  // `ended`: of all places, the on-demand fleets that are not any more.
  Result<void, CallError> ask_on_demand(const launch::WatchMark& mark,
                                        const std::string& ended) const {
    const auto request = TRY(request_of(mark, ended));
    if (dry_run) {
      std::printf("%s\n", wire::command_of(request).c_str());
      return {};
    }
    const auto made = TRY(calls.ask(request, wire::decode_created_fleet));
    std::printf("%s asks for it\n", made.id.str().c_str());
    if (!made.errors.empty()) io::complain("watch", made.id.str() + ": " + made.errors);
    try_to_mark(made.id, mark);
    return {};
  }

  // Those of the fleets that are there, with their instances.
  Result<void, CallError> end_fleets_of(const std::vector<FleetId>& ids) const {
    std::vector<JobFleet> ended = seen.fleets;
    std::erase_if(ended, [&](const JobFleet& each) {
      return std::ranges::find(ids, each.fleet.id) == ids.end();
    });
    for (const JobFleet& each : ended)
      std::printf("%s %s\n", each.fleet.id.str().c_str(), dry_run ? "would be ended" : "is ended");
    return dry_run ? Result<void, CallError>{} : end_fleets(calls, ended, true);
  }

  // Sets the own fleet's target: at 0 it ends its spot instance and asks for none.
  Result<void, CallError> set_target(int target) const {
    const Fleet& fleet = seen.own()->fleet;
    std::printf("%s %s the target %d\n", fleet.id.str().c_str(), dry_run ? "would get" : "gets",
                target);
    if (dry_run) return {};
    TRY(calls.perform(launch::set_capacity(fleet, {.target = target})));
    return {};
  }

  // It says first that it rests: were that a mistake, it can be woken.
  Result<void, CallError> quiet(wire::WallTime now) const {
    if (!dry_run) TRY(write_rest(wire::to_rfc3339(now)));
    return set_target(0);
  }
};

// `spotter watch`: carries out what launch/fallback.hpp decides.

struct WatchOptions {
  std::string job = "job.yaml";
  std::string interval = "1m";
  bool once = false;
  bool dry_run = false;
  Duration pause{};  // of interval

  // The documented longest interval is all that is known of the timer that starts `--once`.
  Duration until_next_look() const { return once || dry_run ? launch::longest_interval : pause; }
};

class Watcher {
 public:
  Watcher(const std::vector<JobPlace>& places, const WatchOptions& options)
      : places_(places), job_(places.front().job), options_(options), prices_(places.size()) {}

  // True: there is nothing left to watch.
  Result<bool, CallError> once() {
    auto looked = TRY(look_at(places_));
    for (const Seen& it : looked.places)
      if (!it.trouble.empty()) io::complain("watch", it.trouble);
    TRY(add_prospect(looked));
    add_next_on_demand(looked);
    const Duration start = launch::start_of(job_);
    launch::Fallback next = decide_fallback(job_.launch->on_demand, start, looked.watched);
    const Duration settling = launch::settling_time(job_.launch->on_demand, start);
    std::optional<launch::Move> move;
    if (next.action == Action::Wait && !looked.watched.done)
      move = launch::decide_move(seen_with_prices(looked), next.mark, settling);
    if (looked.watched.done && next.action == Action::End) add_all_fleets(looked, next);
    say(next.reason + (move ? "; " + move->reason : ""),
        next.mark.outlook ? launch::text_of(*next.mark.outlook) : "",
        launch::is_news(looked.watched.mark, next.mark));
    return act(looked, next, move);
  }

 private:
  There at(const Looked& looked, std::size_t place) const {
    return {*places_[place].calls, places_[place].job, looked.places[place], options_.dry_run};
  }

  Result<bool, CallError> act(const Looked& looked, const launch::Fallback& next,
                              const std::optional<launch::Move>& move) {
    const There here = at(looked, looked.here);
    // Before the request: its token is made of what the tag says.
    Result<void, CallError> marked, done;
    // With the mark of this look the place stays the last in which the job was, whatever is left.
    const bool leaves = move || asks_elsewhere(looked);
    const bool news = leaves || launch::is_news(looked.watched.mark, next.mark);
    if (!options_.dry_run && news) marked = here.write_mark(next.mark);
    if (!options_.dry_run && news && next.action != Action::End)
      for (std::size_t i = 0; i < places_.size(); ++i) at(looked, i).mark_on_demand(next.mark);
    if (!marked && !launch::acts_unmarked(next)) return tl::unexpected(marked.error());
    if (!options_.dry_run && next.action == Action::Rest)
      here.try_to_write_rest(wire::to_rfc3339(looked.watched.now));
    if (!options_.dry_run && next.forget_rest) here.try_to_write_rest("no");
    if (next.action == Action::AskOnDemand)
      done = at(looked, cheapest_on_demand(looked)).ask_on_demand(next.mark, ended_in(looked));
    if (next.action == Action::AskElsewhere) done = ask_elsewhere(looked, next);
    if (next.action == Action::Rest || next.action == Action::GiveUp) done = here.set_target(0);
    if (next.action == Action::Wake) done = here.set_target(1);
    if (next.action == Action::End)
      for (std::size_t i = 0; i < places_.size() && done; ++i)
        done = at(looked, i).end_fleets_of(next.fleets);
    if (done && marked && !looked.watched.done) done = quiet_others(looked);
    if (done && move) done = go(looked, move->to, next.mark);
    if (!done) return tl::unexpected(done.error());
    // Must not come earlier: at target 0 this tag must say that the fleet rests.
    if (!options_.dry_run && next.silence) here.try_to_write_rest(launch::tag_of(*next.silence));
    if (!marked) return tl::unexpected(marked.error());
    return next.action == Action::Over;
  }

  bool asks_elsewhere(const Looked& looked, std::size_t place) const {
    const auto &here = looked.watched.own, &there = looked.places[place].watched.own;
    return place != looked.here && here && there && here->target > 0 && there->target > 0;
  }

  // A place beside the job's asks, too.
  bool asks_elsewhere(const Looked& looked) const {
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (asks_elsewhere(looked, i)) return true;
    return false;
  }

  // A move that was not finished, or that EC2 does not show yet.
  Result<void, CallError> quiet_others(const Looked& looked) const {
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (asks_elsewhere(looked, i)) TRY(at(looked, i).quiet(looked.watched.now));
    return {};
  }

  // Carries the job from one of its places to another (launch/places.hpp), step by step: the
  // command may end, and AWS refuse, after each. The bucket lets one write, so what is entered asks
  // before what is left stops. Its tags say so first: were they written later, another watcher's
  // that has it rest would be lost. `mark`: of this look, where the job is.
  Result<void, CallError> go(const Looked& looked, std::size_t to,
                             const launch::WatchMark& mark) const {
    const launch::MoveMarks marks = launch::marks_of_move(mark);
    const There there = at(looked, to);
    const auto entered = [&]() -> Result<void, CallError> {
      if (!options_.dry_run) {
        TRY(there.write_mark(marks.entered));
        TRY(there.write_rest("no"));
      }
      return there.set_target(1);
    }();
    if (entered) return at(looked, looked.here).quiet(looked.watched.now);
    // The job stays; whether the place it was to enter has the target 1 after all the next look
    // shows.
    there.try_to_write_rest(wire::to_rfc3339(looked.watched.now));
    if (auto marked = there.write_mark(marks.refused); !marked)
      io::complain("watch", marked.error().message);
    return entered;
  }

  static std::string ended_in(const Looked& looked) {
    std::string ended;
    for (const Seen& it : looked.places) ended += it.ended;
    return ended;
  }

  static void add_all_fleets(const Looked& looked, launch::Fallback& next) {
    for (const Seen& it : looked.places)
      if (const JobFleet* own = it.own()) next.fleets.push_back(own->fleet.id);
  }

  std::vector<launch::PlaceSeen> seen_with_prices(const Looked& looked) const {
    auto seen = looked.places_seen(places_);
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (prices_[i].known.spot) seen[i].dollars = prices_[i].spot;
    return seen;
  }

  // `ending`: a fleet that is to end because no instance came of it.
  std::vector<launch::PaidPlace> paid_places(const Looked& looked, const FleetId& ending) const {
    std::vector<launch::PaidPlace> paid(places_.size());
    for (std::size_t i = 0; i < places_.size(); ++i) {
      paid[i].has_fleet = looked.places[i].own() != nullptr;
      if (prices_[i].known.on_demand) paid[i].dollars = prices_[i].on_demand;
      for (const JobFleet& it : looked.places[i].all) {
        const auto lacked =
            it.fleet.id == ending ? std::optional(looked.watched.now) : launch::lack_of(it.rests);
        if (!it.is_own() && lacked) paid[i].lacked = std::max(paid[i].lacked, lacked);
      }
    }
    return paid;
  }
  std::size_t cheapest_on_demand(const Looked& looked, const FleetId& ending = {}) const {
    return launch::place_on_demand(paid_places(looked, ending), looked.here, looked.watched.now);
  }

  // The fleet that lacks capacity ends first: if two asked, one might be taken for another
  // watcher's.
  Result<void, CallError> ask_elsewhere(const Looked& looked, const launch::Fallback& next) {
    const FleetId& ending = next.fleets.front();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (!has_fleet(looked, i, ending)) continue;
      const There there = at(looked, i);
      // It is ended because no instance came.
      if (!options_.dry_run)
        TRY(there.write_tag(ending, tag::rests, launch::tag_of_lack(there.seen.watched.now)));
      TRY(there.end_fleets_of(next.fleets));
    }
    return at(looked, cheapest_on_demand(looked, ending))
        .ask_on_demand(next.mark, ended_in(looked) + "\n" + ending.str());
  }

  static bool has_fleet(const Looked& looked, std::size_t place, const FleetId& id) {
    return std::ranges::any_of(looked.places[place].fleets,
                               [&](const JobFleet& it) { return it.fleet.id == id; });
  }

  // Adds the place to ask next if the on-demand fleet that is there gets no instance.
  void add_next_on_demand(Looked& looked) const {
    if (looked.watched.beside.size() != 1) return;
    const FleetId& asks = looked.watched.beside.front().id;
    const auto paid = paid_places(looked, asks);
    const std::size_t next = launch::place_on_demand(paid, looked.here, looked.watched.now);
    if (paid[next].has_fleet && !launch::lacks(paid[next], looked.watched.now))
      looked.watched.next_on_demand = places_[next].calls->region().str();
  }

  // The figures change at each look: alone they are printed when they are written down.
  void say(const std::string& reason, const std::string& figures, bool news) {
    if (reason == said_ && (figures.empty() || !news)) return;
    std::printf("%s %s%s%s\n", wire::to_rfc3339(places_.front().calls->now()).c_str(),
                reason.c_str(), figures.empty() ? "" : "; ", figures.c_str());
    said_ = reason;
  }

  void complain_once(const std::string& what) {
    if (!what.empty() && what != complained_) io::complain("watch", what);
    complained_ = what;
  }

  Result<void, CallError> add_prospect(Looked& looked) {
    if (job_.launch->on_demand.when != config::OnDemand::When::WhenNeeded) return {};
    launch::Watched& watched = looked.watched;
    if (!watched.own) return {};
    const auto due = due_of(job_.deadline, looked.all());
    if (!due) return failed("AWS does not say when the job's first fleet was made");
    refresh_prices();
    const PoolPrices& here = prices_[looked.here];
    const auto before = watched.mark ? watched.mark->outlook : std::nullopt;
    const auto published = published_progress(job_);
    complain_once(published ? here.trouble : published.error().message);
    const double since = watched.mark ? launch::hours_of(watched.now - watched.mark->looked) : 0;
    const auto says = published ? launch::of_this_run(*published) : std::nullopt;
    const PoolPrices& paid = prices_[cheapest_on_demand(looked)];
    launch::Prospect prospect{.due = *due,
                              .work = launch::work_of(job_.deadline, says, before, since),
                              .start = launch::hours_of(launch::start_of(job_)),
                              .interval = launch::hours_of(options_.until_next_look()),
                              .on_demand = paid.on_demand,
                              .spot = here.spot,
                              .zone = here.zone,
                              .dollars_left = {},
                              .gives_way = job_.deadline.gives_way};
    launch::keep_prices(prospect, {paid.known.on_demand, here.known.spot}, before);
    if (const auto& spot = looked.seen().spot)
      if (const auto* pool = here.find(*spot)) {
        prospect.spot = pool->dollars;
        prospect.zone = pool->zone;
      }
    if (published) spent_ = says ? says->progress.dollars : 0;
    watched.publication_known = published.has_value();
    if (says && says->at) watched.publication = says;
    prospect.spent_unknown = job_.deadline.dollars && !spent_;
    if (job_.deadline.dollars && spent_)
      prospect.dollars_left = std::max(0.0, *job_.deadline.dollars - *spent_);
    watched.prospect = prospect;
    return {};
  }

  void refresh_prices() {
    constexpr std::chrono::minutes often{5};
    const auto now = std::chrono::steady_clock::now();
    if (priced_ && now - *priced_ < often) return;
    for (std::size_t i = 0; i < places_.size(); ++i)
      prices_[i] = prices_now(*places_[i].calls, *places_[i].job.launch);
    priced_ = now;
  }

  const std::vector<JobPlace>& places_;
  const config::Job& job_;
  const WatchOptions& options_;
  std::string said_, complained_;
  std::optional<double> spent_;     // as far as it could be read
  std::vector<PoolPrices> prices_;  // of each place
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

Result<int> run(const WatchOptions& given) {
  WatchOptions options = given;
  const auto job = TRY(of_input(job_to_launch(options.job)));
  const auto interval = config::duration.parse(options.interval);
  if (!interval || *interval > launch::longest_interval || *interval < std::chrono::seconds(1))
    return mistake("--interval " + options.interval + ": a duration of 1s to 10m");
  options.pause = *interval;
  const auto places = TRY(places_of(job));
  Watcher watcher(places, options);
  if (!options.once && !options.dry_run) return watch(watcher, *interval);
  TRY(watcher.once());
  return 0;
}

}  // namespace

launch::PlaceSeen place_seen(const JobPlace& place, const std::vector<JobFleet>& fleets) {
  launch::PlaceSeen seen{place.calls->region().str(), {}, {}};
  for (const JobFleet& it : fleets) {
    if (!it.is_at_work() || !it.is_own() || seen.own) continue;
    seen.own = watched(it);
    seen.mark = launch::mark_of(it.watched);
  }
  return seen;
}

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
