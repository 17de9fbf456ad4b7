#include "agent/wire/datagram.hpp"

#include <algorithm>
#include <cmath>

#include "agent/base/record.hpp"
#include "agent/base/text.hpp"
#include "agent/wire/status.hpp"

namespace spotter::wire {
namespace {

// The core's counts are signed: a number that does not fit is skipped.
std::optional<std::uint64_t> whole_number(std::string_view text) {
  const auto value = number_of_text<std::int64_t>(text);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

std::optional<double> decimal(std::string_view text) {
  const auto value = number_of_text<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;  // a diverged loss is not shown
}

// Fields that form one value only together, kept until the whole datagram is read.
struct Parts {
  std::optional<std::uint64_t> step;
  Progress progress;
  std::optional<std::string> checkpoint_path;
  std::optional<std::uint64_t> checkpoint_step;
  std::optional<double> checkpoint_seconds;
  std::optional<std::uint64_t> checkpoint_bytes;
  std::string channel;
  std::optional<std::uint64_t> channel_bytes;
  std::optional<double> channel_stalled;
};

constexpr std::size_t longest_name = 64;  // of a channel
constexpr double kLongestStall = 86'400;  // a longer one is a mistake, and would spoil every sum

// "val_loss 0.25"
void take_metric(std::string_view text, MetricValues& metrics) {
  const auto space = text.rfind(' ');
  const std::string_view name = text.substr(0, std::min(space, text.size()));
  if (space == std::string_view::npos || !is_metric_name(name)) return;
  const auto value = decimal(text.substr(space + 1));
  if (!value || (metrics.size() >= most_metrics && !metrics.contains(name))) return;
  metrics.insert_or_assign(std::string(name), *value);
}

void take_progress(std::string_view key, std::string_view value, Parts& parts) {
  if (key == "X_SPOTTER_STEP") parts.step = whole_number(value);
  if (key == "X_SPOTTER_STEPS_TOTAL") parts.progress.steps_total = whole_number(value);
  if (key == "X_SPOTTER_EPOCH") parts.progress.epoch = whole_number(value);
  if (key == "X_SPOTTER_EPOCHS_TOTAL") parts.progress.epochs_total = whole_number(value);
  if (key == "X_SPOTTER_LOSS") parts.progress.loss = decimal(value);
  if (key == "X_SPOTTER_ACCURACY") parts.progress.accuracy = decimal(value);
  if (key == "X_SPOTTER_METRIC") take_metric(value, parts.progress.metrics);
}

void take_parts(std::string_view key, std::string_view value, Parts& parts) {
  if (key == "X_SPOTTER_CHECKPOINT") parts.checkpoint_path = std::string(value);
  if (key == "X_SPOTTER_CHECKPOINT_STEP") parts.checkpoint_step = whole_number(value);
  if (key == "X_SPOTTER_CHECKPOINT_SECONDS") parts.checkpoint_seconds = decimal(value);
  if (key == "X_SPOTTER_CHECKPOINT_BYTES") parts.checkpoint_bytes = whole_number(value);
  if (key == "X_SPOTTER_CHANNEL") parts.channel = std::string(value);
  if (key == "X_SPOTTER_CHANNEL_BYTES") parts.channel_bytes = whole_number(value);
  if (key == "X_SPOTTER_CHANNEL_STALL_SECONDS") parts.channel_stalled = decimal(value);
}

void take(std::string_view key, std::string_view value, TrainerMessage& message, Parts& parts) {
  if (key == "READY") message.ready = value == "1";
  if (key == "WATCHDOG") message.watchdog = value == "1";
  if (key == "STATUS") message.status = std::string(value.substr(0, longest_status_text));
  if (key == "X_SPOTTER_FINISHED") message.finished = value == "1";
  if (key == "X_SPOTTER_GUARD") message.of_guard = value == "1";
  if (key == "X_SPOTTER_LOG") message.of_log = value == "1";
  if (key == "X_SPOTTER_NOTE") message.note = std::string(value);
  if (key == "X_SPOTTER_BEST") message.best = std::string(value);
  if (key == "X_SPOTTER_PUT_AWAY") message.put_away = std::string(value);
  if (key == "X_SPOTTER_RESUMED_STEP") message.resumed_step = whole_number(value);
  if (key == "X_SPOTTER_WINDOW_TRAINED_SECONDS") message.window_trained = decimal(value);
  take_progress(key, value, parts);
  take_parts(key, value, parts);
}

constexpr std::string_view gang_key = "X_SPOTTER_GANG=";
constexpr std::string_view reasons = "first left lost joined apart torn failed";
constexpr std::string_view doings = "trains waits awaited leaves spare";
constexpr double longest_seconds = 1e9;  // a longer time is a mistake

void cut(std::string& text, std::size_t most) {
  text.resize(std::min({text.find_first_of(std::string_view("\n\0", 2)), text.size(), most}));
  text = printable(std::move(text));  // else each byte may take six in JSON
}

void keep_word(std::string& word, std::string_view words) {
  if (!is_among(word, words)) word.clear();
}

// What is written and what is taken.
void limit(GangReport& report) {
  for (auto* const text : {&report.leader, &report.waits_for, &report.who, &report.hung})
    cut(*text, longest_status_text);
  keep_word(report.why, reasons);
  report.by_name.resize(std::min(report.by_name.size(), most_gang_members));
  for (auto& [name, does] : report.by_name) {
    cut(name, longest_gang_name);
    keep_word(does, doings);
  }
  for (auto* const count : {&report.members, &report.machines, &report.round, &report.rounds,
                            &report.copy_step, &report.copy_machines})
    *count = std::min<std::uint64_t>(*count, INT64_MAX);
  for (auto* const seconds : {&report.took, &report.trained, &report.between})
    *seconds = std::clamp(*seconds, 0.0, longest_seconds);
}

// -1: it is absent, or no such number.
std::int64_t shown_count(const Json& gang, const char* name, double most = 1e9) {
  const double value = number_field(gang, name).value_or(-1);
  return value >= 0 && value < most ? static_cast<std::int64_t>(value) : -1;
}

std::string machines_text(std::int64_t count) {
  return std::to_string(count) + (count == 1 ? " machine" : " machines");
}

}  // namespace

Result<TrainerMessage> parse_datagram(std::string_view bytes) {
  if (bytes.size() > longest_datagram) return failure("the trainer's datagram is too long");
  if (bytes.find('\0') != std::string_view::npos)
    return failure("the trainer's datagram contains a NUL");
  TrainerMessage message;
  Parts parts;
  while (!bytes.empty()) {
    const std::string_view line = take_until(bytes, '\n');
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    take(line.substr(0, equals), line.substr(equals + 1), message, parts);
  }
  if (parts.step) {
    parts.progress.step = *parts.step;
    message.progress = parts.progress;
  }
  if (parts.checkpoint_path && parts.checkpoint_path->starts_with('/') && parts.checkpoint_step) {
    const bool sane = parts.checkpoint_seconds && *parts.checkpoint_seconds >= 0 &&
                      *parts.checkpoint_seconds <= kLongestStall;
    message.checkpoint =
        DurableCheckpoint{*parts.checkpoint_path, *parts.checkpoint_step,
                          sane ? parts.checkpoint_seconds : std::nullopt, parts.checkpoint_bytes};
  }
  if (!parts.channel.empty() && parts.channel.size() <= longest_name && parts.channel_bytes &&
      parts.channel_stalled.value_or(-1) >= 0)
    message.flow = ChannelFlow{parts.channel, *parts.channel_bytes, *parts.channel_stalled};
  return message;
}

std::string to_line(GangReport report) {
  limit(report);
  while (true) {
    std::string line = std::string(gang_key) + json_text(object_of(report)) + "\n";
    if (line.size() <= longest_datagram || report.by_name.empty()) return line;
    report.by_name.pop_back();
  }
}

std::optional<GangReport> parse_gang_report(std::string_view datagram) {
  while (!datagram.empty()) {
    const std::string_view line = take_until(datagram, '\n');
    if (!line.starts_with(gang_key)) continue;
    GangReport report;
    if (!read_record(parsed_json(line.substr(gang_key.size())), report).empty()) break;
    limit(report);
    return report;
  }
  return std::nullopt;
}

Json to_json(const GangReport& report) {
  Json object = object_of(report);
  const double all = report.trained + report.between;
  object["goodput"] = all > 0 ? Json(report.trained / all) : Json();
  if (report.copy_machines == 0)
    for (const char* const key : {"copy_step", "copy_machines"}) object.erase(key);
  if (report.rounds == 0)
    for (const char* const key : {"why", "who", "took_seconds"}) object.erase(key);
  return object;
}

std::string gang_words(const Json& gang) {
  if (!gang.is_object()) return "";
  const auto members = shown_count(gang, "members"), machines = shown_count(gang, "machines");
  if (members < 0) return "";
  const std::string of = machines_text(members);
  if (machines <= 0) {
    const std::string waits = text_field(gang, "waits_for");
    return "no round of " + of + (waits.empty() ? "" : ": this one waits for " + waits);
  }
  return "round " + std::to_string(shown_count(gang, "round")) + ": " + std::to_string(machines) +
         " of " + of + (machines == 1 ? " trains" : " train") + ", led by " +
         text_field(gang, "leader");
}

std::string gang_copy(const Json& gang) {
  if (!gang.is_object()) return "";
  constexpr double most_steps = 1e15;
  const auto step = shown_count(gang, "copy_step", most_steps),
             machines = shown_count(gang, "copy_machines");
  if (step < 0 || machines <= 0) return "";
  return "step " + std::to_string(step) + " on " + machines_text(machines);
}

std::string gang_reason(const Json& gang) {
  if (!gang.is_object()) return "";
  const std::string why = text_field(gang, "why"), who = text_field(gang, "who");
  if (why == "first") return "the first";
  if (why == "apart") return "the machines did not reach one another";
  if (why == "torn") return "the machines lost one another";
  if (why == "failed") return "the trainer failed";
  if (why == "lost") return who + " was lost";
  return why == "left" || why == "joined" ? who + " " + why : "";
}

bool names_step(std::string_view path, std::int64_t step) {
  const auto last = std::min(path.find_last_of('/'), path.size());
  const std::string_view name = path.substr(path.substr(0, last).find_last_of('/') + 1);
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  for (auto at = name.begin(); at != name.end();) {
    at = std::find_if(at, name.end(), is_digit);
    const auto end = std::find_if_not(at, name.end(), is_digit);
    if (number_of_text<std::int64_t>(std::string_view(at, end)) == step) return true;
    at = end;
  }
  return false;
}

}  // namespace spotter::wire
