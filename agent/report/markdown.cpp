// The report as text: tables that align in a terminal, and are tables on GitHub.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "agent/base/clock_text.hpp"
#include "agent/report/boots.hpp"
#include "agent/wire/status.hpp"

namespace spotter::report {
namespace {

constexpr std::size_t most_interruptions = 1000, most_experiments = 100, most_lines = 20;

// Names, paths and log lines are not ours: removes control characters and markup, escapes cells.
std::string safe(const std::string& text) {
  std::string words;
  for (const char each : text) {
    if (static_cast<unsigned char>(each) < ' ' || each == '\x7f')
      words += ' ';
    else if (each == '<')
      words += "&lt;";
    else if (std::string_view("|\\`*_[]").find(each) != std::string_view::npos)
      words += std::string("\\") + each;
    else
      words += each;
  }
  return words;
}

std::string seconds_text(const Number& seconds) {
  if (!seconds) return "-";
  return *seconds < 10 ? number_text("%.1f s", *seconds) : wire::duration_text(*seconds);
}

// In seconds, even beyond a minute: it is compared with what happened within it.
std::string window_text(const Number& seconds) {
  return seconds ? number_text("%.0f s", *seconds) : "-";
}

std::string dollars_text(double dollars) {
  return "$" + number_text(dollars < 1 ? "%.4f" : "%.2f", dollars);
}

std::string time_text(double time) {
  constexpr double last = 253'402'300'799;  // of the year 9999
  const auto seconds = static_cast<long>(std::clamp(time, 0.0, last));
  std::string text = wire::to_rfc3339(wire::WallTime(std::chrono::seconds(seconds)));
  return text.replace(text.find('T'), 1, " ").substr(0, text.size() - 1);
}

std::string count_text(const Count& count) { return count ? std::to_string(*count) : "-"; }

std::string plural(std::size_t count, const std::string& one) {
  return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char each) { return (static_cast<unsigned char>(each) & 0xc0U) != 0x80U; }));
}

class Table {
 public:
  explicit Table(std::vector<std::string> heads) { add(std::move(heads)); }
  void add(std::vector<std::string> cells) {
    widths_.resize(std::max(widths_.size(), cells.size()), 3);
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths_[i] = std::max(widths_[i], width(cells[i]));
    rows_.push_back(std::move(cells));
  }
  std::string text() const {
    std::string text = line(rows_.front());
    for (const std::size_t columns : widths_) text += "|" + std::string(columns + 2, '-');
    text += "|\n";
    for (std::size_t row = 1; row < rows_.size(); ++row) text += line(rows_[row]);
    return text;
  }

 private:
  std::string line(const std::vector<std::string>& cells) const {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i)
      line += "| " + cells[i] + std::string(widths_[i] - width(cells[i]) + 1, ' ');
    return line + "|\n";
  }

  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> widths_;
};

// --- the sections
// A chart of one metric: one character for a part of the steps.
std::string sparkline(const wire::Curve& curve, const std::string& metric) {
  static constexpr std::array<const char*, 8> bars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::size_t columns = 60;
  std::vector<double> values;
  for (const wire::CurvePoint& point : curve.points())
    if (const Number its = metric_of(point, metric); its && std::isfinite(*its))
      values.push_back(*its);
  if (values.size() < 2) return "";
  const std::size_t parts = std::min(columns, values.size());
  std::vector<double> means;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t from = part * values.size() / parts, to = (part + 1) * values.size() / parts;
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += values[i];
    means.push_back(sum / static_cast<double>(to - from));
  }
  const auto [low, high] = std::ranges::minmax(means);
  std::string line;
  for (const double mean : means) {
    const double part = high > low ? (mean - low) / (high - low) : 0;
    line += bars[static_cast<std::size_t>(std::lround(part * (bars.size() - 1)))];
  }
  return line + "  " + number_text("%.4g", values.front()) + " → " +
         number_text("%.4g", values.back());
}

std::string curves(const wire::Curve& curve) {
  std::vector<std::string> names{"loss", "accuracy"};
  names.insert(names.end(), curve.metric_names().begin(), curve.metric_names().end());
  std::string text;
  for (std::string& name : names) {
    const std::string line = sparkline(curve, name);
    name.resize(std::max<std::size_t>(name.size(), 8), ' ');
    if (!line.empty()) text += "\n    " + name + "  " + line + "\n";
  }
  return text;
}

// Names the number of a checkpoint: files whose names have no step are counted as they are written.
const char* number_word(const Model& model) {
  return model.progress.checkpoint_counts == "writes" ? "write" : "step";
}

