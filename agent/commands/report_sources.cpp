#include "agent/commands/report_sources.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "agent/aws/aws_calls.hpp"
#include "agent/aws/formats/services.hpp"
#include "agent/aws/s3/objects.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/base/json.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/commands/results_gather.hpp"
#include "agent/config/run.hpp"
#include "agent/config/scalars.hpp"
#include "agent/io/files.hpp"
#include "agent/io/kernel.hpp"
#include "agent/report/published.hpp"
#include "agent/sweep/claim.hpp"
#include "agent/sweep/summary.hpp"

namespace spotter::command {
namespace {

// Replaces an object of many MiB, which no agent writes, by a line that is not valid.
constexpr const char* too_long = "too long\n";

using report::Input;
using report::Source;
using Sets = std::optional<std::vector<sweep::Set>>;

constexpr std::size_t longest_status = 64U << 10;
constexpr std::size_t longest_file = 64U << 20;  // the agent keeps a few MiB

using Warnings = std::vector<std::string>;

// Empty if there is no file. Adds to `warnings`, if given, a file that cannot be read.
std::string read_or_nothing(const fs::path& path, std::size_t limit, Warnings* warnings = nullptr) {
  auto text = io::read_file(path, limit);
  if (text) return std::move(*text);
  if (warnings != nullptr && text.error() != std::errc::no_such_file_or_directory)
    warnings->push_back("cannot read " + path.string() + ": " + text.error().message());
  return {};
}

// Warns of content by a newer Spotter, which is left out.
void warn(Warnings* warnings, const std::string& where, const std::string& newer) {
  if (warnings != nullptr && !newer.empty()) warnings->push_back(where + ": " + newer);
}

// A file and its predecessor.
std::string read_both(const fs::path& path, Warnings* warnings) {
  return read_or_nothing(path.string() + ".1", longest_file, warnings) +
         read_or_nothing(path, longest_file, warnings);
}

// A folder that cannot be read may be one.
bool is_home(const fs::path& folder) {
  const auto has = [&](const fs::path& file) {
    std::error_code error;
    return fs::exists(folder / file, error) || error == std::errc::permission_denied;
  };
  return has(".spotter/history.jsonl") || has("metrics.jsonl") || has(".spotter/ledger.json");
}

// Lines without duplicates.
class Lines {
 public:
  void add(const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
      const auto end = std::min(text.find('\n', at), text.size() - 1) + 1;
      auto line = text.substr(at, end - at);
      at = end;
      if (seen_.insert(line).second) lines_ += line;
    }
  }
  wire::ReadHistory parse() const { return wire::parse_history(lines_); }

 private:
  std::set<std::string> seen_;
  std::string lines_;
};

// History that an agent on this machine recorded and has not written to the storage yet.
std::string history_here(const std::string& job) {
  const auto folder = run_directory_to_show(act::Environment::of_this_process());
  std::string text = read_or_nothing(folder + "/history.jsonl", longest_file);
  const auto read = wire::parse_history(text);
  const bool is_its = !read.entries.empty() && read.entries.front().text("job") == job;
  return is_its ? text : "";
}

// An attempt begins as a copy of the previous one, including its history.
Source source_of(const std::vector<fs::path>& homes, Warnings* warnings,
                 const std::string& here = "") {
  Source source;
  Lines lines;
  for (const fs::path& home : homes) {
    lines.add(read_both(home / ".spotter" / "history.jsonl", warnings));
    const fs::path curve = home / "metrics.jsonl";
    const auto read = wire::parse_curve(read_or_nothing(curve, longest_file, warnings));
    warn(warnings, curve.string(), read.newer);
    source.curve.append(read.curve);
  }
  lines.add(here);
  source.history = lines.parse();
  warn(warnings, homes.front().string(), source.history.newer);
  return source;
}

// Its attempts, the oldest first; or the folder itself, if it is one.
std::vector<fs::path> homes_below(const fs::path& folder) {
  std::map<std::uint64_t, fs::path> attempts;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (const auto token = sweep::attempt_token(at->path().filename().string()))
      attempts[*token] = at->path();
  std::vector<fs::path> homes;
  homes.reserve(attempts.size() + 1);
  for (auto& [token, path] : attempts) homes.push_back(std::move(path));
  if (homes.empty()) homes.push_back(folder);
  return homes;
}

bool has_attempts_or_is_home(const fs::path& folder) {
  const auto homes = homes_below(folder);
  return homes.size() > 1 || homes.front() != folder || is_home(folder);
}

// The status of an agent that runs here is newer than what it wrote to the storage.
std::string status_here(const std::string& job) {
  const auto folder = run_directory_to_show(act::Environment::of_this_process());
  const std::string text = read_or_nothing(folder + "/status.json", longest_status);
  const auto status = wire::parsed_json(text);
  const bool is_its = status.is_object() && status.value("job", nlohmann::json()) == job;
  return is_its ? text : "";
}

class Reader {
 public:
  Reader(const NamedJob& place, std::vector<std::string>* warnings)
      : place_(place), warnings_(warnings) {
    input_.now = io::wall_clock();
    if (place.job) input_.job = place.job->name.str();
    input_.is_sweep = place.job && place.job->sweep.has_value();
    if (input_.is_sweep) input_.objective = place.job->sweep->objective;
  }

