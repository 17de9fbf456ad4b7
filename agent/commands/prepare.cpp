#include "agent/commands/commands.hpp"

#include <sys/stat.h>
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <thread>

#include "agent/aws/aws_calls.hpp"
#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/aws/s3/objects.hpp"
#include "agent/commands/job_storage.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/commands/machines.hpp"
#include "agent/commands/prepare_here.hpp"
#include "agent/config/prepare.hpp"
#include "agent/io/files.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/requests.hpp"
#include "trainer/library/transfer.hpp"

namespace spotter::command {

namespace {

// Uploads a local folder to S3, for an instance to fetch.

bool is_there(const std::map<std::string, wire::ListedObject>& objects, const std::string& key,
              const fs::path& path) {
  const auto found = objects.find(key);
  struct stat status {};
  if (found == objects.end() || ::stat(path.c_str(), &status) != 0) return false;
  // Also the change of its status: a file copied with its old date has a new one there.
  const auto last = std::max(status.st_mtime, status.st_ctime);
  const auto written = std::chrono::sys_seconds(std::chrono::seconds(last));
  return found->second.size == static_cast<std::uint64_t>(status.st_size) &&
         found->second.modified > written;
}

Result<std::size_t> send(const Source& source, const std::atomic<bool>& stop) {
  const auto files = TRY(config::files_of(source.from));
  if (files.empty()) return failure("there is nothing in " + source.from);
  const auto via = TRY(wire::parse_s3_url(source.via));
  s3::Client client({.environment = act::Environment::of_this_process()});
  const auto listed = TRY(s3::list(client, via));
  std::map<std::string, wire::ListedObject> objects;
  for (const wire::ListedObject& it : listed.objects) objects.emplace(it.key, it);
  std::vector<bucket::Wanted> missing;
  std::map<std::string, fs::path> paths;
  for (const auto& [name, path] : files) {
    if (is_there(objects, via.key + name, path)) continue;
    missing.push_back({name, name, {}, {}});
    paths[name] = path;
  }
  bucket::Bucket place(via, {}, {.environment = act::Environment::of_this_process()});
  bucket::Sender sender(place, "", [&](const std::string& name) {
    return io::open_for_reading(paths[name]).map([](io::Descriptor file) {
      return checkpoint::Descriptor(file.release());
    });
  });
  const auto sent = sender.send(missing, &stop);
  if (!sent) return failure(stop ? "stopped: run it again" : sent.error().message);
  return missing.size();
}

// `spotter prepare` from outside of EC2.
struct RemoteOptions {
  std::string job = "job.yaml";
  std::string type = cheap_type;
  std::string send;  // on an instance: a file that says what goes to S3
};

// From a person's machine: a cheap instance in the volume's zone prepares it, and ends.

using Clock = std::chrono::steady_clock;
constexpr std::chrono::minutes until_it_is_there{2};
constexpr std::chrono::seconds between_descriptions{3};

// The command for which a machine is launched.
const char* command_of(const config::Job& job) { return job.sending ? "fetch" : "prepare"; }

std::string mark_of(const wire::Volume& volume) {
  return wire::value_of(volume.tags, tag::prepared);
}

// The job's subnet in this zone; if it names none, the zone's default subnet.
Result<std::string, CallError> subnet_in(AwsCalls& calls, const config::Launch& launch,
                                         const std::string& zone) {
  if (launch.subnets.empty()) return std::string();
  const auto found = TRY(calls.ask_all(wire::DescribeSubnets{.subnets = launch.subnets}));
  for (const wire::Subnet& it : found)
    if (it.zone.view() == zone) return it.id;
  return failed("the volume is in " + zone + ", and none of launch.subnets is");
}

// The machine's place: where the volume is, or will be; by a share wherever the job runs.
Result<launch::Preparer, CallError> place_for(AwsCalls& calls, const config::Job& job,
                                              const std::string& type,
                                              const std::optional<wire::Volume>& volume) {
  const config::Launch& launch = *job.launch;
  const auto first = [](const auto& all) { return all.empty() ? std::string() : all.front(); };
  if (job.storage.share) return launch::Preparer{type, first(launch.zones), first(launch.subnets)};
  if (!volume && !launch.volume) {
    config::Job same = job;
    return tl::unexpected(fit_new_volume(same, Zone()).error());  // the message says what to do
  }
  const std::string zone = volume ? volume->zone.str() : launch.volume->zone;
  auto subnet = TRY(subnet_in(calls, launch, zone));
  return launch::Preparer{type, zone, std::move(subnet)};
}

class Preparer {
 public:
  Preparer(AwsCalls& calls, const LaunchedJob& launched, const RemoteOptions& options)
      : calls_(calls), launched_(launched), job_(launched.job), options_(options) {}

