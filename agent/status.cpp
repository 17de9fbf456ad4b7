#include "agent/status.hpp"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "agent/decide/describe.hpp"
#include "agent/io/clock.hpp"
#include "agent/io/files.hpp"

namespace spotter {
namespace {

using nlohmann::json;

constexpr Duration kEvery{200};
constexpr std::size_t kLimit = 64U << 10;

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

json step_or_null(std::int64_t step) { return step < 0 ? json() : json(step); }

// A reader must see all of it or the one before; that it survives a power cut is not needed.
void replace_file(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  std::FILE* file = std::fopen(temporary.c_str(), "we");
  if (!file) return;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) == 0 && written) std::rename(temporary.c_str(), path.c_str());
}

std::string whole(double value) {
  char text[400];  // the longest double
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

}  // namespace

void Status::observe(const wire::TrainerMessage& message) {
  if (message.progress) progress_ = *message.progress;
  if (message.status) trainer_says_ = *message.status;
  if (message.window_trained) window_trained_ = message.window_trained;
}

void Status::update(const decide::State& state, Time now, bool stage_changed) {
  if (!stage_changed && now - written_ < kEvery) return;
  written_ = now;
  const decide::Facts& facts = state.facts;
  json status = {{"version", 1},
                 {"job", job_},
                 {"stage", decide::name(state.stage)},
                 {"instance", facts.instance.view()},
                 {"zone", facts.zone.view()},
                 {"volume", facts.volume.view()},
                 {"step", step_or_null(facts.step)},
                 {"steps_total", or_null(progress_.steps_total)},
                 {"epoch", or_null(progress_.epoch)},
                 {"epochs_total", or_null(progress_.epochs_total)},
                 {"loss", or_null(progress_.loss)},
                 {"accuracy", or_null(progress_.accuracy)},
                 {"trainer_says", trainer_says_},
                 {"resumed_step", step_or_null(facts.resumed_step)},
                 {"checkpoint_step", step_or_null(facts.checkpoint_step)},
                 {"attempts_without_progress", facts.ledger.attempts_without_progress},
                 {"released", std::holds_alternative<decide::Released>(state.stage)},
                 {"updated_boottime_ms", now.time_since_epoch().count()}};
  if (facts.notice) {
    status["notice_deadline_ms"] = facts.notice->deadline.time_since_epoch().count();
  }
  if (!storage_says_.empty()) status["storage_says"] = storage_says_;
  if (window_trained_) status["window_trained_seconds"] = *window_trained_;
  if (const auto* blocked = std::get_if<decide::Blocked>(&state.stage)) {
    status["blocked"] = decide::words(blocked->why);
    status["detail"] = blocked->detail.view();
  }
  // What a trainer or a path says need not be UTF-8.
  replace_file(path_, status.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

void write_worker_status(const std::string& path, const WorkerStatus& worker) {
  const auto now = io::boot_time();
  json status = {{"version", 1},
                 {"job", worker.job},
                 {"stage", "sharing"},
                 {"worker_says", worker.words},
                 {"run_directory", worker.run_directory},
                 {"updated_boottime_ms", now.count()}};
  if (!worker.trouble.empty()) status["claims_say"] = worker.trouble;
  replace_file(path, status.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

std::optional<std::string> status_text(std::string_view bytes, Time now) {
  const json status = json::parse(bytes, nullptr, false);
  // A text or a number as it is, nothing for anything else: the file is not ours to trust.
  const auto shown = [&status](const char* name) {
    const json value = status.is_object() ? status.value(name, json()) : json();
    if (value.is_string()) return value.get<std::string>();
    return value.is_number() ? value.dump() : std::string();
  };
  if (shown("version") != "1") return std::nullopt;
  std::string text = "job         " + shown("job") + "\nstage       " + shown("stage") + "\n";
  const std::string instance = shown("instance"), volume = shown("volume");
  if (!instance.empty()) text += "instance    " + instance + " in " + shown("zone") + "\n";
  if (!volume.empty()) text += "volume      " + volume + "\n";
  const std::string worker = shown("worker_says");
  if (!worker.empty()) text += "worker      " + worker + "\n";
  const std::string claims = shown("claims_say");
  if (!claims.empty()) text += "claims      " + claims + "\n";
  const std::string step = shown("step"), total = shown("steps_total");
  if (!step.empty()) text += "step        " + step + (total.empty() ? "" : " of " + total) + "\n";
  const std::string checkpoint = shown("checkpoint_step");
  if (!checkpoint.empty()) text += "checkpoint  step " + checkpoint + "\n";
  const std::string blocked = shown("blocked");
  if (!blocked.empty()) text += "blocked     " + blocked + " " + shown("detail") + "\n";
  const std::string storage = shown("storage_says");
  if (!storage.empty()) text += "storage     " + storage + "\n";
  const json updated = status.value("updated_boottime_ms", json());
  if (updated.is_number()) {
    const auto age = static_cast<double>(now.time_since_epoch().count()) - updated.get<double>();
    text += "seen        " + whole(age / 1000) + " s ago\n";
  }
  return text;
}

int print_status(const std::string& run_directory, bool as_json) {
  const auto text = io::read_file(run_directory + "/status.json", kLimit);
  if (!text) {
    std::cerr << "spotter: no status in " << run_directory
              << ": no agent has run here (see `systemctl status spotter`)\n";
    return 1;
  }
  if (as_json) {
    std::cout << *text;
    return 0;
  }
  const auto told = status_text(*text, Time(io::boot_time()));
  if (!told) std::cerr << "spotter: the status in " << run_directory << " is of another version\n";
  std::cout << told.value_or("");
  const json status = json::parse(*text, nullptr, false);
  const std::string below = told ? status.value("run_directory", "") : "";
  if (!below.empty() && below.starts_with(run_directory + "/")) {
    const auto experiment = io::read_file(below + "/status.json", kLimit);
    const auto of_it = experiment ? status_text(*experiment, Time(io::boot_time())) : std::nullopt;
    if (of_it) std::cout << "\n" << *of_it;
  }
  return told ? 0 : 1;
}

}  // namespace spotter