  Result<Input> read() {
    TRY(place_.from.starts_with("s3://") ? from_bucket(place_.from)
        : !place_.from.empty()           ? from_folder(place_.from)
                                         : from_job());
    return std::move(input_);
  }

 private:
  Result<void> from_job() {
    if (!place_.job) return failure("neither a job nor a place is named");
    if (input_.is_sweep) return from_sweep();
    const fs::path home = place_.job->home();
    if (has_attempts_or_is_home(home)) return from_home(home);
    if (const auto published = place_.job->published_at()) return from_published(*published);
    return failure("there is no history of " + input_.job + " in " + home.string() +
                   "/.spotter: nothing of it has run on that storage, or it is not mounted here. "
                   "Run this on the instance, or name its folder with --from; with `publish:` in "
                   "the job's description its agents keep it in S3, for whoever is elsewhere");
  }

  Result<void> from_folder(const fs::path& folder) {
    std::error_code error;
    if (!fs::is_directory(folder, error))
      return failure(folder.string() + " is no folder" +
                     (error ? ": " + error.message() : std::string()));
    if (has_attempts_or_is_home(folder)) return from_home(folder);
    if (!input_.job.empty() && fs::is_directory(folder / input_.job, error)) {
      if (has_attempts_or_is_home(folder / input_.job)) return from_home(folder / input_.job);
      return from_experiments(folder / input_.job);
    }
    return from_experiments(folder);
  }

  Result<void> from_home(const fs::path& home) {
    if (input_.job.empty()) input_.job = fs::absolute(home).lexically_normal().filename().string();
    const auto homes = homes_below(home);
    input_.sources.push_back(source_of(homes, warnings_, history_here(input_.job)));
    input_.log = read_both(homes.back() / ".spotter" / "agent.log", nullptr);
    input_.status = status_here(input_.job);
    return {};
  }

  Result<void> from_sweep() {
    const auto place = place_of_results(*place_.job);
    const auto published = place_.job->published_at();
    if (!place) return published ? from_published(*published) : tl::unexpected(place.error());
    if (!place->starts_with("s3://")) return from_experiments(*place);
    const auto its = TRY(sets());
    keep(TRY(gather(*place, its, &*place_.job)));
    return published ? from_published(*published) : Result<void>();
  }

  Result<Sets> sets() const {
    if (!place_.job || !place_.job->sweep) return Sets();
    return Sets(TRY(sets_of(*place_.job)));
  }

  Result<void> from_experiments(const fs::path& folder) {
    const auto its = TRY(sets());
    auto gathered = gather(folder.string(), its);
    if (!gathered)
      return failure(gathered.error().message + ", or a history in .spotter of its own");
    if (input_.job.empty())
      input_.job = fs::absolute(folder).lexically_normal().filename().string();
    keep(std::move(*gathered));
    for (const sweep::Summary& each : input_.experiments) {
      Source source = source_of(homes_below(folder / std::to_string(each.index)), warnings_);
      source.experiment = each.index;
      input_.sources.push_back(std::move(source));
    }
    return {};
  }

  Result<void> from_bucket(const std::string& url) {
    auto place = TRY(wire::parse_s3_url(url));
    if (!place.key.ends_with('/')) place.key += '/';
    if (input_.job.empty()) name_by(place.key);
    return from_published(place);
  }

  // .../NAME/ or .../NAME/INDEX/
  void name_by(const std::string& key) {
    fs::path place = fs::path(key).parent_path();
    const auto index = wire::parse_count(place.filename().string());
    if (index && place.has_parent_path()) {
      input_.experiment = *index;
      place = place.parent_path();
    }
    input_.job = place.filename().string();
  }