std::string progress_text(const Progress& it) {
  std::string text;
  if (it.step) text = "step " + std::to_string(*it.step);
  if (it.step && it.steps_total) text += " of " + std::to_string(*it.steps_total);
  if (it.epoch) text += (text.empty() ? "epoch " : ", epoch ") + std::to_string(*it.epoch);
  if (it.epoch && it.epochs_total) text += " of " + std::to_string(*it.epochs_total);
  if (it.loss) text += ", loss " + number_text("%.5g", *it.loss);
  if (it.accuracy) text += ", accuracy " + number_text("%.4g", *it.accuracy);
  for (const auto& [name, value] : it.metrics)
    text += ", " + name + " " + number_text("%.5g", value);
  return text.empty() ? "-" : text;
}

std::string machines_text(const Model& model) {
  std::set<std::string> ids, zones;
  for (const Instance& each : model.instances) ids.insert(each.id);
  for (const Instance& each : model.instances)
    if (!each.zone.empty()) zones.insert(each.zone);
  std::string text = plural(ids.size(), "machine");
  for (const std::string& zone : zones)
    text += (zone == *zones.begin() ? " in " : ", ") + safe(zone);
  const auto lost = static_cast<std::size_t>(
      std::ranges::count(model.interruptions, "lost", &Interruption::kind));
  if (const auto announced = model.interruptions.size() - lost; announced > 0)
    text += ", " + plural(announced, "interruption") + " announced";
  if (lost > 0) text += ", " + plural(lost, "machine") + " lost without notice";
  return text;
}

std::string cost_text(const Cost& it) {
  if (!it.spot_dollars) return "not known";
  std::string text = dollars_text(*it.spot_dollars) + " on spot";
  if (it.on_demand_dollars)
    text += ", " + dollars_text(*it.on_demand_dollars) + " for the same time on demand";
  return text;
}

std::string goodput_text(const Goodput& it) {
  if (!it.part) return "not known";
  const double counted = it.trained_seconds - it.repeated_seconds - it.stall_seconds;
  return number_text("%.1f", *it.part * 100) + " %: of " + seconds_text(it.elapsed_seconds) + ", " +
         seconds_text(std::max(0.0, counted)) + " trained steps that count";
}

std::string summary(const Model& model) {
  Table table({"", ""});
  table.add({"progress", progress_text(model.progress)});
  table.add({"machines", machines_text(model)});
  table.add({"their time", seconds_text(model.cost.instance_seconds)});
  table.add({"cost", cost_text(model.cost)});
  table.add({"savings", model.cost.savings_percent
                            ? number_text("%.1f", *model.cost.savings_percent) + " %"
                            : "not known"});
  table.add({"goodput", goodput_text(model.goodput)});
  table.add({"repeated",
             plural(static_cast<std::size_t>(model.goodput.repeated_steps), number_word(model)) +
                 ", " + seconds_text(model.goodput.repeated_seconds)});
  table.add(
      {"checkpoints", seconds_text(model.goodput.stall_seconds) + " of training stood still"});
  return table.text();
}

std::string interruptions(const Model& model) {
  if (model.interruptions.empty()) return "";
  const char* const word = number_word(model);
  Table table({"#", "machine", "zone", "kind", "at", "durable after", "of", "trained on", word,
               "went on at", "repeated", "down for"});
  std::string sentences;
  std::size_t number = 0;
  for (const Interruption& it : model.interruptions) {
    if (++number > most_interruptions) break;
    table.add({std::to_string(number), safe(it.instance), safe(it.zone), safe(it.kind),
               time_text(it.time), seconds_text(it.seconds_to_durable),
               window_text(it.window_seconds), window_text(it.window_trained), count_text(it.step),
               count_text(it.resumed_step), count_text(it.repeated_steps),
               seconds_text(it.down_seconds)});
    sentences += std::to_string(number) + ". " + safe(it.instance) + ": " + it.why + ".\n";
  }
  return "\n## Interruptions\n\n" + table.text() + "\n" + sentences;
}

// Repeats that no interruption explains.
std::string repeats(const Model& model) {
  std::string lines;
  for (const Repeat& it : model.repeats) {
    const bool announced = std::ranges::any_of(model.interruptions, [&](const Interruption& each) {
      return each.resumed == it.time && each.why == it.why;
    });
    if (!announced)
      lines += "- " + time_text(it.time) + ", " + safe(it.instance) + ": " + safe(it.why) +
               "; from " + number_word(model) + " " + std::to_string(it.step) + ", " +
               plural(static_cast<std::size_t>(it.repeated_steps), number_word(model)) +
               " repeated.\n";
  }
  return lines.empty() ? "" : "\n## Also repeated\n\n" + lines;
}

