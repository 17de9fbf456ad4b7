// `spotter logs`: what a job's trainer prints, from where its agents publish it, or, without that,
// from this machine.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>

#include "agent/aws/s3/objects.hpp"
#include "agent/base/clock_text.hpp"
#include "agent/base/json.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/logs.hpp"
#include "agent/commands/report_sources.hpp"
#include "agent/config/run.hpp"
#include "agent/io/files.hpp"
#include "agent/io/log.hpp"
#include "agent/supervise/output.hpp"
#include "agent/wire/history.hpp"
#include "agent/wire/output.hpp"
#include "agent/wire/status.hpp"

namespace spotter::command {
namespace {

// A listing and what changed: at 0.005 $ for a thousand listings some 0.006 $ an hour.
constexpr std::chrono::seconds look_again{3};
constexpr std::size_t largest_file = 4U << 20;

// The job's texts that can be shown: objects, or files of this machine, below one place.
class Source {
 public:
  virtual ~Source() = default;
  // The content of all that is new or has changed since the last call, by names such as
  // `output/1700000000000-i-0abc-07.jsonl`, `history/...` and `status.json`.
  using Changed = std::map<std::string, std::string>;
  virtual Result<Changed, s3::Failure> changed() = 0;
  virtual std::string place() const = 0;
};

bool is_wanted(std::string_view name) {
  return name.starts_with("output/") || name.starts_with("history/") || name == "status.json";
}

class Bucket : public Source {
 public:
  explicit Bucket(wire::S3Location place)
      : place_(std::move(place)),
        client_({.environment = act::Environment::of_this_process(),
                 .patience = std::chrono::seconds(20)}) {}

  Result<Changed, s3::Failure> changed() override {
    const auto listed = TRY(s3::list(client_, place_));
    std::map<std::string, std::string> etags;
    std::vector<std::string> keys;
    for (const auto& object : listed.objects) {
      if (!is_wanted(std::string_view(object.key).substr(place_.key.size()))) continue;
      const auto before = etags_.find(object.key);
      etags[object.key] = object.etag;
      if (before == etags_.end() || before->second != object.etag) keys.push_back(object.key);
    }
    auto read = TRY(read_objects(client_, place_.bucket, keys));
    etags_ = std::move(etags);
    Changed changed;
    for (auto& [key, bytes] : read) changed[key.substr(place_.key.size())] = std::move(bytes);
    return changed;
  }
  std::string place() const override { return wire::to_url(place_); }

 private:
  wire::S3Location place_;
  s3::Client client_;
  std::map<std::string, std::string> etags_;
};

// The run directory of the agent on this machine.
class Here : public Source {
 public:
  explicit Here(std::string directory) : directory_(std::move(directory)) {}

  Result<Changed, s3::Failure> changed() override {
    Changed changed;
    const auto look_at = [&](const std::string& name, const std::string& file) {
      auto bytes = io::read_file(directory_ + "/" + file, largest_file);
      if (!bytes || before_[name] == *bytes) return;
      before_[name] = *bytes;
      changed[name] = std::move(*bytes);
    };
    std::error_code error;
    const std::string folder = directory_ + "/" + supervise::output_name;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      const std::string file = at->path().filename().string();
      const auto name = wire::parse_output_name(file);
      if (!name) continue;
      look_at("output/" + wire::to_text({name->attempt + "-" + host_name(), name->slot}),
              std::string(supervise::output_name) + "/" + file);
    }
    if (error == std::errc::permission_denied)
      return tl::unexpected(s3::Failure{.kind = s3::Failure::Kind::Permission,
                                        .message = "may not be read: run it as root"});
    look_at("history/here.jsonl", "history.jsonl");
    look_at("status.json", "status.json");
    return changed;
  }
  std::string place() const override { return directory_; }