  Result<void> from_published(const wire::S3Location& place) {
    s3::Client client(
        {.environment = act::Environment::of_this_process(), .patience = std::chrono::seconds(20)});
    auto published = TRY(behind("what is published at " + wire::to_url(place) + " cannot be read",
                                read_published(client, place, Wanted::All)));
    if (published.empty())
      return failure("nothing is published at " + wire::to_url(place) +
                     ": the job's description needs `publish: s3://bucket/prefix`, which its "
                     "agents then fill; from elsewhere it is --from s3://bucket/prefix/NAME");
    const bool is_sweep = std::ranges::any_of(
        published, [](const Published& each) { return each.source.experiment.has_value(); });
    if (is_sweep && input_.experiments.empty()) TRY(keep_sets());
    for (Published& each : published) {
      warn(warnings_, wire::to_url(place), each.source.history.newer);
      if (!each.source.experiment) input_.status = std::move(each.status);
      input_.sources.push_back(std::move(each.source));
    }
    return {};
  }

  // The outcomes come from the histories.
  Result<void> keep_sets() {
    const auto its = TRY(sets());
    Gathered gathered;
    for (std::size_t index = 0; its && index < its->size(); ++index) {
      gathered.all.emplace_back().index = index;
      gathered.all.back().parameters = (*its)[index];
    }
    keep(std::move(gathered));
    return {};
  }

  void keep(Gathered gathered) {
    input_.is_sweep = true;
    if (!gathered.all.empty()) input_.parameters = differing(gathered.all);
    if (input_.parameters.empty()) input_.parameters = parameter_names(gathered.all);
    input_.experiments = std::move(gathered.all);
    if (warnings_)
      warnings_->insert(warnings_->end(), gathered.warnings.begin(), gathered.warnings.end());
  }

  const NamedJob& place_;
  std::vector<std::string>* warnings_;
  Input input_;
};

constexpr const char* usual_job = "job.yaml";
constexpr const char* job_of_the_service = "/etc/spotter/job.yaml";

using report::Instance;
using report::Prices;

// EC2 keeps no older prices, but accepts any time.
constexpr double oldest = 90.0 * 86'400;

// us-west-2a, and us-west-2-lax-1a, are in us-west-2.
std::string region_of(const std::string& zone) {
  const auto digit = zone.find_first_of("0123456789");
  if (digit == zone.npos) return "";
  return zone.substr(0, std::min(zone.find_first_not_of("0123456789", digit), zone.size()));
}

struct Asked {
  std::set<std::string> types;
  double from = 0;
};

// By region. Machines that are no instances have no price.
std::map<std::string, Asked> questions_for(const std::vector<Instance>& instances) {
  std::map<std::string, Asked> regions;
  for (const Instance& it : instances) {
    const std::string region = region_of(it.zone);
    if (!it.id.starts_with("i-") || it.type.empty() || region.empty()) continue;
    const double from = std::min(it.began, it.booted.value_or(it.began));
    const auto [at, is_new] = regions.try_emplace(region, Asked{{}, from});
    at->second.types.insert(it.type);
    at->second.from = std::min(at->second.from, from);
  }
  return regions;
}

void ask_prices(const Region& region, const Asked& asked, double now, bool on_demand_too,
                Prices& into) {
  const auto calls = AwsCalls::open(region);
  wire::DescribeSpotPriceHistory history;
  for (const std::string& type : asked.types) history.types.emplace_back(type);
  const double start = std::max(asked.from, now - oldest);
  history.start = wire::WallTime(std::chrono::seconds(static_cast<long>(start)));
  auto prices = calls->ask_all(std::move(history));
  if (prices)
    std::ranges::move(*prices, std::back_inserter(into.spot));
  else
    into.notes.push_back("AWS was asked for the history of spot prices: " + prices.error().message);
  if (!on_demand_too) return;
  for (const std::string& type : asked.types) {
    const auto price = calls->ask(wire::GetProducts{InstanceType(type), region});
    if (price) into.on_demand[type] = *price;
    if (price) continue;
    into.notes.push_back("AWS was asked for the on-demand price of " + type + ": " +
                         price.error().message);
    if (price.error().forbidden() || price.error().code.empty()) return;
  }
  into.notes.push_back("on-demand prices: AWS' price list of " + region.str());
}

}  // namespace

Result<std::map<std::string, std::string>, s3::Failure> read_objects(
    s3::Client& client, const std::string& bucket, const std::vector<std::string>& keys) {
  std::map<std::string, std::string> bytes;
  std::optional<s3::Failure> failed;
  for (const std::string& key : keys) {
    client.start({.bucket = bucket, .key = key}, [&, key](Result<s3::Answer, s3::Failure> answer) {
      if (answer)
        bytes[key] = std::move(answer->body);
      else if (answer.error().status == 200)
        bytes[key] = too_long;
      else if (answer.error().kind != s3::Failure::Kind::NoSuchKey)
        failed = std::move(answer.error());
    });
  }
  while (client.under_way() > 0) client.turn(std::chrono::seconds(1));
  if (failed) return tl::unexpected(std::move(*failed));
  return bytes;
}

