#include "agent/commands/launch.hpp"

#include <cstdio>
#include <ctime>
#include <filesystem>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/base/text.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/doctor.hpp"
#include "agent/commands/job_storage.hpp"
#include "agent/commands/logs.hpp"
#include "agent/commands/machines.hpp"
#include "agent/config/values.hpp"
#include "agent/launch/requests.hpp"
#include "agent/wire/status.hpp"

namespace spotter::command {
namespace {

// `spotter launch --dry-run`.

void print_line(const std::string& line) { std::printf("%s\n", line.c_str()); }

// Prints the requests of a first launch as they are sent, except for values that only AWS knows.
int print_requests(const LaunchedJob& launched) {
  const auto& [job, user_data, digest, packages, rests, regions, code] = launched;
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const launch::FleetRequest fleet{
      {"lt-OF-THE-TEMPLATE", "1"},     "TOKEN", digest, {}, rests, launch::tag_of_regions(regions),
      launch::ends_by_itself(job, now)};
  if (code)
    print_line("# The code, " + describe(*code, job.code->folder) + ", goes to\n# " +
               job.code->repository + "data/" + code->revision + "/");
  if (!packages.empty()) print_line("# Unless they are there:");
  for (const launch::SentPackage& it : packages) print_line(launch::send_command(it));
  std::string image = job.launch->image;
  if (image.starts_with(image_parameter)) {
    print_line("# The image is the value of this:\naws ssm get-parameter --name " +
               wire::shell_quoted(image.substr(image_parameter.size())));
    image = "ami-OF-THE-PARAMETER";
  }
  if (!job.storage.share && !job.sweep && job.launch->volume) {
    print_line("# Unless the job's volume is there:");
    print_line(wire::command_of(launch::create_volume(job, "TOKEN")));
  }
  if (job.launch->placement_group == config::own_placement_group) {
    print_line("# Unless the job's placement group is there:");
    print_line(wire::command_of(launch::create_placement_group(job)));
  }
  launch::Template content{.image = image, .user_data = user_data, .launched = std::time(nullptr)};
  if (const auto disk = config::root_disk(job)) {
    content.root = "/dev/OF-THE-IMAGE";
    content.disk = *disk;
  }
  if (job.launch->efa) {
    std::string types;
    for (const std::string& it : job.launch->instance_types) types += " " + wire::shell_quoted(it);
    print_line(
        "# With an interface on each network card with EFA, by this:\n"
        "aws ec2 describe-instance-types --instance-types" +
        types);
    content.interfaces = {{0, "efa"}};
  }
  print_line("# When there is such a template already, it gets a new version instead:");
  print_line(wire::command_of(launch::create_template(job, content)));
  print_line("# Once no other fleet of the job is at work:");
  if (job.launch->type == FleetKind::AutoScalingGroup)
    print_line("# (a group that is there already is changed to this instead)");
  print_line(wire::command_of(launch::request_fleet(job, fleet)));
  if (job.launch->type == FleetKind::AutoScalingGroup)
    print_line(wire::command_of(launch::keep_zones(FleetId(launch::resource_name(job)))));
  if (job.launch->on_demand.needs_watcher()) {
    print_line("# By `spotter watch`, for as long as there is no spot capacity:");
    print_line(
        wire::command_of(launch::request_on_demand(job, FleetId("fleet-OF-THE-JOB"), fleet)));
  }
  return 0;
}

// Prints the requests of a first launch in each of its places, as commands of `aws`. Returns the
// exit status.
int print_all_requests(const LaunchedJob& launched, const std::vector<config::Job>& jobs) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::string& region = jobs[i].launch->region;
    if (jobs.size() > 1)
      print_line("# In " + (region.empty() ? "the region that AWS_REGION names" : region) + ":");
    LaunchedJob there = launched_at(launched, jobs[i], i > 0);
    for (const config::Job& it : jobs)
      if (jobs.size() > 1)
        there.regions.push_back(it.launch->region.empty() ? "THIS-REGION" : it.launch->region);
    print_requests(there);
  }
  return 0;
}

struct LaunchOptions {
  std::string job = "job.yaml";
  bool dry_run = false;
  bool skip_checks = false;
  bool logs = false;
  bool holds = false;
  bool again = false;
  bool yes = false;
};

