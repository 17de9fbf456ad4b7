#include "agent/sweep/summary.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "agent/aws/s3/objects.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/base/json.hpp"
#include "agent/base/version.hpp"
#include "agent/config/sweep.hpp"
#include "agent/io/files.hpp"
#include "agent/io/safe_directory.hpp"
#include "agent/sweep/claim.hpp"
#include "agent/wire/ledger.hpp"

namespace spotter::sweep {
namespace {

using Ordered = nlohmann::ordered_json;
using wire::CurvePoint;

constexpr std::array<const char*, 5> state_names = {"waiting", "running", "stopped", "failed",
                                                    "done"};
constexpr std::uint64_t known_summary = 1;
constexpr std::size_t most_points_read = 100'000;

template <class T>
Ordered or_null(const std::optional<T>& value) {
  return value ? Ordered(*value) : Ordered();
}

// By column: half the size of a list of points. One of another name is a metric's.
Ordered columns(const wire::Curve& curve) {
  Ordered columns = {{"step", Ordered::array()},
                     {"epoch", Ordered::array()},
                     {"loss", Ordered::array()},
                     {"accuracy", Ordered::array()},
                     {"time", Ordered::array()}};
  for (const std::string& name : curve.metric_names()) columns[name] = Ordered::array();
  for (const CurvePoint& point : curve.points()) {
    columns["step"].push_back(point.step);
    columns["epoch"].push_back(or_null(point.epoch));
    columns["loss"].push_back(or_null(point.loss));
    columns["accuracy"].push_back(or_null(point.accuracy));
    columns["time"].push_back(std::round(point.time * 1000) / 1000);
    for (const std::string& name : curve.metric_names())
      columns[name].push_back(or_null(metric_of(point, name)));
  }
  return columns;
}

std::optional<double> number(const Ordered& value) {
  if (!value.is_number()) return std::nullopt;
  return value.get<double>();
}
std::optional<std::uint64_t> count(const Ordered& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::uint64_t>();
}

Result<wire::Curve> parse_columns(const Ordered& columns) {
  const auto steps = columns.is_object() ? columns.value("step", Ordered()) : Ordered();
  if (!steps.is_array() || steps.size() > most_points_read) return failure("it has no curve");
  std::array<Ordered, 4> others;
  for (std::size_t i = 0; const char* name : {"epoch", "loss", "accuracy", "time"}) {
    others[i] = columns.value(name, Ordered());
    if (!others[i].is_array() || others[i].size() != steps.size())
      return failure("its curve has no " + std::string(name) + " for each step");
    ++i;
  }
  std::map<std::string, const Ordered*> metrics;
  for (const auto& [name, column] : columns.items())
    if (is_metric_name(name) && column.is_array() && column.size() == steps.size() &&
        metrics.size() < most_metrics)
      metrics.emplace(name, &column);
  wire::Curve curve;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto step = count(steps[i]);
    if (!step) return failure("a step of its curve is no number");
    CurvePoint point{*step, count(others[0][i]), number(others[1][i]), number(others[2][i]),
                     number(others[3][i]).value_or(0)};
    for (const auto& [name, column] : metrics)
      if (const auto value = number((*column)[i])) point.metrics.emplace(name, *value);
    curve.add(std::move(point));
  }
  return curve;
}

Result<Set> parse_set(const Ordered& object) {
  if (!object.is_object()) return failure("it has no parameters");
  Set set;
  for (const auto& [name, value] : object.items()) {
    if (!is_parameter_name(name)) return failure("a parameter has no name that a command may use");
    const std::string json = wire::json_text(value);
    set.push_back({name, value.is_string() ? value.get<std::string>() : json, json});
  }
  return set;
}

bool anybody_has(const std::vector<Summary>& all, const std::string& metric) {
  return std::ranges::any_of(
      all, [&](const Summary& each) { return last_value(each, metric).has_value(); });
}

Ranking of_what_is_there(const std::vector<Summary>& all) {
  for (const char* metric : {"val_accuracy", "val_loss", "accuracy", "loss"})
    if (anybody_has(all, metric)) return {metric, largest_is_best(metric).value_or(false), ""};
  return {};
}

int group_of(const Summary& summary) {
  if (summary.state == Summary::State::Done) return summary.stopped_early.empty() ? 0 : 1;
  if (summary.state == Summary::State::Failed) return 3;
  return summary.state == Summary::State::Waiting ? 4 : 2;
}

// Read from its folder.

// The ledger is written each minute; a clock of another machine may be a little off.
constexpr std::chrono::minutes ledger_is_young{5};

// A damaged ledger says only that something has begun; it is left for its owner to find. A ledger
// that cannot be read, or was written by a newer Spotter, says nothing, not even that nothing is
// there.
struct Reading {
  wire::LedgerFile file;
  bool young = false;
};

Result<std::optional<Reading>> ledger_of(const fs::path& home) {
  const fs::path path = home / ".spotter" / "ledger.json";
  const auto text = io::read_file(path, ledger_limit);
  if (!text && text.error() == std::errc::no_such_file_or_directory) return std::nullopt;
  if (!text) return failure("cannot read " + path.string() + ": " + text.error().message());
  const auto file = wire::parse_ledger(*text);
  if (!file && wire::is_newer(file.error()))
    return failure(path.string() + ": " + file.error().message);
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  const bool young = !error && fs::file_time_type::clock::now() - written < ledger_is_young;
  return Reading{file.value_or(wire::LedgerFile()), young};
}

bool has_file(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool has_content(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator first(folder, error);
  return !error && first != fs::directory_iterator();
}

// By token, the folder itself as 0.
Result<std::map<std::uint64_t, fs::path>> homes_in(const fs::path& folder) {
  std::map<std::uint64_t, fs::path> homes;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  if (error == std::errc::no_such_file_or_directory) return homes;
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    if (const auto token = attempt_token(at->path().filename().string()))
      homes[*token] = at->path();
  }
  if (error) return failure("cannot read " + folder.string() + ": " + error.message());
  if (homes.empty()) homes[0] = folder;
  return homes;
}

std::optional<std::uint64_t> published_in(const fs::path& folder) {
  std::error_code error;
  const auto target = fs::read_symlink(folder / "DONE", error);
  if (error) return std::nullopt;
  return attempt_token(target.parent_path().filename().string());
}

std::string model_in(const fs::path& folder, const fs::path& home) {
  for (const fs::path& path : {folder / "model", home / "model", home / "result"})
    if (has_content(path)) return path.string();
  return {};
}

Summary::State state_of(const std::optional<Reading>& reading, const fs::path& folder,
                        const fs::path& home) {
  if (has_file(folder / "DONE") || has_file(home / "DONE")) return Summary::State::Done;
  if (reading && reading->file.ledger.done) return Summary::State::Done;  // of a volume, a bucket
  if (!reading) return Summary::State::Waiting;
  if (reading->file.ledger.running && reading->young) return Summary::State::Running;
  return reading->file.failures > 0 ? Summary::State::Failed : Summary::State::Stopped;
}

}  // namespace

