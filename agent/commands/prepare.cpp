#include "agent/commands/commands.hpp"

#include <fcntl.h>
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

namespace fs = std::filesystem;

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

Result<std::size_t> send(const config::Source& source, const std::atomic<bool>& stop) {
  const auto files = config::files_of(source.from);
  if (!files) return tl::unexpected(files.error());
  if (files->empty()) return failure("there is nothing in " + source.from);
  s3::Client client({.environment = act::Environment::of_this_process()});
  const auto listed = s3::list(client, *source.via);
  if (!listed) return failure(listed.error().text());
  std::map<std::string, wire::ListedObject> objects;
  for (const wire::ListedObject& it : *listed) objects.emplace(it.key, it);
  std::vector<bucket::Wanted> missing;
  std::map<std::string, fs::path> paths;
  for (const auto& [name, path] : *files) {
    if (is_there(objects, source.via->key + name, path)) continue;
    missing.push_back({name, name, {}, {}});
    paths[name] = path;
  }
  bucket::Bucket place(*source.via, {}, {.environment = act::Environment::of_this_process()});
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
  const auto found = calls.ask_all(wire::DescribeSubnets{.subnets = launch.subnets});
  if (!found) return tl::unexpected(found.error());
  for (const wire::Subnet& it : *found)
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
  auto subnet = subnet_in(calls, launch, zone);
  if (!subnet) return tl::unexpected(subnet.error());
  return launch::Preparer{type, zone, *std::move(subnet)};
}

class Preparer {
 public:
  Preparer(AwsCalls& calls, const LaunchedJob& launched, const RemoteOptions& options)
      : calls_(calls), launched_(launched), job_(launched.job), options_(options) {}

  // The machine, once it has ended.
  Result<InstanceId, CallError> run(const std::atomic<bool>& stop);

 private:
  Result<std::vector<InstanceId>, CallError> begin(const std::optional<wire::Volume>& volume);
  Result<std::vector<InstanceId>, CallError> await_instance();
  void remove_fleet();

  AwsCalls& calls_;
  const LaunchedJob& launched_;
  const config::Job& job_;
  const RemoteOptions& options_;
  FleetId fleet_;  // that this command made
};

// EC2 lists it some seconds later.
Result<std::vector<InstanceId>, CallError> Preparer::await_instance() {
  for (const auto until = Clock::now() + until_it_is_there; Clock::now() < until;) {
    auto there = preparing(calls_, key_of(job_));
    if (!there || !there->empty()) return there;
    std::this_thread::sleep_for(between_descriptions);
  }
  return failed("no instance of type " + options_.type +
                " came: is there capacity, and may the account launch it? Try --instance-type");
}

Result<std::vector<InstanceId>, CallError> Preparer::begin(
    const std::optional<wire::Volume>& volume) {
  const auto wanted = place_for(calls_, job_, options_.type, volume);
  if (!wanted) return tl::unexpected(wanted.error());
  const auto version = provide_template(calls_, launched_, true);
  if (!version) return tl::unexpected(version.error());
  const std::string token =
      "prepare-" + wire::sha256_hex(version->id + "\n" + version->version).substr(0, 40);
  const auto place = wanted->subnet.empty() ? wanted->zone : wanted->subnet;
  const auto alike = launch::run_instance(job_, *version, options_.type, place);
  if (const auto known = await_profile(calls_, wire::query_of(alike), "prepare"); !known)
    return tl::unexpected(known.error());
  const auto request = launch::request_preparer(job_, *version, *wanted, token);
  const auto fleet = calls_.ask(wire::query_of(request), wire::decode_created_fleet);
  if (!fleet) return tl::unexpected(fleet.error());
  fleet_ = fleet->id;
  if (fleet->instances > 0 || fleet->errors.empty()) return await_instance();
  remove_fleet();
  return failed("EC2 launched no instance of type " + options_.type + ": " + fleet->errors +
                ". Try again later, or --instance-type");
}

// Removes the fleet, now only a name. EC2 lists no fleet of type instant, so this one is
// remembered; an earlier command's stays.
void Preparer::remove_fleet() {
  if (fleet_) (void)calls_.ask(wire::DeleteFleets{{fleet_}, true});
}

Result<InstanceId, CallError> Preparer::run(const std::atomic<bool>& stop) {
  const char* command = command_of(job_);
  auto there = preparing(calls_, key_of(job_));
  if (!there) return tl::unexpected(there.error());
  if (!there->empty() && job_.sending)
    return failed(there->front().str() + " is at the storage already: wait for its end");
  if (there->empty()) {
    const auto volume = free_volume(calls_, job_, {});
    if (!volume) return tl::unexpected(volume.error());
    if (!*volume && job_.sending && !job_.storage.share) return failed("the job has no volume");
    there = begin(*volume);
    if (!there) return tl::unexpected(there.error());
    io::complain(command, there->front().str() +
                              (job_.sending ? " sends the files of " +
                                                  (*volume ? (**volume).id.str() : "the share") +
                                                  " to " + wire::to_url(job_.sending->to)
                                            : " prepares the volume") +
                              " (" + options_.type + "), and ends then");
  } else {
    io::complain(command, there->front().str() + " is at it already");
  }
  const InstanceId id = there->front();
  while (!there->empty()) {
    if (stop && job_.sending) {
      (void)calls_.ask(wire::TerminateInstances{.instances = {id}});
      remove_fleet();
      return failed("interrupted: " + id.str() + " is ended");
    }
    if (stop) return failed(id.str() + " goes on without us; run this again to see its end");
    std::this_thread::sleep_for(between_descriptions);
    const auto seen = preparing(calls_, key_of(job_));
    if (seen) there = seen;  // keeps the last answer while the network is down
  }
  remove_fleet();
  return id;
}

