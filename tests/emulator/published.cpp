#include "tests/emulator/published.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "agent/aws/formats/s3.hpp"
#include "agent/report/published.hpp"
#include "agent/sweep/claim.hpp"
#include "tests/world/s3/listing.hpp"

namespace spotter::emulator {
namespace {

// A bucket of data may hold a hundred thousand objects; a publisher's folders are few and small.
constexpr int deepest = 6;
constexpr int most_folders = 400;
constexpr std::size_t most_files = 4000;
constexpr std::size_t largest = 64U << 20;
constexpr std::string_view status_name = "status.json";

// "a/b/" -> "b"
std::string last_of(std::string_view prefix) {
  prefix.remove_suffix(1);
  const auto slash = prefix.rfind('/');
  return std::string(slash == std::string_view::npos ? prefix : prefix.substr(slash + 1));
}

using sweep::Summary;

// The state of an experiment without a result, by its claim (claim.hpp).
Summary::State state_of(const sweep::Claim& claim) {
  switch (claim.state) {
    case sweep::Claim::State::Held:
      return Summary::State::Running;
    case sweep::Claim::State::Given:
      return Summary::State::Stopped;
    case sweep::Claim::State::Done:
      return Summary::State::Done;
    case sweep::Claim::State::Failed:
      return Summary::State::Failed;
  }
  return Summary::State::Waiting;
}

Summary::State state_of(const report::Source& source) {
  auto state = Summary::State::Running;
  for (const wire::HistoryEntry& entry : source.history.entries) {
    const std::string phase = entry.text("phase");
    if (entry.what == "left" && state == Summary::State::Running) state = Summary::State::Stopped;
    if (entry.what == "began") state = Summary::State::Running;
    if (entry.what == "phase" && phase == "finished") state = Summary::State::Done;
    if (entry.what == "phase" && phase == "gave-up") state = Summary::State::Failed;
  }
  return state;
}

// Takes over what a claim or a result says; false: this is neither. A result's key comes after its
// claim's.
bool take_experiment(const std::string& name, const std::string& text,
                     std::map<std::size_t, Summary>& experiments) {
  const auto object = sweep::parse_object_name(name);
  if (!object) return false;
  Summary& it = experiments[object->index];
  it.index = object->index;
  if (object->kind == "result") {
    if (auto summary = sweep::parse_summary(text)) it = std::move(*summary);
    it.index = object->index;
  } else if (object->kind == "claim") {
    if (const auto claim = sweep::parse_claim(text)) {
      it.state = state_of(*claim);
      it.attempts = claim->token;
    }
  }
  return true;
}

double steady() {
  const std::chrono::duration<double> since = std::chrono::steady_clock::now().time_since_epoch();
  return since.count();
}

}  // namespace

void Published::search(const std::string& bucket, const std::string& prefix, int depth, int& left) {
  if (depth > deepest || --left < 0) return;
  const auto keys = store_.keys(bucket);
  const auto found = world::s3::list({prefix, "/", "", 200}, *keys);
  const auto has = [&](const std::string& name, const std::vector<std::string>& all) {
    return std::find(all.begin(), all.end(), prefix + name) != all.end();
  };
  const bool job = has(std::string(status_name), found.keys) ||
                   has("history/", found.common_prefixes) ||
                   std::any_of(found.keys.begin(), found.keys.end(),
                               [](const auto& key) { return key.ends_with(".claim"); });
  const bool sweep = !job && std::any_of(found.common_prefixes.begin(), found.common_prefixes.end(),
                                         [&](const auto& below) {
                                           return wire::parse_count(last_of(below)) &&
                                                  store_.look(bucket, below + "status.json");
                                         });
  if (!prefix.empty() && (job || sweep)) {
    jobs_.push_back({bucket, prefix, last_of(prefix)});
    return;
  }
  for (const std::string& below : found.common_prefixes) search(bucket, below, depth + 1, left);
}

const std::vector<Published::Job>& Published::jobs(double now) {
  if (looked_ >= 0 && now >= looked_ && now < looked_ + 1) return jobs_;
  looked_ = now;
  jobs_.clear();
  for (const auto& bucket : store_.buckets()) {
    int left = most_folders;
    search(bucket.name, "", 0, left);
  }
  return jobs_;
}

Published::Files Published::files_below(const Job& job) {
  Files files;
  const auto keys = store_.keys(job.bucket);
  for (std::string after; files.size() < most_files;) {
    const auto page = world::s3::list({job.prefix, "", after, 1000}, *keys);
    for (const std::string& key : page.keys)
      if (key.ends_with(".jsonl") || key.ends_with("/" + std::string(status_name)) ||
          key.ends_with(".claim") || key.ends_with(".result"))
        if (const auto object = store_.look(job.bucket, key))
          files.emplace_back(key, object->identity);
    if (page.next.empty()) break;
    after = page.next;
  }
  return files;
}

std::string Published::read(const std::string& bucket, const std::string& key) {
  const auto object = store_.find(bucket, key, true);
  if (!object || object->identity.size > largest) return "";
  std::string text(object->identity.size, '\0');
  const auto got = ::pread(*object->descriptor, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  return text;
}

report::Input Published::input(const Job& job, const Files& files) {
  report::Input input;
  input.job = job.name;
  std::map<std::optional<std::size_t>, report::Source> sources;
  std::map<std::size_t, Summary> experiments;
  for (const auto& [key, identity] : files) {  // segments in the order of their names
    const auto name = report::parse_published_name(std::string_view(key).substr(job.prefix.size()));
    std::string text = read(job.bucket, key);
    if (take_experiment(std::string(name.rest), text, experiments)) continue;
    if (name.kind == report::PublishedName::Kind::Status) {
      if (!name.experiment) input.status = std::move(text);
      continue;
    }
    report::add_published(sources[name.experiment], name, text);
  }
  for (auto& [experiment, source] : sources) {
    source.experiment = experiment;
    if (experiment) {
      const bool is_new = !experiments.contains(*experiment);
      Summary& it = experiments[*experiment];
      it.index = *experiment;
      if (is_new) it.state = state_of(source);
      if (it.curve.points().empty()) it.curve = source.curve;
    }
    input.sources.push_back(std::move(source));
  }
  input.is_sweep = !experiments.empty();
  for (auto& [index, summary] : experiments) {
    for (const sweep::Parameter& each : summary.parameters)
      if (std::find(input.parameters.begin(), input.parameters.end(), each.name) ==
          input.parameters.end())
        input.parameters.push_back(each.name);
    input.experiments.push_back(std::move(summary));
  }
  return input;
}

std::shared_ptr<const nlohmann::json> Published::model(const std::string& key, double now,
                                                       const report::Prices& prices) {
  const auto job =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& each) { return each.key() == key; });
  if (job == jobs_.end()) return nullptr;
  Known& known = known_[key];
  auto files = files_below(*job);
  if (known.model && known.files == files && now >= known.made && now < known.made + known.patience)
    return known.model;
  const double began = steady();
  auto all = input(*job, files);
  all.now = now;
  all.prices = prices;
  known.model = std::make_shared<const nlohmann::json>(report::to_json(report::build(all)));
  known.files = std::move(files);
  known.made = now;
  known.patience = std::max(2.0, 20 * (steady() - began));  // a long job takes its time
  return known.model;
}

}  // namespace spotter::emulator