// The things that the job has at AWS when a launch begins.
struct Found {
  std::vector<JobFleet> fleets;  // over or not
  std::optional<wire::LaunchTemplate> launch_template;

  // Equal for launches that see the same: of two concurrent ones only one makes the fleet.
  std::string generation() const {
    std::string text = launch_template ? launch_template->latest_version : "0";
    for (const JobFleet& it : fleets) text += "\n" + it.fleet.id.str();
    return wire::sha256_hex(text).substr(0, 16);
  }
};

Result<Found, CallError> look(AwsCalls& calls, const config::Job& job) {
  auto fleets = TRY(job_fleets(calls, key_of(job)));
  auto templates = TRY(templates_of(calls, launch::resource_name(job)));
  Found found{std::move(fleets), {}};
  if (!templates.empty()) found.launch_template = std::move(templates.front());
  return found;
}

// The job's only fleet, if it differs from the wanted one at most in its target.
const JobFleet* same_fleet(const Found& found, const LaunchedJob& launched) {
  const JobFleet* only = nullptr;
  for (const JobFleet& it : found.fleets) {
    if (!it.is_at_work() || !it.is_own()) continue;
    if (only != nullptr) return nullptr;
    only = &it;
  }
  return only != nullptr && only->digest == launched.digest ? only : nullptr;
}

// On-demand fleets whose agent gave the job up: beside them `spotter watch` would ask for no other.
Result<void, CallError> end_given_up(AwsCalls& calls, std::vector<JobFleet> fleets) {
  std::erase_if(fleets, [](const JobFleet& it) {
    return !it.is_at_work() || it.role != tag::role_on_demand || it.target > 0;
  });
  return end_fleets(calls, fleets, true);
}

Result<FleetId, CallError> keep(AwsCalls& calls, const JobFleet& fleet,
                                const LaunchedJob& launched) {
  config::Launch launch = *launched.job.launch;
  if (launched.rests) launch.capacity = 0;
  const int capacity = launch.capacity;
  const FleetId id = fleet.fleet.id;
  if (fleet.ends)
    io::complain("launch", id.str() + " ends by itself, with its machines, at " +
                               wire::to_rfc3339(*fleet.ends) +
                               ", as before: `spotter stop`, then another launch, gives it longer");
  if (fleet.target == capacity) {
    io::complain("launch", id.str() + " is at work already, as job.yaml wants it");
    const auto instances = job_instances(calls, JobKey{fleet.job, fleet.storage});
    const bool lacks = instances && static_cast<int>(instances->size()) < capacity;
    if (const auto why = lacks ? launch_failure(calls, fleet) : std::string(); !why.empty())
      io::complain("launch", "an instance that it was to launch failed: " + why);
    return id;
  }
  if (launched.rests) {  // or the watcher would take its target for a stop
    const wire::Tags rests{{tag::rests, wire::to_rfc3339(calls.now())}};
    TRY(calls.perform(encode(wire::CreateTags{{id.str()}, rests})));
  }
  TRY(calls.perform(launch::set_capacity(fleet.fleet, launch::capacity_of(launch))));
  io::complain("launch", id.str() + " is to have " + std::to_string(capacity) + " instead of " +
                             std::to_string(fleet.target) +
                             (capacity == 1 ? " instance" : " instances"));
  return id;
}

// A fleet goes on trying when EC2 says what it cannot launch; one of a reservation has launched
// already, or never will.
Result<FleetId, CallError> create_fleet(AwsCalls& calls, const wire::AwsCommand& command,
                                        const config::Job& job) {
  const config::Launch& launch = *job.launch;
  const auto made = TRY(calls.ask(command, wire::decode_created_fleet));
  if (launch.reservation && made.instances == 0)
    return failed("EC2 launched nothing into " + launch.reservation->id + ": " + made.errors +
                  "; where an instance has ended, there is room again some minutes later");
  if (launch.reservation && job.gang &&
      made.instances < static_cast<std::size_t>(launch.capacity)) {
    const auto ended = calls.ask(wire::DeleteFleets{{made.id}, true});
    return failed(launch.reservation->id + " has room for " + std::to_string(made.instances) +
                  " of the gang's " + std::to_string(launch.capacity) + " machines" +
                  (ended && ended->empty() ? ", which are ended again"
                                           : ", which run on: end " + made.id.str()));
  }
  if (launch.reservation)
    std::fprintf(stderr,
                 "spotter: %s has launched %zu of %d into %s, and launches no more: when they have "
                 "ended, `spotter launch` again; the job's end ends them, or `spotter stop`\n",
                 made.id.str().c_str(), made.instances, launch.capacity,
                 launch.reservation->id.c_str());
  if (!made.errors.empty()) io::complain("launch", made.id.str() + ": " + made.errors);
  return made.id;
}

