#include "agent/commands/results_gather.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/aws/formats/s3.hpp"
#include "agent/aws/s3/client.hpp"
#include "agent/aws/s3/objects.hpp"
#include "agent/base/json.hpp"
#include "agent/io/files.hpp"
#include "agent/sweep/claim.hpp"
#include "agent/sweep/summary.hpp"
#include "agent/wire/head.hpp"
#include "trainer/library/bucket.hpp"

namespace spotter::command {
namespace {

// The outcomes of experiments whose homes are in a bucket, as these say themselves: the head of
// each, and the account and the curve of what it names.
struct InHomes {
  std::map<std::size_t, sweep::Summary> found;
  std::vector<std::string> warnings;  // what could not be read
};

using sweep::Summary;

constexpr const char* account = ".spotter/ledger.json";
constexpr const char* curve = "metrics.jsonl";
constexpr std::uint64_t most_bytes_read = sweep::metrics_limit;  // of more, no curve is made

// Results that were read from one home.
struct Home {
  std::size_t index = 0;
  wire::S3Location at;
  std::string owner;
  wire::SeenHead seen;
  bool headed = false;  // `seen` is its head
  std::map<std::string, std::string> files;
  bool has_model = false;
  std::size_t coming = 0;  // answers
};

bool write_into(const fs::path& path, const std::string& text) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good();
}

// The head says what is committed: not the account, which was written before it.
Summary::State state_of(const wire::SeenHead& seen, Summary::State by_account) {
  using State = decide::Epoch::State;
  const decide::Epoch& epoch = seen.head.epoch;
  if (epoch.state == State::Done) return Summary::State::Done;
  if (epoch.state == State::Using && !wire::is_lease_over(seen.age)) return Summary::State::Running;
  const bool failed = by_account == Summary::State::Failed;
  return failed ? Summary::State::Failed : Summary::State::Stopped;
}

Result<Summary> summary_of(const Home& home) {
  const io::ScratchFolder folder("results");  // what the summary is made of
  if (folder.path().empty()) return failure("cannot make a folder for temporary files");
  for (const auto& [name, text] : home.files)
    if (!write_into(folder.path() / name, text))
      return failure("cannot write below " + folder.path().string());
  auto summary = TRY(sweep::summary_of(folder.path(), home.index, {}));
  summary.state = state_of(home.seen, summary.state);
  summary.attempt = home.seen.head.attempt;
  if (home.has_model) summary.model = wire::to_url(home.at);
  return summary;
}

std::string said(const s3::Failure& failure) {
  const bool refused = failure.kind == s3::Failure::Kind::Permission;
  return failure.text() + (refused ? "; `spotter iam launcher` prints what must be allowed" : "");
}

class Reading {
 public:
  Reading(s3::Client& client, const config::Job& job) : client_(client), job_(job) {}

  InHomes run(const std::set<std::size_t>& known) {
    const wire::S3Location heads = *job_.headed_at();
    const auto listed = s3::list(client_, heads, "/");
    if (!listed) {
      result_.warnings.push_back("the experiments' homes are not read: " + said(listed.error()));
      return std::move(result_);
    }
    for (const std::string& folder : listed->folders) {
      std::string_view name = std::string_view(folder).substr(heads.key.size());
      name.remove_suffix(1);
      const auto index = wire::parse_count(name);
      if (index && *index < sweep::most_sets && !known.contains(*index)) read_head(*index);
    }
    while (client_.under_way() > 0) client_.turn(std::chrono::seconds(1));
    return std::move(result_);
  }

 private:
  using Given = std::shared_ptr<Home>;
  using Body = std::function<void(const s3::Answer&)>;

  void get(const Given& home, const wire::S3Location& where, Body then) {
    ++home->coming;
    client_.start({.bucket = where.bucket, .key = where.key},
                  [this, home, where, then = std::move(then)](const auto& answer) {
                    answer ? then(*answer) : wrong(home, where, said(answer.error()));
                    if (--home->coming == 0) came(home);
                  });
  }