std::string machines(const Model& model) {
  if (model.instances.empty()) return "";
  Table table({"machine", "type", "zone", "began", "for", "end", "$ an hour"});
  for (const Instance& it : model.instances) {
    const double from = it.booted && *it.booted < it.began ? *it.booted : it.began;
    table.add({safe(it.id), safe(it.type), safe(it.zone), time_text(it.began),
               seconds_text(it.ended.value_or(model.now) - from), to_text(it.end),
               it.price ? number_text("%.4f", *it.price) : "-"});
  }
  return "\n## Machines\n\n" + table.text();
}

std::string experiments(const std::optional<Sweep>& sweep) {
  if (!sweep || sweep->experiments.empty()) return "";
  std::vector<std::string> heads{"experiment", "state"};
  for (const std::string& name : sweep->parameters) heads.push_back(safe(name));
  const std::string& metric = sweep->ranking.metric;
  const bool has_own = metric == "index" || metric == "loss" || metric == "accuracy";
  for (const char* head : {"step", "loss", "accuracy"}) heads.emplace_back(head);
  if (!has_own) heads.push_back(metric);
  heads.emplace_back("attempts");
  Table table(std::move(heads));
  const auto value = [&](const sweep::Summary& it) { return sweep::last_value(it, metric); };
  std::size_t left = most_experiments;
  for (const auto place :
       sweep::best_first(sweep->experiments, value, sweep->ranking.largest_first)) {
    if (left-- == 0) break;
    const sweep::Summary& it = sweep->experiments[place];
    const auto last = it.curve.last();
    std::vector<std::string> cells{std::to_string(it.index), sweep::shown_state(it)};
    for (const std::string& name : sweep->parameters) {
      const auto found = std::ranges::find(it.parameters, name, &sweep::Parameter::name);
      cells.push_back(found == it.parameters.end() ? "-" : safe(found->text));
    }
    cells.push_back(last ? std::to_string(last->step) : "-");
    cells.push_back(last && last->loss ? number_text("%.5g", *last->loss) : "-");
    cells.push_back(last && last->accuracy ? number_text("%.5g", *last->accuracy) : "-");
    if (!has_own) cells.push_back(value(it) ? number_text("%.5g", *value(it)) : "-");
    cells.push_back(std::to_string(it.attempts));
    table.add(std::move(cells));
  }
  std::string text = "\n## Experiments\n\n" + table.text();
  if (metric != "index")
    text += "\nThe best first, by " + metric +
            (sweep->ranking.largest_first ? ", largest first.\n" : ", smallest first.\n");
  const auto early = std::ranges::find_if(
      sweep->experiments, [](const sweep::Summary& it) { return !it.stopped_early.empty(); });
  if (early != sweep->experiments.end())
    text += "What was stopped early comes behind what was trained to its end. Experiment " +
            std::to_string(early->index) + ": " + safe(early->stopped_early) + ".\n";
  if (!sweep->ranking.note.empty()) text += "Note: " + sweep->ranking.note + ".\n";
  if (sweep->experiments.size() > most_experiments)
    text += "\n" + std::to_string(sweep->experiments.size() - most_experiments) +
            " more: `spotter sweep results --csv` has all.\n";
  return text;
}

std::string problems(const Model& model) {
  std::vector<const JournalLine*> bad;
  for (const JournalLine& it : model.journal)
    if (it.level == "warning" || it.level == "error" || it.level == "critical") bad.push_back(&it);
  if (bad.empty()) return "";
  std::string lines;
  for (std::size_t i = bad.size() - std::min(bad.size(), most_lines); i < bad.size(); ++i)
    lines += "- " + time_text(bad[i]->time) + ", " + safe(bad[i]->instance) + ": " +
             safe(bad[i]->words) + "\n";
  return "\n## What went wrong lately\n\n" + lines;
}

std::string notes(const Model& model) {
  std::string lines;
  if (!model.cost.formula.empty()) lines += "- Savings: " + model.cost.formula + ".\n";
  for (const std::string& note : model.cost.notes)
    lines += "- " + safe(note) + (note.ends_with('.') ? "\n" : ".\n");
  if (model.foreign > 0)
    lines += "- " + plural(model.foreign, "line") +
             " of the history could not be read and is left out.\n";
  return lines.empty() ? "" : "\n## Notes\n\n" + lines;
}

}  // namespace

std::string to_markdown(const Model& model) {
  std::string text = "# " + safe(model.job) + "\n\n" + safe(model.says) + ".\n\nFrom " +
                     time_text(model.from) + " to " +
                     (model.to ? time_text(*model.to) : time_text(model.now) + ", still going on") +
                     " (UTC): " + wire::duration_text(model.to.value_or(model.now) - model.from) +
                     ".\n\n" + summary(model);
  return text + curves(model.curve) + interruptions(model) + repeats(model) + machines(model) +
         experiments(model.sweep) + problems(model) + notes(model);
}

}  // namespace spotter::report