Result<FleetId, CallError> request(AwsCalls& calls, const LaunchedJob& launched,
                                   const launch::FleetRequest& wanted) {
  const auto command = launch::request_fleet(launched.job, wanted);
  const FleetKind kind = launched.job.launch->type;
  if (kind == FleetKind::AutoScalingGroup) {
    auto made = calls.perform(command);
    if (!made && made.error().code == "AlreadyExists")
      made.error().message += "; it is not this job's, or another launch is under way";
    if (!made) return tl::unexpected(made.error());
    const FleetId group(launch::resource_name(launched.job));
    if (auto kept = calls.perform(launch::keep_zones(group)); !kept)
      io::complain("launch",
                   kept.error().message + ": the group may end an instance to even out its zones");
    return group;
  }
  auto id = kind == FleetKind::SpotFleet ? calls.ask(command, wire::decode_requested_spot_fleet)
                                         : create_fleet(calls, command, launched.job);
  if (!id && id.error().code == "IdempotentParameterMismatch")
    id.error().message = "another launch of " + launched.job.name.str() +
                         " is under way: wait for its end, and look with `spotter list`";
  return id;
}

// The job's group, if it exists: whatever its settings were, they are changed to the wanted ones.
const JobFleet* group_of(const Found& found, const config::Job& job) {
  const Fleet wanted{job.launch->type, FleetId(launch::resource_name(job))};
  const auto it = std::ranges::find(found.fleets, wanted, &JobFleet::fleet);
  return it == found.fleets.end() ? nullptr : &*it;
}

Result<FleetId, CallError> renew(AwsCalls& calls, const LaunchedJob& launched,
                                 const launch::TemplateVersion& version, const JobFleet& group) {
  const std::vector<wire::AwsCommand> steps = {
      launch::update_group(launched.job, version), launch::tag_group(launched.job, launched.digest),
      launch::keep_zones(group.fleet.id),
      // Without an instance nothing shows that the group may not launch any.
      launch::let_launch(group.fleet.id, true)};
  for (const wire::AwsCommand& step : steps) TRY(calls.perform(step));
  return group.fleet.id;
}

// A launch that began after another had made its template, but before its fleet, did not see that
// fleet: the younger of two such fleets is ended.
Result<FleetId, CallError> settle(AwsCalls& calls, const JobKey& job, const FleetId& ours) {
  auto fleets = TRY(job_fleets(calls, job));
  std::erase_if(fleets, [](const JobFleet& it) { return !it.is_at_work() || !it.is_own(); });
  const auto own = std::ranges::find(fleets, ours, [](const auto& it) { return it.fleet.id; });
  if (own == fleets.end() || own == fleets.begin()) return ours;
  const FleetId earlier = fleets.front().fleet.id;
  TRY(end_fleets(calls, {*own}, true));
  return failed("another launch made " + earlier.str() + " meanwhile: " + ours.str() +
                " is ended again");
}

const CallError refused{
    .message =
        "nothing was launched, and what runs goes on: mend what fails above, or --skip-checks"};

// A fleet would try again by itself; a dry run and an Auto Scaling group fail meanwhile.
Result<void, CallError> wait_for_profile(AwsCalls& calls, const config::Job& job,
                                         const launch::TemplateVersion& version) {
  const config::Launch& launch = *job.launch;
  const auto& places = launch.subnets.empty() ? launch.zones : launch.subnets;
  const auto instance = launch::run_instance(job, version, launch.instance_types.front(),
                                             places.empty() ? "" : places.front());
  return await_profile(calls, wire::query_of(instance), "launch");
}

