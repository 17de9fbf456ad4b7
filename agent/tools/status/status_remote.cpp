#include "agent/tools/status/status_remote.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/base/exit_status.hpp"
#include "agent/base/json.hpp"
#include "agent/io/complain.hpp"
#include "agent/io/kernel.hpp"
#include "agent/job/job.hpp"
#include "agent/job/scalars.hpp"
#include "agent/launch/requests.hpp"
#include "agent/tools/jobs/fleets.hpp"
#include "agent/tools/jobs/launched_job.hpp"
#include "agent/tools/report/report_sources.hpp"
#include "agent/tools/status/job_view.hpp"
#include "agent/wire/status.hpp"

namespace spotter::command {
namespace {

using nlohmann::json;
using Experiment = std::optional<std::size_t>;

struct AskedJob {
  std::string name;
  std::optional<wire::S3Location> place;  // where it is published; ends with the job's name
  config::Deadline deadline;              // of a description,
  std::vector<std::string> regions{""};   // with the regions of its pools; empty: AWS_REGION's
};

Result<AskedJob> asked_of(const RemoteStatus& options) {
  AskedJob asked;
  std::optional<wire::S3Location> prefix;
  if (is_a_file(options.job)) {
    const auto job = read_description(options.job);
    if (!job) return tl::unexpected(job.error());
    asked.name = job->name.str();
    prefix = job->publish;
    if (job->launch && !job->launch->places.empty()) {
      asked.regions.clear();
      for (const config::Place& it : job->launch->places) asked.regions.push_back(it.region);
    }
    if (const auto deadline = config::load_deadline(options.job)) asked.deadline = *deadline;
  } else if (const auto name = config::job_name.parse(options.job); name) {
    asked.name = name->str();
  } else {
    return failure("--job " + options.job + ": there is no such file, and " + name.error().message);
  }
  if (!options.publish.empty()) {
    const auto given = config::parse_s3_prefix(options.publish);
    if (!given) return failure("--publish: " + given.error().message);
    prefix = *given;
  }
  if (prefix) asked.place = wire::S3Location{prefix->bucket, prefix->key + asked.name + "/"};
  return asked;
}

// "mnist-7" of the sweep "mnist".
Experiment index_in(const std::string& owner, const std::string& sweep) {
  if (!owner.starts_with(sweep + "-")) return std::nullopt;
  const std::string digits = owner.substr(sweep.size() + 1);
  const bool number = !digits.empty() && digits.size() < 10 &&
                      digits.find_first_not_of("0123456789") == digits.npos;
  return number ? Experiment(std::stoul(digits)) : std::nullopt;
}

std::string owner_of(const wire::Tags& tags) { return wire::value_of(tags, tag::job); }

// By experiment; a job without a sweep has one entry, without an index.
using Jobs = std::map<Experiment, JobSeen>;

class Looker {
 public:
  explicit Looker(const AskedJob& asked) : asked_(asked) {}

  // False: something could not be read, which was printed.
  bool look() {
    const bool published = look_at_bucket();
    const bool cloud = look_at_cloud();
    return published && cloud;
  }
  Jobs take() { return std::move(jobs_); }
  const std::set<std::string>& known() const { return known_; }
  const std::string& region() const { return region_; }

 private:
  JobSeen& job(Experiment experiment) {
    JobSeen& seen = jobs_[experiment];
    seen.job = asked_.name + (experiment ? "-" + std::to_string(*experiment) : "");
    seen.now = io::wall_clock();
    return seen;
  }

  bool look_at_bucket() {
    if (!asked_.place) return true;
    s3::Client client(
        {.environment = act::Environment::of_this_process(), .patience = std::chrono::seconds(20)});
    auto all = read_published(client, *asked_.place, Wanted::Status);
    if (!all) {
      io::complain("status", all.error().text());
      return false;
    }
    bool sound = true;
    for (Published& one : *all) {
      const Experiment experiment = one.source.experiment;
      const std::string trouble = wire::status_trouble(one.status);
      if (!trouble.empty()) {
        sound = false;
        io::complain("status", "the status in " + wire::to_url(*asked_.place) +
                                   (experiment ? std::to_string(*experiment) + "/" : "") +
                                   (one.status.empty() ? " is not there yet" : " is " + trouble));
      }
      JobSeen& seen = job(experiment);
      seen.published = std::move(one);
    }
    return sound;
  }