  // The machine, once it has ended.
  Result<InstanceId, CallError> run(const std::atomic<bool>& stop) {
    const char* command = command_of(job_);
    auto there = TRY(preparing(calls_, key_of(job_)));
    if (!there.empty() && job_.sending)
      return failed(there.front().str() + " is at the storage already: wait for its end");
    if (there.empty()) {
      const auto volume = TRY(free_volume(calls_, job_, {}));
      if (!volume && job_.sending && !job_.storage.share) return failed("the job has no volume");
      there = TRY(begin(volume));
      io::complain(command, there.front().str() +
                                (job_.sending ? " sends the files of " +
                                                    (volume ? (*volume).id.str() : "the share") +
                                                    " to " + wire::to_url(job_.sending->to)
                                              : " prepares the volume") +
                                " (" + options_.type + "), and ends then");
    } else {
      io::complain(command, there.front().str() + " is at it already");
    }
    const InstanceId id = there.front();
    while (!there.empty()) {
      if (stop && job_.sending) {
        (void)calls_.ask(wire::TerminateInstances{.instances = {id}});
        remove_fleet();
        return failed("interrupted: " + id.str() + " is ended");
      }
      if (stop) return failed(id.str() + " goes on without us; run this again to see its end");
      std::this_thread::sleep_for(between_descriptions);
      const auto seen = preparing(calls_, key_of(job_));
      if (seen) there = *seen;  // keeps the last answer while the network is down
    }
    remove_fleet();
    return id;
  }

 private:
  Result<std::vector<InstanceId>, CallError> begin(const std::optional<wire::Volume>& volume) {
    const auto wanted = TRY(place_for(calls_, job_, options_.type, volume));
    const auto version = TRY(provide_template(calls_, launched_, true));
    const std::string token =
        "prepare-" + wire::sha256_hex(version.id + "\n" + version.version).substr(0, 40);
    const auto place = wanted.subnet.empty() ? wanted.zone : wanted.subnet;
    const auto alike = launch::run_instance(job_, version, options_.type, place);
    TRY(await_profile(calls_, wire::query_of(alike), "prepare"));
    const auto request = launch::request_preparer(job_, version, wanted, token);
    const auto fleet = TRY(calls_.ask(request, wire::decode_created_fleet));
    fleet_ = fleet.id;
    if (fleet.instances > 0 || fleet.errors.empty()) return await_instance();
    remove_fleet();
    return failed("EC2 launched no instance of type " + options_.type + ": " + fleet.errors +
                  ". Try again later, or --instance-type");
  }

  // EC2 lists it some seconds later.
  Result<std::vector<InstanceId>, CallError> await_instance() {
    for (const auto until = Clock::now() + until_it_is_there; Clock::now() < until;) {
      auto there = preparing(calls_, key_of(job_));
      if (!there || !there->empty()) return there;
      std::this_thread::sleep_for(between_descriptions);
    }
    return failed("no instance of type " + options_.type +
                  " came: is there capacity, and may the account launch it? Try --instance-type");
  }

  // Removes the fleet, now only a name. EC2 lists no fleet of type instant, so this one is
  // remembered; an earlier command's stays.
  void remove_fleet() {
    if (fleet_) (void)calls_.ask(wire::DeleteFleets{{fleet_}, true});
  }