Result<void> refuse_past(const config::Deadline& deadline, const std::vector<JobFleet>& fleets,
                         wire::WallTime now) {
  const auto due = due_of(deadline, fleets);
  if (!due || *due > now) return {};
  return failure("the job was to finish by " + wire::to_rfc3339(*due) +
                 ", which is past: give it a later `finish_by` or a longer `within`, or none");
}

// A fleet in a region that launch.pools no longer has would go on with nobody who watches it.
Result<void, CallError> refuse_left_regions(AwsCalls& calls, const LaunchedJob& launched,
                                            const std::vector<JobFleet>& fleets) {
  std::vector<std::string> known = launched.regions;
  known.push_back(calls.region().str());
  for (const JobFleet& it : fleets)
    if (const auto left = launch::regions_beyond(it.regions, known);
        it.is_at_work() && !left.empty())
      return failed(it.fleet.id.str() + " is of a launch in " + left +
                    ", too, which job.yaml does not name any more: end what is there first, by "
                    "`spotter stop` with the job.yaml of that launch");
  return {};
}

// Refuses what can be refused before anything is changed.
Result<Found, CallError> examine(AwsCalls& calls, const LaunchedJob& launched, bool checked) {
  const config::Job& job = launched.job;
  TRY(refuse_namesakes(calls, key_of(job)));
  if (checked && !passes(examine_before_launch(calls, launched))) return tl::unexpected(refused);
  auto found = TRY(look(calls, job));
  TRY(refuse_past(job.deadline, found.fleets, calls.now()));
  TRY(refuse_left_regions(calls, launched, found.fleets));
  const auto preparers = TRY(preparing(calls, key_of(job)));
  if (!preparers.empty())
    return failed(preparers.front().str() +
                  " prepares the volume: launch when it has ended, or "
                  "end it: `spotter stop " +
                  job.name.str() + " --wait`");
  return found;
}

// A fleet of a reservation can neither be changed nor completed: another one is launched.
bool is_whole(AwsCalls& calls, const JobFleet& fleet, const config::Launch& launch) {
  const auto instances = job_instances(calls, JobKey{fleet.job, fleet.storage});
  const auto whole = static_cast<std::size_t>(launch.capacity);
  const auto at_work = [](const wire::Instance& it) {
    return it.state == InstanceState::Pending || it.state == InstanceState::Running;
  };
  return fleet.target == launch.capacity && instances &&
         static_cast<std::size_t>(std::ranges::count_if(*instances, at_work)) == whole;
}

Result<FleetId, CallError> launch_fleet(AwsCalls& calls, const LaunchedJob& launched,
                                        const Found& found, bool checked) {
  const config::Job& job = launched.job;
  const std::string generation = found.generation();
  TRY(send_packages(launched.packages));
  if (launched.code) TRY(send_code(*launched.code, *launched.job.code));
  // Before the template: a later launch that sees the template also sees the volumes.
  TRY(provide_volumes(calls, job, generation));
  TRY(provide_placement_group(calls, job));
  if (const JobFleet* same = same_fleet(found, launched);
      same != nullptr && (!same->instant || is_whole(calls, *same, *job.launch))) {
    TRY(end_given_up(calls, found.fleets));
    return keep(calls, *same, launched);
  }
  const auto version = TRY(provide_template(calls, launched, false));
  TRY(checked ? wait_for_profile(calls, job, version) : Result<void, CallError>());
  if (checked && !passes(examine_fleet(calls, launched, version))) return tl::unexpected(refused);
  TRY(stop_job(calls, key_of(job), {.keep_instances = false, .wait = true}));
  const std::string own = job.name.str() + "\n" + config::storage_name(job) + "\n" + generation;
  const std::string token = "spotter-" + wire::sha256_hex(own).substr(0, 40);
  // Meanwhile a stop elsewhere may have deleted it, as nothing was in it.
  TRY(provide_placement_group(calls, job));
  const JobFleet* group = group_of(found, job);
  const launch::FleetRequest wanted{version,
                                    token,
                                    launched.digest,
                                    first_launch_of(found.fleets),
                                    launched.rests,
                                    launch::tag_of_regions(launched.regions),
                                    launch::ends_by_itself(job, calls.now())};
  const auto fleet =
      group != nullptr ? renew(calls, launched, version, *group) : request(calls, launched, wanted);
  if (fleet && job.launch->type != FleetKind::AutoScalingGroup && !job.launch->reservation)
    std::fprintf(stderr, "spotter: %s ends by itself, with its machines, at %s (%s)\n",
                 fleet->str().c_str(), wire::to_rfc3339(*wanted.ends_at).c_str(),
                 job.limits.hours ? "three times limits.hours" : "or as limits.hours would say");
  return fleet ? settle(calls, key_of(job), *fleet) : fleet;
}