const char* to_text(Summary::State state) { return state_names[static_cast<std::size_t>(state)]; }

const char* shown_state(const Summary& summary) {
  return summary.stopped_early.empty() ? to_text(summary.state) : "stopped early";
}

std::string to_json(const Summary& summary) {
  const CurvePoint last = summary.curve.last().value_or(CurvePoint{});
  const bool any = !summary.curve.points().empty();
  const Ordered document = {{"version", known_summary},
                            {"index", summary.index},
                            {"state", to_text(summary.state)},
                            {"parameters", Ordered::parse(to_json(summary.parameters))},
                            {"attempt", summary.attempt},
                            {"attempts", summary.attempts},
                            {"seconds", std::round(summary.seconds * 1000) / 1000},
                            {"model", summary.model},
                            {"stopped_early", summary.stopped_early},
                            {"step", any ? Ordered(last.step) : Ordered()},
                            {"epoch", or_null(last.epoch)},
                            {"loss", or_null(last.loss)},
                            {"accuracy", or_null(last.accuracy)},
                            {"metrics", last.metrics},
                            {"curve", columns(summary.curve)}};
  return wire::json_text(document) + "\n";
}

Result<Summary> parse_summary(std::string_view text) {
  const auto known = TRY(wire::parse_json_object(text));   // limits the depth; an object
  const Ordered object = wire::parsed_ordered_json(text);  // keeps the parameters' order
  if (auto newer = wire::newer(known, "version", known_summary, "the result"))
    return tl::unexpected<Error>(std::move(*newer));
  if (count(object.value("version", Ordered())) != known_summary)
    return failure("it is no result of a sweep");
  const auto index = count(object.value("index", Ordered()));
  if (!index || *index >= most_sets) return failure("it says no index");
  Summary summary;
  summary.index = *index;
  const std::string state = wire::text_field(known, "state");
  std::size_t which = 0;
  while (which < state_names.size() && state != state_names[which]) ++which;
  if (which == state_names.size()) return failure("it says no state");
  summary.state = static_cast<Summary::State>(which);
  summary.parameters = TRY(parse_set(object.value("parameters", Ordered())));
  summary.curve = TRY(parse_columns(object.value("curve", Ordered())));
  summary.curve.thin(Summary::most_points);
  summary.attempt = count(object.value("attempt", Ordered())).value_or(0);
  summary.attempts = count(object.value("attempts", Ordered())).value_or(0);
  summary.seconds = std::max(0.0, number(object.value("seconds", Ordered())).value_or(0));
  summary.model = wire::text_field(known, "model");
  if (summary.state == Summary::State::Done)
    summary.stopped_early = wire::text_field(known, "stopped_early");
  return summary;
}