  AwsCalls& calls_;
  const LaunchedJob& launched_;
  const config::Job& job_;
  const RemoteOptions& options_;
  FleetId fleet_;  // that this command made
};

std::string said_by(const InstanceId& instance) {
  return "why, it says here: aws ec2 get-console-output --latest --output text --instance-id " +
         instance.str();
}

Result<void, CallError> prepare_there(AwsCalls& calls, const LaunchedJob& launched,
                                      const RemoteOptions& options, const std::atomic<bool>& stop) {
  const auto volumes = TRY(volumes_of(calls, launched.job));
  const std::string before = volumes.empty() ? "" : mark_of(volumes.front());
  const auto id = TRY(Preparer(calls, launched, options).run(stop));
  const auto volume = TRY(free_volume(calls, launched.job, {}));
  const std::string mark = volume ? mark_of(*volume) : "";
  if (mark == before || !mark.starts_with(config::digest_of(launched.job.prepare)))
    return failed(id.str() + " has ended, and the volume is not prepared; " + said_by(id));
  io::complain("prepare",
               (*volume).id.str() + " in " + (*volume).zone.str() + " is ready, and free");
  return {};
}

// Checks the machine that prepares alone: it needs no GPU, and gets no volume of data.
Result<void> check_preparer(AwsCalls& calls, const LaunchedJob& launched, const std::string& type) {
  const char* command = command_of(launched.job);
  config::Job job = launched.job;
  job.launch->instance_types = {type};
  job.trainer.gpus = 0;
  job.storage.data.clear();
  std::string wrong;
  for (const Finding& it : examine_machines(calls, job, launched.packages)) {
    if (it.verdict == Finding::Verdict::Warn) io::complain(command, it.what + ": " + it.advice);
    if (it.verdict == Finding::Verdict::Fail)
      wrong += (wrong.empty() ? "" : "; ") + it.what + ": " + it.advice;
  }
  if (wrong.empty()) return {};
  return failure(wrong + " (or --instance-type)");
}

void add_remote_options(CLI::App& command, RemoteOptions& options) {
  command
      .add_option("--instance-type", options.type,
                  "Where this is no instance: of the one that is launched for it. `spotter iam "
                  "launcher` lets job.yaml's types be launched, and the default")
      ->capture_default_str();
}

// Uploads local folders to S3, launches an instance in the volume's zone that prepares the volume
// and ends, and waits for that. Returns the exit status.
Result<int> prepare_remote(AwsCalls& calls, const config::Job& job, const RemoteOptions& options,
                           const std::atomic<bool>& stop) {
  if (job.sweep)
    return mistake(
        "each experiment has a volume of its own: run this on a cheap instance of their zone");
  auto launched = TRY(of_input(launched_job(options.job, launch::Work::Prepare)));
  TRY(name_zones(calls, *launched.job.launch));
  TRY(of_input(check_preparer(calls, launched, options.type)));
  for (const Source& source : job.prepare) {
    if (!source.from.starts_with('/')) continue;
    if (source.via.empty())
      return mistake(
          "this is no EC2 instance: say by way of which place in S3 " + source.from +
          " goes to one (`via: s3://bucket/prefix`), or run this on an instance that has it");
    const auto sent = TRY(send(source, stop));
    io::complain("prepare",
                 std::to_string(sent) + " files of " + source.from + " are sent to " + source.via);
  }
  TRY(send_packages(launched.packages));
  TRY(prepare_there(calls, launched, options, stop));
  return 0;
}

std::atomic<bool> asked_to_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal's handler sets it");

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { asked_to_stop = true; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

// What launched_job() wrote: the place in S3, then the paths, a line each.
Result<config::Sending> to_send(const std::string& file) {
  constexpr std::size_t limit = 64U << 10;
  const auto text = TRY(behind("cannot read " + file, io::read_file(file, limit)));
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  auto to = TRY(wire::parse_s3_url(line));
  config::Sending sending{{}, std::move(to)};
  while (std::getline(lines, line)) sending.paths.push_back(line);
  return sending;
}

Result<int> run(const RemoteOptions& options, const std::function<int(config::Job)>& fill_here) {
  auto job = TRY(job_here(options.job));
  if (job.storage.share && options.send.empty())
    return mistake(
        "the job's storage is " + config::describe(job.storage) +
        (job.storage.in_bucket()
             ? ": nothing is to be prepared. Name the data in `channels:`, which reads it where "
               "it is in S3: what is elsewhere is brought there once, as by `aws s3 sync`"
             : ": put the data there, or name it in `channels:`; a volume (storage.ebs) is "
               "prepared"));
  const auto calls = TRY(calls_in(job.launch ? job.launch->region : ""));
  catch_signals();
  if (!options.send.empty()) job.sending = TRY(of_input(to_send(options.send)));
  if (const auto here = AwsCalls::here())
    return prepare_here(*calls, job, *here, fill_here, asked_to_stop);
  return prepare_remote(*calls, job, options, asked_to_stop);
}

}  // namespace

Result<std::string, CallError> send_from_storage(const std::string& job_file,
                                                 const config::Sending& sending,
                                                 const std::string& type) {
  const RemoteOptions options{.job = job_file, .type = type, .send = {}};
  auto launched = TRY(launched_job(job_file, launch::Work::Prepare, sending));
  const auto calls = TRY(calls_in(launched.job.launch->region));
  TRY(name_zones(*calls, *launched.job.launch));
  TRY(check_preparer(*calls, launched, type));
  TRY(send_packages(launched.packages));
  catch_signals();
  const auto id = TRY(Preparer(*calls, launched, options).run(asked_to_stop));
  return id.str() + " has ended, and has sent nothing; " + said_by(id);
}

void add_prepare(CLI::App& app, std::function<int(config::Job)> fill_here, int& status) {
  auto* command = app.add_subcommand(
      "prepare",
      "Makes the job's volume, gives it a file system and folders, and copies what `prepare:` of "
      "job.yaml names; run again, it copies only what is missing");
  auto options = std::make_shared<RemoteOptions>();
  command->add_option("job", options->job, "The job's description")->capture_default_str();
  command->add_option("--send", options->send)->group("");  // of `spotter fetch`'s machine
  add_remote_options(*command, *options);
  command->callback([options, fill_here = std::move(fill_here), &status] {
    status = io::ended("prepare", run(*options, fill_here));
  });
}

}  // namespace spotter::command