  void wrong(const Given& home, const wire::S3Location& where, const std::string& words) {
    result_.warnings.push_back("experiment " + std::to_string(home->index) + ": " +
                               wire::to_url(where) + ": " + words);
  }

  // A thousand curves are not kept until the last has come.
  void came(const Given& home) {
    if (!home->headed) return;
    auto summary = summary_of(*home);
    home->files.clear();
    if (!summary) return wrong(home, home->at, summary.error().message);
    result_.found[home->index] = *std::move(summary);
  }

  void read_head(std::size_t index) {
    const std::string number = std::to_string(index);
    auto home = std::make_shared<Home>();
    home->index = index;
    home->at = *job_.kept_at();
    home->at.key += number + "/";
    home->owner = config::of_experiment(job_.name.str(), index);
    wire::S3Location head = *job_.headed_at();
    head.key += number + "/" + std::string(wire::head_name);
    get(home, head, [=, this](const s3::Answer& answer) { head_came(home, head, answer); });
  }

  void head_came(const Given& home, const wire::S3Location& where, const s3::Answer& answer) {
    auto head = wire::parse_head(answer.body);
    if (!head) return wrong(home, where, head.error().message);
    if (head->job != home->owner) return wrong(home, where, "it is of the job " + head->job);
    home->seen.head = *std::move(head);
    const auto date = wire::parse_http_date(answer.header("date"));
    const auto modified = wire::parse_http_date(answer.header("last-modified"));
    if (date && modified && *date > *modified)
      home->seen.age = std::chrono::duration_cast<Duration>(*date - *modified);
    home->headed = true;
    if (home->seen.head.manifest.empty()) return;
    const wire::S3Location manifest{home->at.bucket, home->at.key + home->seen.head.manifest};
    get(home, manifest, [=, this](const s3::Answer& body) { manifest_came(home, manifest, body); });
  }

  void manifest_came(const Given& home, const wire::S3Location& where, const s3::Answer& answer) {
    const auto manifest = bucket::decode(answer.body);
    if (!manifest) return wrong(home, where, manifest.error().message);
    if (manifest->job != home->owner)
      return wrong(home, where, "it is of the job " + manifest->job);
    for (const auto& [path, file] : manifest->files) {
      home->has_model =
          home->has_model || path.starts_with("model/") || path.starts_with("result/");
      if (path != account && path != curve) continue;
      const wire::S3Location data{home->at.bucket, home->at.key + file.key()};
      if (file.bytes > most_bytes_read) {
        wrong(home, data, path + " is too long to be read");
        continue;
      }
      get(home, data,
          [home, name = path](const s3::Answer& body) { home->files[name] = body.body; });
    }
  }