  bool look_at_cloud() {
    bool sound = true;
    for (const std::string& region : asked_.regions) sound = look_at_region(region) && sound;
    for (auto& [index, seen] : jobs_)
      if (!seen.fleets.empty()) seen.due = due_of(asked_.deadline, seen.fleets);
    return sound;
  }

  bool look_at_region(const std::string& region) {
    const auto calls = calls_in(region);
    if (!calls) {
      io::complain("status", calls.error().message);
      return false;
    }
    region_ += (region_.empty() ? "" : ", ") + (*calls)->region().str();
    const auto done = ask(**calls);
    if (!done) io::complain("status", done.error().message);
    return done.has_value();
  }

  Result<void, CallError> ask(AwsCalls& calls) {
    const auto volumes = calls.ask_all(wire::DescribeVolumes{{}, {{"tag-key", {tag::job}}}, {}});
    if (!volumes) return tl::unexpected(volumes.error());
    // Then NAME-N is another job.
    const bool is_whole =
        jobs_.contains(Experiment()) || std::ranges::any_of(*volumes, [&](const wire::Volume& it) {
          return owner_of(it.tags) == asked_.name;
        });
    std::map<std::string, Experiment> holders;
    for (const wire::Volume& it : *volumes) {
      const std::string owner = owner_of(it.tags);
      known_.insert(owner);
      const auto index = is_whole ? Experiment() : index_in(owner, asked_.name);
      if ((owner != asked_.name && !index) || is_data(it.tags)) continue;
      for (const wire::Attachment& held : it.attachments) holders[held.instance.str()] = index;
      job(index).volumes.push_back(it);
    }
    for (const auto& [index, seen] : jobs_)
      if (seen.published) holders[last_instance(*seen.published)] = index;
    auto snapshots = calls.ask_all(
        wire::DescribeSnapshots{{}, {{std::string("tag:") + tag::job, owners()}}, {}});
    if (!snapshots) return tl::unexpected(snapshots.error());
    for (wire::Snapshot& it : *snapshots)
      job(index_in(owner_of(it.tags), asked_.name)).snapshots.push_back(std::move(it));
    if (auto done = ask_for_instances(calls, holders); !done) return done;
    ask_for_prices(calls);
    auto fleets = job_fleets(calls, {asked_.name, {}});
    if (!fleets) return tl::unexpected(fleets.error());
    if (fleets->empty()) return {};
    if (jobs_.empty()) job({});
    for (auto& [index, seen] : jobs_)
      seen.fleets.insert(seen.fleets.end(), fleets->begin(), fleets->end());
    return {};
  }

  // The instances of the fleet, and those that have or had a volume.
  Result<void, CallError> ask_for_instances(AwsCalls& calls,
                                            const std::map<std::string, Experiment>& holders) {
    std::vector<std::string> ids;
    for (const auto& [id, index] : holders)
      if (id.starts_with("i-")) ids.push_back(id);
    std::set<std::string> seen;
    const auto take = [&](std::vector<wire::Instance> all) {
      for (wire::Instance& it : all) {
        if (!seen.insert(it.id.str()).second) continue;
        const auto holder = holders.find(it.id.str());
        // In a sweep, which experiment a machine without a volume runs is unknown.
        const bool is_sweep = !jobs_.empty() && jobs_.begin()->first.has_value();
        if (holder != holders.end() || !is_sweep)
          job(holder != holders.end() ? holder->second : Experiment())
              .instances.push_back(std::move(it));
      }
    };
    if (!ids.empty()) {
      auto held = calls.ask_all(wire::DescribeInstances{{}, {{"instance-id", ids}}, {}});
      if (!held) return tl::unexpected(held.error());
      take(std::move(*held));
    }
    auto launched = job_instances(calls, {asked_.name, {}});
    if (!launched) return tl::unexpected(launched.error());
    std::erase_if(*launched, [](const wire::Instance& it) {
      return wire::value_of(it.tags, tag::role) == launch::role_of_preparers;
    });
    take(std::move(*launched));
    return {};
  }