// One place's fleet asks for an instance: where the job is, else the first.
Result<std::size_t, CallError> place_to_launch(const std::vector<JobPlace>& places) {
  if (places.size() < 2) return 0;
  std::vector<launch::PlaceSeen> seen;
  for (const JobPlace& it : places) {
    const auto fleets = TRY(job_fleets(*it.calls, key_of(it.job)));
    seen.push_back(place_seen(it, fleets));
  }
  return launch::place_of_job(seen);
}

// The error of one place among several: where it failed, and what was launched before it.
CallError failed_there(const JobPlace& place, CallError why, const std::string& made) {
  if (!made.empty() && why.message == refused.message)
    why.message = "mend what fails above, or --skip-checks";
  why.message = "in " + place.calls->region().str() + ": " + why.message;
  if (!made.empty()) why.message += "; launched already: " + made;
  return why;
}

// The place where the job is comes last: it goes on as it was when another one fails.
Result<void, CallError> launch_in(const std::vector<JobPlace>& places, const LaunchedJob& launched,
                                  bool checked) {
  const auto active = TRY(place_to_launch(places));
  const bool several = places.size() > 1;
  std::vector<std::string> regions;
  if (several)
    for (const JobPlace& it : places) regions.push_back(it.calls->region().str());
  std::vector<std::size_t> order;
  std::vector<LaunchedJob> there;
  std::vector<Found> found;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i != active) order.push_back(i);
    there.push_back(launched_at(launched, places[i].job, i != active));
    there[i].regions = regions;
    auto seen = examine(*places[i].calls, there[i], checked);
    if (!seen)
      return tl::unexpected(several ? failed_there(places[i], seen.error(), "") : seen.error());
    found.push_back(std::move(*seen));
  }
  order.push_back(active);
  std::vector<std::string> lines(places.size());
  std::string made;
  for (const std::size_t i : order) {
    if (i != order.front())  // some time has gone by
      if (auto now = look(*places[i].calls, places[i].job)) found[i] = std::move(*now);
    const auto fleet = launch_fleet(*places[i].calls, there[i], found[i], checked);
    if (!fleet)
      return tl::unexpected(several ? failed_there(places[i], fleet.error(), made) : fleet.error());
    lines[i] = fleet->str() + (several ? " " + places[i].calls->region().str() : "");
    made += (made.empty() ? "" : ", ") + lines[i];
  }
  for (const std::string& it : lines) print_line(it);
  return {};
}

// Without asking AWS.
std::vector<config::Job> jobs_by_place(const config::Job& job) {
  std::vector<config::Job> jobs;
  for (std::size_t i = 0; i < std::max<std::size_t>(job.launch->places.size(), 1); ++i)
    jobs.emplace_back(job).launch = config::launch_at(*job.launch, i);
  return jobs;
}

bool pass_machines(const std::vector<JobPlace>& places, const LaunchedJob& launched) {
  return std::ranges::all_of(places, [&](const JobPlace& it) {
    return passes(examine_machines(*it.calls, it.job, launched.packages));
  });
}

