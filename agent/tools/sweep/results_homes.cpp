#include "agent/tools/sweep/results_homes.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "agent/aws/formats/s3.hpp"
#include "agent/aws/s3/objects.hpp"
#include "agent/host/records.hpp"
#include "agent/host/summary.hpp"
#include "agent/io/files.hpp"
#include "agent/sweep/sweep_sets.hpp"
#include "agent/tier/home_files.hpp"
#include "agent/wire/head.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;
using sweep::Summary;

constexpr const char* account = ".spotter/ledger.json";
constexpr const char* curve = "metrics.jsonl";
constexpr std::uint64_t most_bytes_read = act::host::metrics_limit;  // of more, no curve is made

// What was read of one home.
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
  auto summary = act::host::summary_of(folder.path(), home.index, {});
  if (!summary) return summary;
  summary->state = state_of(home.seen, summary->state);
  summary->attempt = home.seen.head.attempt;
  if (home.has_model) summary->model = wire::to_url(home.at);
  return summary;
}

std::string said(const s3::Failure& failure) {
  const bool refused = failure.kind == s3::Failure::Kind::Permission;
  return failure.text() + (refused ? "; `spotter iam launcher` prints what must be allowed" : "");
}

class Reading {
 public:
  Reading(s3::Client& client, const config::Job& job) : client_(client), job_(job) {}

  InHomes run(const std::set<std::size_t>& known);

 private:
  using Given = std::shared_ptr<Home>;
  using Body = std::function<void(const s3::Answer&)>;

  void get(const Given& home, const wire::S3Location& where, Body then);
  void wrong(const Given& home, const wire::S3Location& where, const std::string& words);
  void came(const Given& home);
  void read_head(std::size_t index);
  void head_came(const Given& home, const wire::S3Location& where, const s3::Answer& answer);
  void manifest_came(const Given& home, const wire::S3Location& where, const s3::Answer& answer);

  s3::Client& client_;
  const config::Job& job_;
  InHomes result_;
};

void Reading::wrong(const Given& home, const wire::S3Location& where, const std::string& words) {
  result_.warnings.push_back("experiment " + std::to_string(home->index) + ": " +
                             wire::to_url(where) + ": " + words);
}

void Reading::get(const Given& home, const wire::S3Location& where, Body then) {
  ++home->coming;
  client_.start({.bucket = where.bucket, .key = where.key},
                [this, home, where, then = std::move(then)](const auto& answer) {
                  answer ? then(*answer) : wrong(home, where, said(answer.error()));
                  if (--home->coming == 0) came(home);
                });
}

// A thousand curves are not kept until the last has come.
void Reading::came(const Given& home) {
  if (!home->headed) return;
  auto summary = summary_of(*home);
  home->files.clear();
  if (!summary) return wrong(home, home->at, summary.error().message);
  result_.found[home->index] = *std::move(summary);
}

void Reading::read_head(std::size_t index) {
  const std::string number = std::to_string(index);
  auto home = std::make_shared<Home>();
  home->index = index;
  home->at = *job_.kept_at();
  home->at.key += number + "/";
  home->owner = job_.name.str() + "-" + number;
  wire::S3Location head = *job_.headed_at();
  head.key += number + "/" + std::string(wire::head_name);
  get(home, head, [=, this](const s3::Answer& answer) { head_came(home, head, answer); });
}

void Reading::head_came(const Given& home, const wire::S3Location& where,
                        const s3::Answer& answer) {
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

void Reading::manifest_came(const Given& home, const wire::S3Location& where,
                            const s3::Answer& answer) {
  const auto manifest = tier::decode_home(answer.body);
  if (!manifest) return wrong(home, where, manifest.error().message);
  if (manifest->job != home->owner) return wrong(home, where, "it is of the job " + manifest->job);
  for (const auto& [path, file] : manifest->files) {
    home->has_model = home->has_model || path.starts_with("model/") || path.starts_with("result/");
    if (path != account && path != curve) continue;
    const wire::S3Location data{home->at.bucket, home->at.key + file.key()};
    if (file.bytes > most_bytes_read) {
      wrong(home, data, path + " is too long to be read");
      continue;
    }
    get(home, data, [home, name = path](const s3::Answer& body) { home->files[name] = body.body; });
  }
}

InHomes Reading::run(const std::set<std::size_t>& known) {
  std::vector<std::string> folders;
  const wire::S3Location heads = *job_.headed_at();
  const auto listed = s3::list(client_, heads, {.delimiter = "/", .folders = &folders});
  if (!listed) {
    result_.warnings.push_back("the experiments' homes are not read: " + said(listed.error()));
    return std::move(result_);
  }
  for (const std::string& folder : folders) {
    std::string_view name = std::string_view(folder).substr(heads.key.size());
    name.remove_suffix(1);
    const auto index = wire::parse_count(name);
    if (index && *index < sweep::most_sets && !known.contains(*index)) read_head(*index);
  }
  while (client_.under_way() > 0) client_.turn(std::chrono::seconds(1));
  return std::move(result_);
}

}  // namespace

InHomes read_homes(s3::Client& client, const config::Job& job, const std::set<std::size_t>& known) {
  return Reading(client, job).run(known);
}

}  // namespace spotter::command