std::optional<double> last_value(const Summary& summary, const std::string& metric) {
  const auto last = summary.curve.last();
  return last ? metric_of(*last, metric) : std::nullopt;
}

Ranking ranking_of(const std::vector<Summary>& all, const std::optional<Objective>& objective) {
  if (objective && anybody_has(all, objective->metric))
    return {objective->metric, objective->largest_is_best, ""};
  Ranking instead = of_what_is_there(all);
  const bool of_training = instead.metric == "accuracy" || instead.metric == "loss";
  const std::string by =
      instead.metric == "index"
          ? "nor has any reported something else to compare, so they come in their order"
          : "so the experiments are compared by " + instead.metric +
                (of_training ? " of the training" : "");
  if (objective)
    instead.note =
        "no experiment has reported " + objective->metric + ", the sweep's objective, " + by;
  else if (of_training)
    instead.note = "no experiment has reported val_accuracy or val_loss, " + by;
  return instead;
}

std::vector<std::size_t> best_first(const std::vector<Summary>& all, const Value& value,
                                    bool largest_first) {
  struct Key {
    int group;
    bool lacks;
    double value;
    std::size_t index, at;
    auto operator<=>(const Key&) const = default;
  };
  std::vector<Key> keys;
  for (std::size_t at = 0; at < all.size(); ++at) {
    const auto its = value(all[at]);
    const double sign = largest_first ? -1 : 1;
    keys.push_back({group_of(all[at]), !its, sign * its.value_or(0), all[at].index, at});
  }
  std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return (a <=> b) < 0; });
  std::vector<std::size_t> places;
  places.reserve(keys.size());
  for (const Key& key : keys) places.push_back(key.at);
  return places;
}

wire::Curve read_metrics(const fs::path& path) {
  const auto home = io::SafeDirectory::open(path.parent_path());
  const auto text =
      home ? home->read(path.filename(), metrics_limit) : tl::unexpected(home.error());
  return text ? wire::parse_curve(*text).curve : wire::Curve();
}

Result<Summary> summary_of(const fs::path& folder, std::size_t index, Set parameters,
                           std::optional<std::uint64_t> winner) {
  Summary summary;
  summary.index = index;
  summary.parameters = std::move(parameters);
  const auto homes = TRY(homes_in(folder));
  if (!winner) winner = published_in(folder);
  std::optional<Reading> reading;
  fs::path newest = folder;
  for (const auto& [token, home] : homes) {
    if (winner && token > *winner) break;
    reading = TRY(ledger_of(home));
    newest = home;
    summary.attempt = token;
    summary.curve.append(read_metrics(home / "metrics.jsonl"));
    summary.seconds += reading ? reading->file.ledger.seconds : 0;
    summary.attempts += reading ? reading->file.trainers : 0;
  }
  summary.state = state_of(reading, folder, newest);
  if (summary.state == Summary::State::Done && reading)
    summary.stopped_early = reading->file.ledger.stopped_early.str();
  summary.model = model_in(folder, newest);
  summary.curve.thin(Summary::most_points);
  return summary;
}

}  // namespace spotter::sweep

namespace spotter::command {
namespace {

bool is_passing(s3::Failure::Kind kind) {
  using enum s3::Failure::Kind;
  return kind == Unavailable || kind == NoCredentials || kind == Corrupt;
}

}  // namespace

Result<std::vector<sweep::Set>, config::Problem> sets_of(const config::Job& job) {
  const std::string& source = job.sweep->source;
  if (source.empty()) return job.sweep->sets;
  s3::Client client({.environment = act::Environment::of_this_process()});
  const auto text = s3::read(client, *wire::parse_s3_url(source));
  if (!text) {
    return tl::unexpected(config::Problem{.message = "sweep.parameters: " + text.error().text(),
                                          .passing = is_passing(text.error().kind)});
  }
  auto sets = config::read_sets(text->bytes, source, job.trainer);
  if (!sets) return tl::unexpected(config::Problem{.message = sets.error().message});
  return std::move(*sets);
}

}  // namespace spotter::command