Result<int> run(const LaunchOptions& options) {
  auto launched = TRY(of_input(launched_job(options.job, launch::Work::Serve, {}, options.holds)));
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  TRY(of_input(refuse_past(launched.job.deadline, {}, now)));
  const auto jobs = jobs_by_place(launched.job);
  const bool by_id =
      std::ranges::any_of(jobs, [](const auto& it) { return says_zone_ids(*it.launch); });
  if (options.dry_run && !by_id) return print_all_requests(launched, jobs);
  const auto places = TRY(places_of(launched.job));
  if (options.dry_run) {
    std::vector<config::Job> named;
    for (const JobPlace& it : places) named.push_back(it.job);
    return print_all_requests(launched, named);
  }
  if (launched.code) {
    io::complain("launch", "the code: " + describe(*launched.code, launched.job.code->folder));
    for (const std::string& it : launched.code->doubts) io::complain("launch", "the code: " + it);
  }
  (void)passes(examine_unsent(launched.job));
  if (!options.skip_checks && !pass_machines(places, launched)) return mistake(refused.message);
  if (options.again)
    if (const int status = delete_job(options.job, options.yes); status != 0) return status;
  TRY(launch_in(places, launched, !options.skip_checks));
  if (launched.job.launch->on_demand.needs_watcher())
    io::complain("launch", "an instance on demand comes only while `spotter watch " + options.job +
                               "` runs somewhere, or `spotter watch --once` from a timer: with no "
                               "instance there is nobody else to ask for one");
  if (launched.job.on_failure.then == GiveUp::Hold)
    io::complain("launch",
                 "a machine that fails stays " +
                     wire::duration_text(
                         std::chrono::duration<double>(launched.job.on_failure.hold).count()) +
                     " for a look at it, and costs (on_failure.hold)");
  const bool followed = launched.job.publish && !launched.job.sweep;
  if (followed && !options.logs)
    std::fprintf(stderr, "spotter: what it prints: spotter logs -f %s\n", options.job.c_str());
  if (!options.logs) return 0;
  std::fflush(stdout);
  launched.code.reset();  // its scratch folder, which nobody needs any more
  return logs({.job = options.job,
               .follow = true,
               .since = std::chrono::duration<double>(now.time_since_epoch()).count()});
}

// `spotter stop`.

constexpr const char* of_group = "aws:autoscaling:groupName";

struct StopOptions {
  std::string job = "job.yaml";
  bool keep_instances = false;
  bool wait = false;
};

// The things to end, with AWS in each region where they may be.
struct Ends {
  JobKey key;
  // A placement group of its own: the job's description says so; of a name it is not known.
  bool has_group = false;
  bool may_have_group = true;
  std::vector<std::unique_ptr<AwsCalls>> regions;
};

// `job`: a file, or the job's name; of a name nothing is known but the region that AWS_REGION says.
Result<Ends> ends_of(const std::string& job) {
  Ends ends;
  std::error_code ignored;
  if (!fs::exists(job, ignored) && config::job_name.parse(job)) {
    ends.key = {job, {}};
    ends.regions.push_back(TRY(AwsCalls::open()));
    return ends;
  }
  const auto described = job_to_launch(job);  // what launching takes may be gone
  if (!described) return tl::unexpected(described.error());
  ends.key = key_of(*described);
  // A group that is named there is a user's, whatever its name.
  ends.may_have_group =
      described->gang && !(described->launch &&
                           described->launch->placement_group == launch::resource_name(*described));
  ends.has_group =
      described->launch && described->launch->placement_group == config::own_placement_group;
  auto places = TRY(unnamed_places_of(*described));
  for (JobPlace& it : places) ends.regions.push_back(std::move(it.calls));
  return ends;
}

// Ends instances of fleets that were asked to keep them, and of fleets that AWS no longer lists. A
// group ends its own, with time for a checkpoint.
Result<void, CallError> end_instances(AwsCalls& calls, const JobKey& job) {
  const auto left = TRY(job_instances(calls, job));
  wire::TerminateInstances request;
  for (const auto& it : left)
    if (it.state != wire::InstanceState::ShuttingDown && !it.tags.contains(of_group))
      request.instances.push_back(it.id);
  if (request.instances.empty()) return {};
  const auto ended = calls.ask(request);
  if (!ended && !ended.error().unsettled()) return tl::unexpected(ended.error());
  return {};
}

// Nothing to end is a success, but not in silence: a mistyped name looks the same.
void remark_nothing(AwsCalls& calls, const JobKey& job) {
  const auto fleets = job_fleets(calls, job);
  const auto instances = job_instances(calls, job);
  if (!fleets || !instances || !instances->empty()) return;
  const bool any = std::ranges::any_of(
      *fleets, [](const JobFleet& it) { return it.is_at_work() || it.is_suspended(); });
  if (any) return;
  std::fprintf(stderr, "spotter: nothing of %s runs in %s: `spotter list` shows all jobs\n",
               job.name.c_str(), calls.region().str().c_str());
  if (!job.storage.empty()) return;  // then each region is ended
  for (const JobFleet& it : *fleets)
    if (const auto others = launch::regions_beyond(it.regions, {calls.region().str()});
        !others.empty())
      return (void)std::fprintf(stderr,
                                "spotter: %s may have fleets in %s: end all of it with its "
                                "description, as in `spotter stop job.yaml`\n",
                                job.name.c_str(), others.c_str());
}