std::string said_by(const InstanceId& instance) {
  return "why, it says here: aws ec2 get-console-output --latest --output text --instance-id " +
         instance.str();
}

Result<void, CallError> prepare_there(AwsCalls& calls, const LaunchedJob& launched,
                                      const RemoteOptions& options, const std::atomic<bool>& stop) {
  const auto volumes = volumes_of(calls, launched.job);
  if (!volumes) return tl::unexpected(volumes.error());
  const std::string before = volumes->empty() ? "" : mark_of(volumes->front());
  const auto id = Preparer(calls, launched, options).run(stop);
  if (!id) return tl::unexpected(id.error());
  const auto volume = free_volume(calls, launched.job, {});
  if (!volume) return tl::unexpected(volume.error());
  const std::string mark = *volume ? mark_of(**volume) : "";
  if (mark == before || !mark.starts_with(config::digest_of(launched.job.prepare)))
    return failed(id->str() + " has ended, and the volume is not prepared; " + said_by(*id));
  io::complain("prepare",
               (**volume).id.str() + " in " + (**volume).zone.str() + " is ready, and free");
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
int prepare_remote(AwsCalls& calls, const config::Job& job, const RemoteOptions& options,
                   const std::atomic<bool>& stop) {
  if (job.sweep) {
    io::complain(
        "prepare",
        "each experiment has a volume of its own: run this on a cheap instance of their zone");
    return wrong_input;
  }
  auto launched = launched_job(options.job, launch::Work::Prepare);
  if (!launched) return io::complain("prepare", launched.error().message, wrong_input);
  if (const auto named = name_zones(calls, *launched->job.launch); !named)
    return io::complain("prepare", named.error().message);
  if (const auto fits = check_preparer(calls, *launched, options.type); !fits)
    return io::complain("prepare", fits.error().message, wrong_input);
  for (const config::Source& source : job.prepare) {
    if (!source.from.starts_with('/')) continue;
    if (!source.via) {
      io::complain(
          "prepare",
          "this is no EC2 instance: say by way of which place in S3 " + source.from +
              " goes to one (`via: s3://bucket/prefix`), or run this on an instance that has it");
      return wrong_input;
    }
    const auto sent = send(source, stop);
    io::complain("prepare", sent ? std::to_string(*sent) + " files of " + source.from +
                                       " are sent to " + wire::to_url(*source.via)
                                 : sent.error().message);
    if (!sent) return 1;
  }
  if (const auto sent = send_packages(launched->packages); !sent)
    return io::complain("prepare", sent.error().message);
  const auto done = prepare_there(calls, *launched, options, stop);
  if (done) return 0;
  return io::complain("prepare", done.error().message);
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
  const auto text = io::read_file(file, limit);
  if (!text) return failure("cannot read " + file + ": " + text.error().message());
  std::istringstream lines(*text);
  std::string line;
  std::getline(lines, line);
  auto to = wire::parse_s3_url(line);
  if (!to) return tl::unexpected(to.error());
  config::Sending sending{{}, *std::move(to)};
  while (std::getline(lines, line)) sending.paths.push_back(line);
  return sending;
}

int run(const RemoteOptions& options, const std::function<int(config::Job)>& fill_here) {
  auto job = config::load_job(options.job, config::Environment::of_process());
  if (!job) {
    std::fputs(config::describe(job.error(), options.job).c_str(), stderr);
    return wrong_input;
  }
  if (job->storage.share && options.send.empty()) {
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
  if (!calls) return io::complain("prepare", calls.error().message);
  catch_signals();
  if (!options.send.empty()) {
    auto sending = to_send(options.send);
    if (!sending) return io::complain("prepare", sending.error().message, wrong_input);
    job->sending = *std::move(sending);
  }
  if (const auto here = AwsCalls::here())
    return prepare_here(**calls, *job, *here, fill_here, asked_to_stop);
  return prepare_remote(**calls, *job, options, asked_to_stop);
}

}  // namespace

Result<std::string, CallError> send_from_storage(const std::string& job_file,
                                                 const config::Sending& sending,
                                                 const std::string& type) {
  const RemoteOptions options{.job = job_file, .type = type, .send = {}};
  auto launched = launched_job(job_file, launch::Work::Prepare, sending);
  if (!launched) return failed(launched.error().message);
  const auto calls = calls_in(launched->job.launch->region);
  if (!calls) return failed(calls.error().message);
  if (auto named = name_zones(**calls, *launched->job.launch); !named)
    return tl::unexpected(named.error());
  if (const auto fits = check_preparer(**calls, *launched, type); !fits)
    return failed(fits.error().message);
  if (auto sent = send_packages(launched->packages); !sent) return tl::unexpected(sent.error());
  catch_signals();
  const auto id = Preparer(**calls, *launched, options).run(asked_to_stop);
  if (!id) return tl::unexpected(id.error());
  return id->str() + " has ended, and has sent nothing; " + said_by(*id);
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
  command->callback(
      [options, fill_here = std::move(fill_here), &status] { status = run(*options, fill_here); });
}

}  // namespace spotter::command
