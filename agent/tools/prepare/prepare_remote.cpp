// From a person's machine: a cheap instance in the volume's zone prepares it, and ends.
#include "agent/tools/prepare/prepare_remote.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/io/complain.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/base/exit_status.hpp"
#include "agent/tools/jobs/fleets.hpp"
#include "agent/tools/jobs/instance_profile.hpp"
#include "agent/tools/jobs/job_volumes.hpp"
#include "agent/tools/jobs/launched_job.hpp"
#include "agent/tools/jobs/machines.hpp"
#include "agent/tools/jobs/sent_packages.hpp"
#include "agent/tools/prepare/prepare.hpp"

namespace spotter::command {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::minutes until_it_is_there{2};
constexpr std::chrono::seconds between_descriptions{3};

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

class Preparer {
 public:
  Preparer(AwsCalls& calls, const LaunchedJob& launched, const RemoteOptions& options)
      : calls_(calls), launched_(launched), job_(launched.job), options_(options) {}

  Result<void, CallError> run(const std::atomic<bool>& stop);

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
  const config::Launch& launch = *job_.launch;
  if (!volume && !launch.volume) {
    config::Job same = job_;
    return tl::unexpected(fit_new_volume(same, Zone()).error());  // the message says what to do
  }
  const std::string zone = volume ? volume->zone.str() : launch.volume->zone;
  const auto subnet = subnet_in(calls_, launch, zone);
  if (!subnet) return tl::unexpected(subnet.error());
  const auto version = provide_template(calls_, launched_, true);
  if (!version) return tl::unexpected(version.error());
  const std::string token =
      "prepare-" + wire::sha256_hex(version->id + "\n" + version->version).substr(0, 40);
  const auto place = subnet->empty() ? zone : *subnet;
  const auto alike = launch::run_instance(job_, *version, options_.type, place);
  if (const auto known = await_profile(calls_, wire::query_of(alike), "prepare"); !known)
    return tl::unexpected(known.error());
  const auto request =
      launch::request_preparer(job_, *version, {options_.type, zone, *subnet}, token);
  const auto fleet = calls_.ask(wire::query_of(request), wire::decode_created_fleet);
  if (!fleet) return tl::unexpected(fleet.error());
  fleet_ = fleet->id;
  if (fleet->instances > 0 || fleet->errors.empty()) return await_instance();
  remove_fleet();
  return failed("EC2 launched no instance of type " + options_.type + ": " + fleet->errors +
                ". Try again later, or --instance-type");
}

// What is left of it is only a name. EC2 lists no fleet of type instant, so this one is remembered;
// that of an earlier command stays.
void Preparer::remove_fleet() {
  if (fleet_) (void)calls_.ask(wire::DeleteFleets{{fleet_}, true});
}

Result<void, CallError> Preparer::run(const std::atomic<bool>& stop) {
  auto there = preparing(calls_, key_of(job_));
  if (!there) return tl::unexpected(there.error());
  const auto volumes = volumes_of(calls_, job_);
  if (!volumes) return tl::unexpected(volumes.error());
  const std::string before = volumes->empty() ? "" : mark_of(volumes->front());
  if (there->empty()) {
    const auto volume = free_volume(calls_, job_, {});
    if (!volume) return tl::unexpected(volume.error());
    there = begin(*volume);
    if (!there) return tl::unexpected(there.error());
    io::complain("prepare", there->front().str() + " prepares the volume (" + options_.type +
                                "), and ends then");
  } else {
    io::complain("prepare", there->front().str() + " is at it already");
  }
  const std::string id = there->front().str();
  while (!there->empty()) {
    if (stop) return failed(id + " goes on without us; run this again to see its end");
    std::this_thread::sleep_for(between_descriptions);
    const auto seen = preparing(calls_, key_of(job_));
    if (seen) there = seen;  // keeps the last answer while the network is down
  }
  remove_fleet();
  const auto volume = free_volume(calls_, job_, {});
  if (!volume) return tl::unexpected(volume.error());
  const std::string mark = *volume ? mark_of(**volume) : "";
  if (mark != before && mark.starts_with(config::digest_of(job_.prepare))) {
    io::complain("prepare",
                 (**volume).id.str() + " in " + (**volume).zone.str() + " is ready, and free");
    return {};
  }
  return failed(id + " has ended, and the volume is not prepared; why, it says here: aws ec2 " +
                "get-console-output --latest --output text --instance-id " + id);
}

// Of the machine that prepares alone: it needs no GPU, and gets no volume of data.
Result<void> check_preparer(AwsCalls& calls, const LaunchedJob& launched, const std::string& type) {
  config::Job job = launched.job;
  job.launch->instance_types = {type};
  job.trainer.gpus = 0;
  job.storage.data.clear();
  std::string wrong;
  for (const Finding& it : examine_machines(calls, job, launched.packages)) {
    if (it.verdict == Finding::Verdict::Warn) io::complain("prepare", it.what + ": " + it.advice);
    if (it.verdict == Finding::Verdict::Fail)
      wrong += (wrong.empty() ? "" : "; ") + it.what + ": " + it.advice;
  }
  if (wrong.empty()) return {};
  return failure(wrong + " (or --instance-type)");
}

}  // namespace

void add_remote_options(CLI::App& command, RemoteOptions& options) {
  command
      .add_option("--instance-type", options.type,
                  "Where this is no instance: of the one that is launched for it")
      ->capture_default_str();
}

Result<void, CallError> fit_new_volume(config::Job& job, const Zone& zone) {
  const config::Tag& tag = job.storage.ebs.tag;
  if (!job.launch || !job.launch->volume)
    return failed("no volume has the tag " + tag.key + "=" + tag.value +
                  ": make one, or say `launch.volume: {size: 100}`, and it is made");
  const auto& zones = job.launch->zones;
  const bool named = std::ranges::find(zones, zone.str()) != zones.end();
  if (!named && job.launch->volume->zone != zone.str())
    return failed("the volume is to be in " + job.launch->volume->zone + ", and this is " +
                  zone.str() + ": run it on an instance of that zone");
  job.launch->volume->zone = zone.str();
  return {};
}

int prepare_remote(AwsCalls& calls, const config::Job& job, const RemoteOptions& options,
                   const std::atomic<bool>& stop) {
  if (job.sweep) {
    io::complain(
        "prepare",
        "each experiment has a volume of its own: run this on a cheap instance of their zone");
    return wrong_input;
  }
  auto launched = launched_job(options.job, launch::Work::Prepare);
  if (!launched) {
    io::complain("prepare", launched.error().message);
    return wrong_input;
  }
  if (const auto named = name_zones(calls, *launched->job.launch); !named) {
    io::complain("prepare", named.error().message);
    return 1;
  }
  if (const auto fits = check_preparer(calls, *launched, options.type); !fits) {
    io::complain("prepare", fits.error().message);
    return wrong_input;
  }
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
  if (const auto sent = send_packages(launched->packages); !sent) {
    io::complain("prepare", sent.error().message);
    return 1;
  }
  const auto done = Preparer(calls, *launched, options).run(stop);
  if (done) return 0;
  io::complain("prepare", done.error().message);
  return 1;
}

}  // namespace spotter::command