  // A status without a price is one as well.
  void ask_for_prices(AwsCalls& calls) {
    std::map<std::string, double> prices;
    if (!jobs_.empty()) prices = jobs_.begin()->second.on_demand_prices;  // of a region before
    for (const auto& [index, seen] : jobs_) {
      for (const wire::Instance& it : seen.instances) {
        const bool up =
            it.state == wire::InstanceState::Pending || it.state == wire::InstanceState::Running;
        if (!up || !it.lifecycle.empty() || prices.contains(it.type.str())) continue;
        if (const auto price = calls.on_demand_price(it.type, calls.region()))
          prices.emplace(it.type.str(), *price);
      }
    }
    for (auto& [index, seen] : jobs_) seen.on_demand_prices = prices;
  }

  static bool is_data(const wire::Tags& tags) { return wire::value_of(tags, tag::role) == "data"; }
  static std::string last_instance(const Published& published) {
    const auto status = json::parse(published.status, nullptr, false);
    return status.is_object() ? wire::text_field(status, "instance") : std::string();
  }
  std::vector<std::string> owners() const {
    std::vector<std::string> all{asked_.name};
    for (const auto& [index, seen] : jobs_)
      if (index) all.push_back(seen.job);
    return all;
  }

  const AskedJob& asked_;
  Jobs jobs_;
  std::set<std::string> known_;
  std::string region_;
};

std::string unknown_job(const AskedJob& asked, const Looker& looker) {
  std::string words = "no volume, instance or fleet has the tag spotter:job=" + asked.name +
                      (looker.region().empty() ? "" : " in " + looker.region());
  if (asked.place) words += ", and nothing is published below " + wire::to_url(*asked.place);
  std::string names;
  for (const std::string& name : looker.known()) names += (names.empty() ? "" : ", ") + name;
  return words + (names.empty() ? "; no job is known there" : "; known jobs: " + names);
}

void print(const Jobs& jobs, const RemoteStatus& options) {
  const double now = io::wall_clock();
  const bool table = jobs.size() > 1 || jobs.begin()->first.has_value();
  json all = json::array();
  if (table && !options.json)
    std::printf("%6s  %-14s %12s %12s  %-12s %s\n", "index", "stage", "step", "loss", "seen",
                "instance");
  for (const auto& [experiment, seen] : jobs) {
    // Otherwise only the sweep's own fleet and machines.
    if (table && !experiment && !seen.published) continue;
    const json view = view_of(seen);
    if (options.json)
      all.push_back(view);
    else if (experiment)
      std::fputs(line_of(view, *experiment, now).c_str(), stdout);
    else
      std::fputs(wire::status_text(view.dump(-1, ' ', false, json::error_handler_t::replace),
                                   clock_of(view, now), options.columns)
                     .value_or("")
                     .c_str(),
                 stdout);
  }
  if (!options.json) return;
  const json& shown = table ? all : all.front();
  std::printf("%s\n", shown.dump(2, ' ', false, json::error_handler_t::replace).c_str());
}

}  // namespace

int show_remote(const RemoteStatus& options) {
  const auto asked = asked_of(options);
  if (!asked) {
    io::complain("status", asked.error().message);
    return wrong_input;
  }
  Looker looker(*asked);
  const bool whole = looker.look();
  Jobs jobs = looker.take();
  const bool nothing =
      std::ranges::all_of(jobs, [](const auto& one) { return one.second.is_nothing(); });
  if (nothing) {
    if (whole) io::complain("status", unknown_job(*asked, looker));
    return 1;
  }
  print(jobs, options);
  if (std::fflush(stdout) == 0) return whole ? 0 : 1;
  io::complain("status", std::string("cannot write: ") + std::strerror(errno));
  return 1;
}

}  // namespace spotter::command