  s3::Client& client_;
  const config::Job& job_;
  InHomes result_;
};

// Reads all homes that are there, without those in `known`. REQUIRES: job.storage.in_bucket().
InHomes read_homes(s3::Client& client, const config::Job& job, const std::set<std::size_t>& known) {
  return Reading(client, job).run(known);
}
using Sets = std::optional<std::vector<sweep::Set>>;

std::optional<std::size_t> index_of(std::string_view name) {
  const auto index = wire::parse_count(name);
  const bool good = index && *index < sweep::most_sets;
  return good ? std::optional<std::size_t>(*index) : std::nullopt;
}

std::string of_another_sweep(std::size_t index, std::size_t sets) {
  return "experiment " + std::to_string(index) + " is left out: the job's list has " +
         std::to_string(sets) + " sets, counted from 0";
}

// Compares as JSON numbers: 1e-1 is 0.1.
bool same(const sweep::Set& one, const sweep::Set& other) {
  using nlohmann::json;
  return wire::parsed_json(sweep::to_json(one)) == wire::parsed_json(sweep::to_json(other));
}

std::string of_another_list(const Summary& summary) {
  return "experiment " + std::to_string(summary.index) + " was run with " +
         sweep::to_json(summary.parameters) +
         ", and is shown with that: the job's list has changed since";
}

// In the order of the indices, completed by the job's sets without results.
Gathered complete(std::map<std::size_t, Summary> found, std::vector<std::string> warnings,
                  const Sets& sets) {
  Gathered gathered{{}, std::move(warnings)};
  for (std::size_t index = 0; sets && index < sets->size(); ++index) {
    Summary& summary = found[index];
    summary.index = index;
    if (summary.parameters.empty() || same(summary.parameters, (*sets)[index]))
      summary.parameters = (*sets)[index];
    else
      gathered.warnings.push_back(of_another_list(summary));
  }
  for (auto& [index, summary] : found) {
    if (sets && index >= sets->size())
      gathered.warnings.push_back(of_another_sweep(index, sets->size()));
    else
      gathered.all.push_back(std::move(summary));
  }
  return gathered;
}

struct Listed {
  std::map<std::size_t, std::string> results, claims;  // their keys
};
Result<Listed> look(s3::Client& client, const wire::S3Location& prefix) {
  const auto there = TRY(s3::list(client, prefix, "/"));
  Listed listed;
  for (const auto& object : there.objects) {
    const std::string name = object.key.substr(prefix.key.size());
    const auto parsed = sweep::parse_object_name(name);
    if (!parsed) continue;
    const std::size_t index = parsed->index;
    if (name == sweep::result_name(index)) listed.results[index] = object.key;
    if (name == sweep::claim_name(index)) listed.claims[index] = object.key;
  }
  // The claim describes an experiment that is running, or whose last agent ended before it wrote a
  // summary.
  for (const auto& result : listed.results) listed.claims.erase(result.first);
  return listed;
}

Summary::State state_of(sweep::Claim::State state) {
  if (state == sweep::Claim::State::Done) return Summary::State::Done;
  if (state == sweep::Claim::State::Failed) return Summary::State::Failed;
  return state == sweep::Claim::State::Held ? Summary::State::Running : Summary::State::Stopped;
}

Result<Summary> of_claim(const std::string& text) {
  const auto claim = TRY(sweep::parse_claim(text));
  Summary summary;
  summary.state = state_of(claim.state);
  summary.attempt = claim.token;
  return summary;
}

// The claim decides how an experiment ended, and the home all else: after a machine that ended
// between the two, the home is done, and the claim is held, or given back.
Summary of_both(const std::map<std::size_t, Summary>& claimed, std::size_t index, Summary home) {
  const auto claim = claimed.find(index);
  const bool ended = claim != claimed.end() && (claim->second.state == Summary::State::Done ||
                                                claim->second.state == Summary::State::Failed);
  if (ended) home.state = claim->second.state;
  return home;
}

Result<Gathered> results_in_folder(const fs::path& folder, const Sets& sets) {
  std::error_code error;
  fs::directory_iterator at(folder, error);
  if (error) return failure("cannot read " + folder.string() + ": " + error.message());
  std::map<std::size_t, Summary> found;
  std::vector<std::string> warnings;
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const auto index = index_of(at->path().filename().string());
    std::error_code no_folder;
    if (!index || !at->is_directory(no_folder)) continue;  // skips other content of the folder
    auto summary = sweep::summary_of(at->path(), *index, {});
    if (summary)
      found[*index] = std::move(*summary);
    else
      warnings.push_back(summary.error().message);
  }
  if (error) return failure("cannot read " + folder.string() + ": " + error.message());
  if (found.empty() && warnings.empty())
    return failure("there is no experiment in " + folder.string() +
                   ": it should have a folder 0, 1, ... of each");
  return complete(std::move(found), std::move(warnings), sets);
}

