// `spotter list`.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/base/json.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/launch.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/commands/report_sources.hpp"
#include "agent/io/kernel.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/places.hpp"
#include "agent/launch/requests.hpp"
#include "agent/wire/status.hpp"

namespace spotter::command {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct ListOptions {
  std::string job;                   // a file; empty: none
  std::vector<std::string> regions;  // empty: that of AWS_REGION
  bool json = false;
  bool all = false;
};

// Groups of two regions may have one name.
struct ListedFleet : JobFleet {
  std::string region;   // where it is
  std::string failure;  // of one at work that lacks an instance
};

struct Row {
  std::vector<ListedFleet> fleets;
  std::vector<wire::Instance> instances;
  std::vector<wire::Volume> volumes;

  // Beside an on-demand fleet the job's own one has the spot instances.
  int instances_for(const JobFleet& fleet) const {
    const bool shared = std::ranges::any_of(
        fleets, [](const JobFleet& it) { return it.is_at_work() && !it.is_own(); });
    return static_cast<int>(std::ranges::count_if(instances, [&](const wire::Instance& it) {
      return !shared || it.lifecycle.empty() != fleet.is_own();
    }));
  }

  bool is_over() const {
    const auto over = [](const JobFleet& it) { return it.is_over(); };
    return instances.empty() && std::ranges::all_of(fleets, over);
  }
};
using Rows = std::map<std::string, Row>;  // by the job's name

std::string job_of(const wire::Tags& tags) { return wire::value_of(tags, tag::job); }

std::string storage_of(const wire::Tags& tags) { return wire::value_of(tags, tag::storage); }

// An experiment's volume belongs to the sweep's job: see config::of_experiment().
Row& row_of_volume(Rows& rows, const wire::Volume& volume) {
  const std::string owner = job_of(volume.tags);
  return rows[owner.substr(0, owner.find(config::before_index))];
}

Result<Rows, CallError> rows_of(AwsCalls& calls) {
  Rows rows;
  const auto fleets = TRY(job_fleets(calls, {}));
  for (const JobFleet& it : fleets)
    rows[it.job].fleets.push_back({it, calls.region().str(), std::string()});
  const auto instances = TRY(job_instances(calls, {}));
  for (const wire::Instance& it : instances) rows[job_of(it.tags)].instances.push_back(it);
  const auto volumes = TRY(
      calls.ask_all(wire::DescribeVolumes{.volumes = {}, .filters = {{"tag-key", {tag::job}}}}));
  for (const wire::Volume& it : volumes) row_of_volume(rows, it).volumes.push_back(it);
  for (auto& [name, row] : rows) {
    for (ListedFleet& it : row.fleets)
      if (it.is_at_work() && row.instances_for(it) < it.target)
        it.failure = launch_failure(calls, it);
  }
  return rows;
}

std::string role_of(const wire::Volume& volume) {
  if (volume.tags.contains(tag::done)) return "done";
  return wire::value_of(volume.tags, tag::role);
}

// The watcher's last outlook of a job with a deadline.
std::optional<launch::Outlook> outlook_of(const JobFleet& fleet) {
  const auto mark = launch::mark_of(fleet.watched);
  return mark ? mark->outlook : std::nullopt;
}

OrderedJson to_json(const std::string& name, const Row& row) {
  OrderedJson one = {{"job", name},
                     {"fleets", OrderedJson::array()},
                     {"instances", OrderedJson::array()},
                     {"volumes", OrderedJson::array()}};
  for (const ListedFleet& it : row.fleets) {
    OrderedJson fleet = {{"id", it.fleet.id.str()}, {"type", to_text(it.fleet.kind)},
                         {"region", it.region},     {"state", to_text(it.state)},
                         {"target", it.target},     {"on_demand", it.role == tag::role_on_demand},
                         {"storage", it.storage}};
    if (const auto outlook = outlook_of(it); outlook && it.is_own() && it.is_at_work())
      fleet["deadline"] = launch::text_of(*outlook);
    if (!it.failure.empty()) fleet["launches_nothing"] = it.failure;
    one["fleets"].push_back(std::move(fleet));
  }
  for (const wire::Instance& it : row.instances)
    one["instances"].push_back({{"id", it.id.str()},
                                {"type", it.type.str()},
                                {"zone", it.zone.str()},
                                {"on_demand", it.lifecycle.empty()},
                                {"state", to_text(it.state)},
                                {"storage", storage_of(it.tags)}});
  for (const wire::Volume& it : row.volumes)
    one["volumes"].push_back({{"id", it.id.str()},
                              {"zone", it.zone.str()},
                              {"state", to_text(it.state)},
                              {"role", role_of(it)},
                              {"storage", storage_of(it.tags)},
                              {"gib", it.size_gib}});
  return one;
}

// Empty, or that there are two jobs of the name.
std::string namesakes_in(const Row& row) {
  std::set<std::string> storages;
  for (const JobFleet& it : row.fleets)
    if (!it.is_over()) storages.insert(it.storage);
  for (const wire::Instance& it : row.instances) storages.insert(storage_of(it.tags));
  storages.erase("");  // made by an earlier version
  if (storages.size() < 2) return {};
  return ": jobs of one name, on " + joined(storages);
}

// The description of a job that is known here; none: there is no such file, or it is wrong.
std::optional<config::Job> described(const std::string& job) {
  auto named = named_job({.job = job});
  return named ? std::move(named->job) : std::nullopt;
}

// The status that the job's agents published last; empty: it is not known here where, or not there.
std::string published_of(const std::string& name, const std::optional<config::Job>& job,
                         s3::Client& client) {
  if (!job || job->name.str() != name || !job->published_at()) return "";
  const auto published = read_published(client, *job->published_at(), Wanted::Status);
  return published && published->size() == 1 ? published->front().status : "";
}

// Adds what it has cost, and how often it was interrupted.
void add_spent(const std::string& status, OrderedJson& one) {
  const auto read = wire::parse_json_object(status);
  if (!read) return;
  for (const char* name : {"spent_seconds", "spent_dollars", "interruptions"})
    if (const auto value = wire::number_field(*read, name)) one[name] = *value;
}

std::string up_for(const wire::Instance& it) {
  if (!it.launch_time || it.state != wire::InstanceState::Running) return "";
  const auto launched = static_cast<double>(it.launch_time->time_since_epoch().count());
  return " for " + wire::duration_text(std::max(0.0, io::wall_clock() - launched));
}

// `several`: regions were asked.
void print(const std::string& name, const Row& row, bool several) {
  std::printf("%s%s\n", name.c_str(), namesakes_in(row).c_str());
  for (const ListedFleet& it : row.fleets) {
    if (it.is_over()) continue;
    const std::string where = several ? ", in " + it.region : "";
    std::printf("  fleet     %-40s %s, target %d%s\n", it.fleet.id.str().c_str(),
                std::string(to_text(it.state)).c_str(), it.target, where.c_str());
    if (const auto outlook = outlook_of(it); outlook && it.is_own() && it.is_at_work())
      std::printf("            %s\n", launch::text_of(*outlook).c_str());
    if (!it.failure.empty()) std::printf("            launches nothing: %s\n", it.failure.c_str());
  }
  for (const wire::Instance& it : row.instances)
    std::printf("  instance  %-21s %-14s %-12s %s%s%s\n", it.id.str().c_str(),
                it.zone.str().c_str(), it.type.str().c_str(),
                std::string(to_text(it.state)).c_str(), up_for(it).c_str(),
                it.lifecycle.empty() ? ", on demand" : "");
  for (const wire::Volume& it : row.volumes)
    std::printf("  volume    %-21s %-14s %4llu GiB %s, %s\n", it.id.str().c_str(),
                it.zone.str().c_str(), static_cast<unsigned long long>(it.size_gib),
                std::string(to_text(it.state)).c_str(), role_of(it).c_str());
}

void merge(Rows& to, Rows from) {
  for (auto& [name, row] : from) {
    Row& all = to[name];
    std::ranges::move(row.fleets, std::back_inserter(all.fleets));
    std::ranges::move(row.instances, std::back_inserter(all.instances));
    std::ranges::move(row.volumes, std::back_inserter(all.volumes));
  }
}

// Those that are asked, each once.
Result<std::vector<std::unique_ptr<AwsCalls>>> asked_regions(const ListOptions& options) {
  std::vector<std::string> names = options.regions;
  if (!options.job.empty()) {
    const auto job = TRY(job_to_launch(options.job));
    std::ranges::move(regions_of(job), std::back_inserter(names));
  }
  if (names.empty()) names.emplace_back();
  std::vector<std::unique_ptr<AwsCalls>> all;
  for (const std::string& name : names) {
    if (!Region::fits(name)) return failure("--region " + name + " is no region");
    auto calls = TRY(calls_in(name));
    const auto same = [&](const auto& it) { return it->region() == calls->region(); };
    if (std::ranges::none_of(all, same)) all.push_back(std::move(calls));
  }
  return all;
}

// The regions in which the job has more fleets, as its fleets say, and that were not asked; empty:
// none. If all fleets are over, theirs count: `spotter stop` ends one region after the other, and
// may fail between two.
std::string not_asked(const Row& row, const std::vector<std::string>& asked) {
  const auto over = [](const JobFleet& it) { return it.is_over(); };
  const bool all_over = std::ranges::all_of(row.fleets, over);
  for (const JobFleet& it : row.fleets)
    if (all_over || !it.is_over())
      if (auto beyond = launch::regions_beyond(it.regions, asked); !beyond.empty()) return beyond;
  return {};
}

struct Listed {
  std::vector<std::string> regions;  // that were asked
  Rows rows;
  bool whole = true;  // each of them answered
};

Result<Listed> look_at_all(const ListOptions& options) {
  const auto all = TRY(asked_regions(options));
  Listed listed;
  for (const auto& calls : all) {
    const std::string region = calls->region().str();
    listed.regions.push_back(region);
    auto rows = rows_of(*calls);
    if (rows) merge(listed.rows, std::move(*rows));
    if (rows) continue;
    io::complain("list", (all.size() > 1 ? "nothing is known of " + region + ": " : "") +
                             rows.error().message);
    listed.whole = false;
  }
  return listed;
}

Result<int> run(const ListOptions& options) {
  const auto listed = TRY(look_at_all(options));
  const bool several = listed.regions.size() > 1;
  if (!listed.whole && !several) return 1;
  s3::Client client(
      {.environment = act::Environment::of_this_process(), .patience = std::chrono::seconds(20)});
  const auto named = options.job.empty() ? std::nullopt : described(options.job);
  OrderedJson document = OrderedJson::array();
  std::size_t hidden = 0;
  for (const auto& [name, row] : listed.rows) {
    const auto beyond = not_asked(row, listed.regions);
    const bool shown = options.all || !row.is_over() || !row.volumes.empty();
    if (!beyond.empty())
      io::complain("list", name + " may have fleets in " + beyond +
                               ", too, which was not asked: --region, or --job job.yaml");
    if (!shown) ++hidden;
    if (!shown) continue;
    const std::string status =
        published_of(name, options.job.empty() ? described(name) : named, client);
    document.push_back(to_json(name, row));
    add_spent(status, document.back());
    if (options.json) continue;
    print(name, row, several);
    if (const auto spent = wire::spent_words(status); !spent.empty())
      std::printf("  spent     %s\n", spent.c_str());
  }
  if (options.json)
    std::printf("%s\n", wire::json_text(document, 2).c_str());
  else if (document.empty() && listed.whole)
    std::printf("no jobs in %s%s\n", joined(listed.regions).c_str(),
                hidden > 0 ? " (--all: those that are over)" : "");
  else if (several)
    std::printf("asked: %s\n", joined(listed.regions).c_str());
  return listed.whole ? 0 : 1;
}

}  // namespace

void add_list(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("list",
                                     "The jobs of a region, or of several, with their fleets, "
                                     "instances and volumes, by their tags");
  auto options = std::make_shared<ListOptions>();
  command->add_option("--job", options->job,
                      "A job's description: asks each region of its launch.pools");
  command->add_option("--region", options->regions,
                      "Asks that region; repeatable; default: that of AWS_REGION");
  command->add_flag("--json", options->json, "With all that is known");
  command->add_flag("--all", options->all, "Includes jobs of which only old requests are left");
  command->callback([options, &status] { status = io::ended("list", run(*options)); });
}

}  // namespace spotter::command