 private:
  std::string directory_;
  Changed before_;
};

std::string clock_of(double time) {
  const wire::WallTime at{std::chrono::seconds(static_cast<long>(time))};
  return wire::to_rfc3339(at);
}

// An agent's moment in one line; empty: of no interest beside the output.
std::string words_of(const wire::HistoryEntry& entry) {
  if (entry.what == "phase") return entry.text("says");
  if (entry.what == "notice") {
    const auto deadline = entry.number("deadline");
    return "interruption notice" + (deadline ? ": it ends at " + clock_of(*deadline) : "");
  }
  if (entry.what == "notice-withdrawn") return "the interruption notice was withdrawn";
  if (entry.what == "resumed") {
    const auto step = entry.number("step");
    return step ? "the trainer goes on from step " + std::to_string(std::llround(*step)) : "";
  }
  // Its other lines are what the trainer printed.
  const std::string words = entry.what == "problem" ? entry.text("words") : "";
  return words.substr(0, words.find('\n'));
}

std::string instance_of(const std::string& attempt) {
  return attempt.substr(attempt.find('-') + 1);
}

// Makes of what changed the lines that are new, in the order of time.
class Lines {
 public:
  std::vector<std::string> next(const Source::Changed& changed) {
    std::vector<Moment> moments;
    for (const auto& [name, bytes] : changed) {
      if (name == "status.json") status_ = bytes;
      if (name.starts_with("history/")) add_history(name, bytes, moments);
      if (!name.starts_with("output/")) continue;
      const auto parsed = wire::parse_output_name(std::string_view(name).substr(7));
      const auto piece = parsed ? wire::parse_output(bytes) : std::nullopt;
      if (!piece) continue;
      if (!piece->newer.empty()) newer_ = piece->newer;
      reader_.add(parsed->attempt, *piece);
      seen_ = true;
    }
    for (auto& said : reader_.next())
      moments.push_back({said.record.time, said.attempt, "", std::move(said.record)});
    std::ranges::stable_sort(moments, {}, &Moment::time);
    std::vector<std::string> lines;
    for (const Moment& moment : moments) add(moment, lines);
    return lines;
  }
  bool seen() const { return seen_; }
  const std::string& status() const { return status_; }
  const std::string& newer() const { return newer_; }

 private:
  struct Moment {
    double time = 0;
    std::string attempt;  // of a record
    std::string words;    // of an agent
    wire::OutputRecord record;
  };

  // The files grow, and the oldest entries may be dropped.
  void add_history(const std::string& name, const std::string& bytes,
                   std::vector<Moment>& moments) {
    double& until = history_until_[name];
    const double before = until;
    for (const wire::HistoryEntry& entry : wire::parse_history(bytes).entries) {
      if (entry.time <= before) continue;
      until = std::max(until, entry.time);
      const std::string words = words_of(entry);
      if (!words.empty()) moments.push_back({entry.time, "", entry.instance + ": " + words, {}});
    }
  }

  static std::string mark(const std::string& words) { return "--- " + words + " ---"; }

  void add(const Moment& moment, std::vector<std::string>& lines) {
    if (moment.attempt.empty()) {
      lines.push_back("spotter: " + clock_of(moment.time) + " " + wire::printable(moment.words));
      return;
    }
    if (moment.attempt != attempt_) {
      attempt_ = moment.attempt;
      lines.push_back(mark("the trainer on " + wire::printable(instance_of(attempt_)) + ", " +
                           clock_of(moment.time)));
    }
    const std::string& text = moment.record.text;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = std::min(text.find('\n', at), text.size());
      lines.push_back(shown(text.substr(at, end - at)));
      at = end + 1;
    }
    if (moment.record.left_out > 0)
      lines.push_back(mark(std::to_string((moment.record.left_out + 1023) / 1024) +
                           " KiB are left out here: the log on the storage has them"));
    if (moment.record.ended)
      lines.push_back(mark("the trainer ended: " + wire::printable(*moment.record.ended)));
  }

  // A terminal would obey control characters; a tab is none.
  static std::string shown(const std::string& line) {
    std::string whole;
    for (std::size_t at = 0; at <= line.size();) {
      const auto end = std::min(line.find('\t', at), line.size());
      whole += (at > 0 ? "\t" : "") + wire::printable(line.substr(at, end - at));
      at = end + 1;
    }
    return whole;
  }

  wire::OutputReader reader_;
  std::map<std::string, double> history_until_;
  std::string attempt_, status_, newer_;
  bool seen_ = false;
};

// The exit status of a job that has ended.
std::optional<int> end_of(const std::string& status, double since) {
  const auto read = wire::parse_json_object(status);
  if (!read || wire::number_field(*read, "updated").value_or(0) < since) return std::nullopt;
  const std::string stage = wire::text_field(*read, "stage");
  if (stage == "finished") return 0;
  // The machine may end with its fleet before it says more.
  if (stage == "gave-up" || stage == "scaling-to-zero") return job_failed;
  if (stage != "cancelling-fleet") return std::nullopt;
  const auto problems = read->value("problems", nlohmann::json::array());
  const bool gave_up = std::ranges::any_of(problems, [](const nlohmann::json& each) {
    return wire::text_field(each, "event").starts_with("gave-up");
  });
  return gave_up ? job_failed : 0;
}