Result<Gathered> results_in_bucket(const wire::S3Location& prefix, const Sets& sets,
                                   const config::Job* job) {
  wire::S3Location folder = prefix;
  if (!folder.key.empty() && !folder.key.ends_with('/')) folder.key += '/';
  s3::Client client({.environment = act::Environment::of_this_process()});
  const auto listed = TRY(look(client, folder));
  const std::string place = wire::to_url(folder);
  if (listed.results.empty() && listed.claims.empty())
    return failure("there is no experiment at " + place);
  std::map<std::size_t, Summary> found;
  std::vector<std::string> warnings;
  using Parse = Result<Summary> (*)(const std::string&);
  const auto fetch = [&](std::size_t index, const std::string& key, Parse parse) {
    client.start({.bucket = folder.bucket, .key = key}, [&, index, key, parse](const auto& answer) {
      auto summary = answer ? parse(answer->body) : failure(answer.error().text());
      if (!summary) warnings.push_back(key + ": " + summary.error().message);
      found[index] = summary ? std::move(*summary) : Summary();
      found[index].index = index;
    });
  };
  for (const auto& [index, key] : listed.claims) fetch(index, key, of_claim);
  for (const auto& [index, key] : listed.results)
    fetch(index, key, [](const std::string& text) { return sweep::parse_summary(text); });
  while (client.under_way() > 0) client.turn(std::chrono::seconds(1));
  if (job != nullptr && job->storage.in_bucket()) {
    std::set<std::size_t> known;
    for (const auto& result : listed.results) known.insert(result.first);
    InHomes homes = read_homes(client, *job, known);
    for (auto& [index, summary] : homes.found) found[index] = of_both(found, index, summary);
    std::ranges::move(homes.warnings, std::back_inserter(warnings));
  }
  return complete(std::move(found), std::move(warnings), sets);
}

// All from the homes, as of an array, which has no claims.
Result<Gathered> results_in_homes(const config::Job& job, const Sets& sets) {
  s3::Client client({.environment = act::Environment::of_this_process()});
  InHomes homes = read_homes(client, job, {});
  // The sets alone would look like experiments that have not begun if none could be read.
  if (homes.found.empty() && !homes.warnings.empty()) return failure(homes.warnings.front());
  if (homes.found.empty())
    return failure("there is no experiment's home in " + wire::to_url(*job.kept_at()));
  return complete(std::move(homes.found), std::move(homes.warnings), sets);
}

}  // namespace

Result<Gathered> gather(const std::string& place, const Sets& sets, const config::Job* own) {
  if (!place.starts_with("s3://")) return results_in_folder(place, sets);
  const auto prefix = TRY(wire::parse_s3_url(place));
  if (own != nullptr && !own->claims) return results_in_homes(*own, sets);
  return results_in_bucket(prefix, sets, own);
}

Result<std::string> place_of_results(const config::Job& job) {
  std::error_code error;
  const auto& share = job.storage.share;
  const fs::path folder = fs::path(share ? share->mount : "") / job.name.str();
  // A bucket has only working copies here, and not of all experiments.
  const bool copies = job.storage.in_bucket();
  if (share && !copies && fs::is_directory(folder, error)) return folder.string();
  if (job.claims) return wire::to_url(job.claims->at);
  if (!share)
    return failure(
        "each experiment has a volume of its own (storage.ebs), which is not seen from here: mount "
        "them below one folder, as 0, 1, ..., and name that with --from");
  if (copies) return wire::to_url(*job.kept_at());
  const bool plain = share->kind == Share::Kind::Folder;
  return failure("there is no folder " + folder.string() + " here: " +
                 (plain ? "nothing of this sweep has run on it, or it is another machine's"
                        : config::describe(job.storage) + " is not mounted at " + share->mount +
                              ", or nothing of this sweep has run: mount it") +
                 "; or name another place with --from FOLDER or --from s3://...");
}

}  // namespace spotter::command
