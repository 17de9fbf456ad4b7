#include "agent/supervise/record.hpp"

#include <limits>
#include <nlohmann/json.hpp>

namespace spotter::supervise {
namespace {

using Json = nlohmann::json;

std::int64_t number(const Json& json, const char* key) {
  const auto found = json.find(key);
  const bool fits = found != json.end() && found->is_number_integer() &&
                    (!found->is_number_unsigned() ||
                     found->get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max());
  return fits ? found->get<std::int64_t>() : 0;
}

std::string text(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool flag(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

// 0: the number is no pid.
int pid_of(std::int64_t number) {
  return number > 0 && number <= std::numeric_limits<int>::max() ? static_cast<int>(number) : 0;
}

// An exit status or a signal's number.
Result<std::optional<int>> status(const Json& json, const char* key) {
  if (!json.contains(key)) return std::nullopt;
  const Json& value = json[key];
  if (!value.is_number_integer() || value < 0 || value > 255)
    return failure(std::string("its ") + key + " is not a number from 0 to 255");
  return value.get<int>();
}

Time time_of(const Json& json, const char* key) { return Time(Duration(number(json, key))); }

}  // namespace

void to_json(Json& json, const LeftOver& process) {
  json = {{"pid", process.pid}, {"start_ticks", process.start_ticks}};
}

Result<Record> parse_record(std::string_view text_of_file) {
  const Json json = Json::parse(text_of_file, nullptr, false);
  if (!json.is_object()) return failure("it is not a JSON object");
  if (auto newer = wire::newer(json, "version", record_version, "what the supervisor says")) {
    return tl::unexpected(std::move(*newer));
  }
  const auto ticks = number(json, "trainer_start_ticks");
  Record record{.supervisor_pid = pid_of(number(json, "pid")),
                .trainer_pid = pid_of(number(json, "trainer_pid")),
                .trainer_start_ticks = ticks > 0 ? static_cast<std::uint64_t>(ticks) : 0,
                .started = time_of(json, "started_boottime_ms"),
                .job = text(json, "job"),
                .control_group = text(json, "control_group")};
  if (record.supervisor_pid == 0 || record.trainer_pid == 0)
    return failure("it must have a pid and a trainer_pid");
  return record;
}

Result<Ended> parse_ended(std::string_view text_of_file) {
  const Json json = Json::parse(text_of_file, nullptr, false);
  if (!json.is_object()) return failure("it is not a JSON object");
  if (auto newer = wire::newer(json, "version", record_version, "how the trainer ended")) {
    return tl::unexpected(std::move(*newer));
  }
  const auto exit_code = status(json, "exit_code");
  if (!exit_code) return tl::unexpected(exit_code.error());
  const auto signal = status(json, "signal");
  if (!signal) return tl::unexpected(signal.error());
  if (exit_code->has_value() == signal->has_value())
    return failure("it must have exactly one of exit_code and signal");
  Ended end{.exit_code = *exit_code,
            .signal = *signal,
            .core_dumped = flag(json, "core_dumped"),
            .out_of_memory = flag(json, "out_of_memory"),
            .checkpoint_doubted = flag(json, "checkpoint_doubted"),
            .stopped_by = text(json, "stopped_by"),
            .last_words = text(json, "last_words"),
            .ended = time_of(json, "ended_boottime_ms"),
            .ran = Duration(number(json, "ran_ms")),
            .trainer_pid = pid_of(number(json, "trainer_pid")),
            .job = text(json, "job"),
            .boot_id = text(json, "boot_id")};
  if (const auto all = json.find("left_over"); all != json.end() && all->is_array()) {
    for (const Json& each : *all) {
      if (!each.is_object()) continue;  // an older version's: a pid alone names no process for long
      const int pid = pid_of(number(each, "pid"));
      const auto ticks = number(each, "start_ticks");
      if (pid > 0 && ticks > 0) end.left_over.push_back({pid, static_cast<std::uint64_t>(ticks)});
    }
  }
  return end;
}

std::string last_lines(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  auto start = text.size();
  constexpr int lines = 20;
  for (int line = 0; line < lines; ++line) {
    if (start == 0) return text;
    const auto found = text.rfind('\n', start - 1);
    if (found == text.npos) return text;
    start = found;
  }
  return text.substr(start + 1);
}

}  // namespace spotter::supervise