Result<std::vector<Published>, s3::Failure> read_published(s3::Client& client,
                                                           const wire::S3Location& place,
                                                           Wanted wanted) {
  const auto listed = TRY(s3::list(client, place));
  const auto now = wire::parse_http_date(listed.date);
  using Kind = report::PublishedName::Kind;          // commands/logs.cpp reads Output
  std::vector<report::PublishedName> names;          // of the objects, in their order
  std::map<report::Experiment, std::string> newest;  // history: they are ordered by name
  for (const wire::ListedObject& it : listed.objects) {
    const auto& name = names.emplace_back(
        report::parse_published_name(std::string_view(it.key).substr(place.key.size())));
    if (name.kind == Kind::History) newest[name.experiment] = it.key;
  }
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& [name, key] = std::tie(names[i], listed.objects[i].key);
    const bool segment = name.kind == Kind::History || name.kind == Kind::Curve;
    if (name.kind == Kind::Status || (segment && wanted == Wanted::All) ||
        newest[name.experiment] == key)
      keys.push_back(key);
  }
  auto bytes = TRY(read_objects(client, place.bucket, keys));
  std::map<report::Experiment, Published> all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& [name, object] = std::tie(names[i], listed.objects[i]);
    if (name.kind == Kind::Output || name.kind == Kind::Other) continue;
    Published& one = all[name.experiment];
    one.source.experiment = name.experiment;
    std::string& text = bytes[object.key];
    report::add_published(one.source, name, text);
    if (name.kind != Kind::Status) continue;
    one.status = std::move(text);
    if (now && object.modified != wire::WallTime())
      one.age = std::max<double>(0, static_cast<double>((*now - object.modified).count()));
  }
  std::vector<Published> published;
  for (auto& [experiment, one] : all) published.push_back(std::move(one));
  return published;
}

Result<Input> read_input(const NamedJob& place, std::vector<std::string>* warnings) {
  return Reader(place, warnings).read();
}

std::string job_file(const JobToShow& options) {
  if (!options.job.empty()) return options.job;
  std::error_code error;
  for (const char* file : {usual_job, job_of_the_service})
    if (fs::exists(file, error)) return file;
  return "";
}

Result<config::Job> read_description(const std::string& file) {
  return config::read_job(file, config::Environment::of_root());
}

bool is_a_file(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_directory(path, error);
}

std::string file_of(const std::string& job) {
  if (job.empty() || is_a_file(job)) return job.empty() ? job_file({}) : job;
  const std::string here = job_file({});
  const auto described = here.empty() ? Result<config::Job>(failure("")) : read_description(here);
  return described && described->name.view() == job ? here : "";
}

Result<NamedJob> named_job(const JobToShow& options) {
  NamedJob named{.from = options.from, .name = options.job};
  if (const std::string file = file_of(options.job); is_a_file(file)) {
    auto job = read_description(file);
    // With --from no file is needed.
    if (!job && (options.from.empty() || !options.job.empty())) return tl::unexpected(job.error());
    if (job)
      named = {*job, options.from, file, job->name.str(), job->published_at(), regions_of(*job)};
  }
  if (options.publish.empty()) return named;
  const auto prefix = TRY(behind("--publish", config::parse_s3_prefix(options.publish)));
  named.published = wire::S3Location{prefix.bucket, prefix.key + named.name + "/"};
  named.from = wire::to_url(*named.published);
  return named;
}

// A job given by name is read from where it is published.
Result<NamedJob> place_of(const JobToShow& options) {
  auto place = TRY(named_job(options));
  if (!place.job && !options.job.empty() && options.publish.empty())
    return failure("--job " + options.job +
                   ": there is no such file; of a job by its name, --publish s3://bucket/prefix "
                   "says where its agents write");
  if (!options.publish.empty())
    TRY(behind("--job " + place.name, config::job_name.parse(place.name)));
  if (!place.job && place.from.empty())
    return failure(
        "there is neither job.yaml here nor /etc/spotter/job.yaml: name the job's description "
        "with --job, or where its history is with --from");
  return place;
}

Prices prices_of(const report::Input& input, report::Number on_demand) {
  Prices prices;
  prices.on_demand_of_all = on_demand;
  if (on_demand) prices.notes.emplace_back("on-demand price: as --on-demand says");
  const auto instances = report::instances_of(input);
  const auto regions = questions_for(instances);
  if (regions.empty() && !instances.empty())
    prices.notes.emplace_back("its machines are no instances of EC2, as far as they say");
  for (const auto& [region, asked] : regions)
    ask_prices(Region(region), asked, input.now, !on_demand, prices);
  return prices;
}

}  // namespace spotter::command