int fail(const std::string& words, int status = 1) { return io::complain("logs", words, status); }

void print(std::vector<std::string> lines, std::size_t last) {
  const std::size_t first = lines.size() > last ? lines.size() - last : 0;
  for (std::size_t i = first; i < lines.size(); ++i) std::printf("%s\n", lines[i].c_str());
  std::fflush(stdout);
}

// Waits out what passes: who follows a job for days is not thrown out by a minute without network.
bool passes(const s3::Failure& failure) { return failure.kind == s3::Failure::Kind::Unavailable; }

int show(Source& source, const LogsOptions& options) {
  Lines lines;
  bool waits = false, silent = false, ending = false;
  std::size_t last = options.last;
  for (;; std::this_thread::sleep_for(look_again)) {
    const auto changed = source.changed();
    if (!changed && (!options.follow || !passes(changed.error())))
      return fail(source.place() + ": " + changed.error().text());
    if (!changed && !std::exchange(silent, true)) fail(changed.error().text() + "; asked again");
    if (!changed) continue;
    silent = false;
    print(lines.next(*changed), std::exchange(last, std::string::npos));
    if (!lines.newer().empty()) return fail(lines.newer());
    if (std::ferror(stdout) != 0) return fail("cannot write");
    if (!options.follow)
      return lines.seen() ? 0 : fail("no output is published at " + source.place() + " yet");
    if (!lines.seen() && !std::exchange(waits, true))
      std::fprintf(stderr, "spotter: no output is published at %s yet; waiting for it\n",
                   source.place().c_str());
    // The status was written behind the output: what came meanwhile is read once more.
    const auto end = end_of(lines.status(), options.since);
    if (end && std::exchange(ending, true)) return *end;
  }
}

Result<std::unique_ptr<Source>> source_of(const LogsOptions& options) {
  const auto place = TRY(place_of({options.job, "", options.publish}));
  auto at = place.published;
  const std::string index = options.experiment ? std::to_string(*options.experiment) : "";
  if (place.job && place.job->sweep && index.empty())
    return failure(place.job->name.str() + " is a sweep: --experiment I says whose output");
  if (at) {
    if (!index.empty()) at->key += index + "/";
    return std::make_unique<Bucket>(*at);
  }
  const auto here = run_directory_to_show(act::Environment::of_this_process());
  const auto status = io::read_file(here + "/status.json", largest_file);
  const auto read = wire::parse_json_object(status ? *status : "");
  if (read && wire::text_field(*read, "job") == place.job->name.str())
    return std::make_unique<Here>(here);
  return failure("the description of " + place.job->name.str() +
                 " has no `publish: s3://bucket/prefix`, so its output stays on its machine and "
                 "its storage, in log/trainer.log; on the machine itself this command shows it");
}

}  // namespace

std::vector<std::string> last_output(const wire::S3Location& place, std::size_t lines) {
  Bucket bucket(place);
  auto changed = bucket.changed();
  if (!changed) return {};
  std::erase_if(*changed, [](const auto& it) { return !it.first.starts_with("output/"); });
  std::vector<std::string> all = Lines().next(*changed);
  if (all.size() > lines) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(lines));
  return all;
}

int logs(const LogsOptions& options) {
  const auto source = source_of(options);
  return source ? show(**source, options) : fail(source.error().message, wrong_input);
}

void add_logs(CLI::App& app, int& status) {
  auto options = std::make_shared<LogsOptions>();
  auto* command = app.add_subcommand(
      "logs",
      "What a job's training program prints, from anywhere: the agents put it into the place in S3 "
      "that the description has as publish, some seconds after it was printed");
  command->add_option("job", options->job,
                      "The job's description, or its name; else job.yaml here, or the service's");
  command->add_flag(
      "-f,--follow", options->follow,
      "Goes on until the job has ended; the exit status is then 0, or 3 if it gave up");
  command->add_option("--last", options->last, "Begins with so many lines of what is there");
  command->add_option("--experiment", options->experiment, "Of a sweep: which one's");
  command->add_option("--publish", options->publish,
                      "The place in S3 that the job's description has as publish");
  command->callback([options, &status] { status = logs(*options); });
}

}  // namespace spotter::command
