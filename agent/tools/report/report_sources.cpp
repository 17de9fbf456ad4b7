#include "agent/tools/report/report_sources.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/aws/settings/settings.hpp"
#include "agent/io/files.hpp"
#include "agent/io/kernel.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/sweep/claim.hpp"
#include "agent/sweep/sweep_sets.hpp"
#include "agent/tools/report/published.hpp"
#include "agent/tools/sweep/results_gather.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;
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

// What an agent on this machine recorded and has not written to the storage yet.
std::string history_here(const std::string& job) {
  const auto folder = run_directory_of(act::Environment::of_this_process());
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
  const auto folder = run_directory_of(act::Environment::of_this_process());
  const std::string text = read_or_nothing(folder + "/status.json", longest_status);
  const auto status = nlohmann::json::parse(text, nullptr, false);
  const bool is_its = status.is_object() && status.value("job", nlohmann::json()) == job;
  return is_its ? text : "";
}

class Reader {
 public:
  Reader(const ReportPlace& place, std::vector<std::string>* warnings)
      : place_(place), warnings_(warnings) {
    input_.now = io::wall_clock();
    if (place.job) input_.job = place.job->name.str();
    input_.is_sweep = place.job && place.job->sweep.has_value();
    if (input_.is_sweep) input_.objective = place.job->sweep->objective;
  }

  Result<Input> read() {
    auto read = place_.from.starts_with("s3://") ? from_bucket(place_.from)
                : !place_.from.empty()           ? from_folder(place_.from)
                                                 : from_job();
    if (!read) return tl::unexpected(read.error());
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
    auto claimed = from_claims(*place);
    return claimed && published ? from_published(*published) : claimed;
  }

  Result<Sets> sets() const {
    if (!place_.job || !place_.job->sweep) return Sets();
    auto sets = sets_of(*place_.job);
    if (!sets) return failure(sets.error().message);
    return Sets(std::move(*sets));
  }

  Result<void> from_experiments(const fs::path& folder) {
    const auto its = sets();
    if (!its) return tl::unexpected(its.error());
    auto gathered = results_in_folder(folder, *its);
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

  Result<void> from_claims(const std::string& url) {
    const auto its = sets();
    if (!its) return tl::unexpected(its.error());
    const auto prefix = wire::parse_s3_url(url);
    if (!prefix) return tl::unexpected(prefix.error());
    auto gathered = results_in_bucket(*prefix, *its);
    if (!gathered) return tl::unexpected(gathered.error());
    keep(std::move(*gathered));
    return {};
  }

  Result<void> from_bucket(const std::string& url) {
    auto place = wire::parse_s3_url(url);
    if (!place) return tl::unexpected(place.error());
    if (!place->key.ends_with('/')) place->key += '/';
    if (input_.job.empty()) name_by(place->key);
    return from_published(*place);
  }

  // .../NAME/ or .../NAME/INDEX/
  void name_by(std::string_view key) {
    const auto last = [&key] {
      key.remove_suffix(key.ends_with('/') ? 1 : 0);
      const auto begin = key.rfind('/') + 1;  // 0 if there is none
      const auto name = key.substr(begin);
      key = key.substr(0, begin);
      return name;
    };
    auto name = last();
    if (const auto index = wire::parse_count(name); index && !key.empty()) {
      input_.experiment = *index;
      name = last();
    }
    input_.job = name;
  }

  Result<void> from_published(const wire::S3Location& place) {
    s3::Client client(
        {.environment = act::Environment::of_this_process(), .patience = std::chrono::seconds(20)});
    auto published = read_published(client, place, Wanted::All);
    if (!published)
      return failure("what is published at " + wire::to_url(place) +
                     " cannot be read: " + published.error().text());
    if (published->empty())
      return failure("nothing is published at " + wire::to_url(place) +
                     ": the job's description needs `publish: s3://bucket/prefix`, which its "
                     "agents then fill; from elsewhere it is --from s3://bucket/prefix/NAME");
    const bool is_sweep = std::ranges::any_of(
        *published, [](const Published& each) { return each.source.experiment.has_value(); });
    if (is_sweep && input_.experiments.empty())
      if (auto known = keep_sets(); !known) return known;
    for (Published& each : *published) {
      warn(warnings_, wire::to_url(place), each.source.history.newer);
      if (!each.source.experiment) input_.status = std::move(each.status);
      input_.sources.push_back(std::move(each.source));
    }
    return {};
  }

  // The outcomes come from the histories.
  Result<void> keep_sets() {
    const auto its = sets();
    if (!its) return tl::unexpected(its.error());
    Gathered gathered;
    for (std::size_t index = 0; *its && index < (*its)->size(); ++index) {
      gathered.all.emplace_back().index = index;
      gathered.all.back().parameters = (**its)[index];
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

  const ReportPlace& place_;
  std::vector<std::string>* warnings_;
  Input input_;
};

}  // namespace

Result<Input> read_input(const ReportPlace& place, std::vector<std::string>* warnings) {
  return Reader(place, warnings).read();
}

}  // namespace spotter::command