// By its name alone nothing is known of the other regions, where it would go on.
Result<void, CallError> refuse_part(AwsCalls& calls, const JobKey& job) {
  const auto fleets = TRY(job_fleets(calls, job));
  for (const JobFleet& it : fleets)
    if (const auto others = launch::regions_beyond(it.regions, {calls.region().str()});
        it.is_at_work() && !others.empty())
      return failed(job.name + " has fleets in " + others +
                    ", too: end all of it with its description, as in `spotter stop job.yaml`");
  return {};
}

Result<int> run(const StopOptions& options) {
  const auto ends = TRY(of_input(ends_of(options.job)));
  int status = 0;
  for (const auto& calls : ends.regions) {
    JobKey whose = ends.key;
    if (ends.key.storage.empty()) {
      whose.storage = TRY(refuse_namesakes(*calls, ends.key));
      TRY(refuse_part(*calls, ends.key));
    }
    remark_nothing(*calls, ends.key);
    const auto stopped = stop_job(*calls, ends.key, {options.keep_instances, options.wait});
    if (!stopped) status = io::complain("stop", stopped.error().message);
    if (!stopped || options.keep_instances || !ends.may_have_group) continue;
    const auto emptied =
        end_placement_group(*calls, whose, {.known = ends.has_group, .wait = options.wait});
    if (!emptied) status = io::complain("stop", emptied.error().message);
  }
  return status;
}

}  // namespace

void add_launch(CLI::App& app, int& status) {
  const auto [command, options] = add_job_command<LaunchOptions>(
      app, "launch",
      "Requests the fleet of job.yaml's `launch:`, and makes what it needs: the volume, the launch "
      "template; if something has changed since, the job continues in a new fleet",
      status, run);
  command->add_flag("--dry-run", options->dry_run,
                    "Prints the requests, as commands of `aws`, and does nothing");
  command->add_flag("--skip-checks", options->skip_checks,
                    "Launches even if a check of `spotter doctor` fails");
  command->add_flag("--hold-failed", options->holds,
                    "Keeps a machine on which the job fails for a day, to look at it, as "
                    "on_failure.then: hold does; it costs");
  command
      ->add_flag("--again", options->again,
                 "From scratch: first deletes all that the job has, as `spotter delete` does, "
                 "after a question")
      ->excludes("--dry-run");
  command->add_flag("--yes", options->yes, "With --again: asks nothing")->needs("--again");
  command->add_flag("--logs", options->logs, "Then follows what it prints, as `spotter logs -f`");
}

Result<void, CallError> stop_job(AwsCalls& calls, const JobKey& job, const Stop& how) {
  auto fleets = TRY(job_fleets(calls, job));
  std::erase_if(fleets, [&](const JobFleet& it) {
    const bool only_its_own = how.keep_instances && it.instant;  // it launches no others
    return only_its_own || (!it.is_at_work() && (how.keep_instances || !it.is_suspended()));
  });
  TRY(end_fleets(calls, fleets, !how.keep_instances));
  for (const JobFleet& it : fleets)
    std::fprintf(stderr, "spotter: %s is ended%s\n", it.fleet.id.str().c_str(),
                 how.keep_instances ? "; its instances run on" : ", and so are its instances");
  if (how.keep_instances) return {};
  TRY(end_instances(calls, job));
  return how.wait ? wait_for_instances_to_end(calls, job) : Result<void, CallError>{};
}

void add_stop(CLI::App& app, int& status) {
  const auto [command, options] = add_job_command<StopOptions>(
      app, "stop",
      "Ends the fleets and instances of a job; its volume stays, and `launch` continues", status,
      run, "The job's description, or its name");
  command->add_flag("--keep-instances", options->keep_instances,
                    "Ends only the fleets: running instances continue until they are interrupted");
  command->add_flag("--wait", options->wait, "Waits until no instance is left");
}

}  // namespace spotter::command
