#include "agent/commands/results.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "agent/base/text.hpp"

namespace spotter::command {
namespace {

using sweep::Summary;
using wire::CurvePoint;

template <class T>
std::optional<double> as_number(const std::optional<T>& value) {
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

// Those beside loss and accuracy, in the order of the alphabet.
std::vector<std::string> metric_names(const Summaries& all) {
  std::set<std::string> names;
  for (const Summary& summary : all)
    if (const auto last = summary.curve.last())
      for (const auto& [name, value] : last->metrics) names.insert(name);
  return {names.begin(), names.end()};
}

struct Metric {
  const char* name;
  bool largest_first;
};
constexpr std::array<Metric, 7> metrics = {{{"accuracy", true},
                                            {"loss", false},
                                            {"epoch", true},
                                            {"step", true},
                                            {"seconds", false},
                                            {"attempts", false},
                                            {"index", false}}};

std::optional<double> known_value(const Summary& summary, std::string_view metric) {
  const auto last = summary.curve.last();
  if (metric == "accuracy" || metric == "loss")
    return last ? wire::metric_of(*last, metric) : std::nullopt;
  if (metric == "epoch") return last ? as_number(last->epoch) : std::nullopt;
  if (metric == "step") return last ? as_number(std::optional(last->step)) : std::nullopt;
  if (metric == "attempts") return static_cast<double>(summary.attempts);
  if (metric == "index") return static_cast<double>(summary.index);
  return summary.attempts > 0 ? std::optional(summary.seconds) : std::nullopt;
}

const Metric* find_metric(const std::string& name) {
  const auto* const found = std::find_if(metrics.begin(), metrics.end(),
                                         [&](const Metric& metric) { return name == metric.name; });
  return found == metrics.end() ? nullptr : found;
}

// Empty: it has no such parameter.
std::string parameter_text(const Summary& summary, const std::string& name) {
  for (const sweep::Parameter& parameter : summary.parameters)
    if (parameter.name == name) return parameter.text;
  return {};
}

std::optional<double> parameter_value(const Summary& summary, const std::string& name) {
  const std::string text = parameter_text(summary, name);
  const auto value = number_of_text<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<double> value_of(const Summary& summary, const std::string& metric) {
  if (find_metric(metric) != nullptr) return known_value(summary, metric);
  // A trainer may report one of its parameters: lr.
  if (!parameter_text(summary, metric).empty()) return parameter_value(summary, metric);
  return sweep::last_value(summary, metric);
}

bool any_has(const Summaries& all, const std::string& metric) {
  return std::any_of(all.begin(), all.end(),
                     [&](const Summary& summary) { return value_of(summary, metric).has_value(); });
}

std::string names_of_metrics(const Summaries& all) {
  std::string names;
  const auto add = [&](const std::string& name) {
    if (any_has(all, name)) names += (names.empty() ? "" : ", ") + name;
  };
  for (const Metric& metric : metrics) add(metric.name);
  for (const std::string& name : parameter_names(all)) add(name);
  const auto parameters = parameter_names(all);
  for (const std::string& name : metric_names(all))
    if (std::ranges::find(parameters, name) == parameters.end()) add(name);
  return names;
}

// --- CSV
// Exact, and not longer than necessary.
std::string number(double value) {
  std::array<char, 64> text{};
  return {text.data(), std::to_chars(text.begin(), text.end(), value).ptr};
}

std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char each : text) quoted += each == '"' ? std::string("\"\"") : std::string(1, each);
  return quoted + "\"";
}

template <class T>
std::string or_nothing(const std::optional<T>& value) {
  return value ? number(static_cast<double>(*value)) : std::string();
}

std::string csv_row(const Summary& summary, const std::vector<std::string>& parameters,
                    const std::vector<std::string>& metrics) {
  const CurvePoint last = summary.curve.last().value_or(CurvePoint{});
  std::string row = std::to_string(summary.index) + "," + sweep::to_text(summary.state);
  for (const std::string& name : parameters) row += "," + field(parameter_text(summary, name));
  row += "," + or_nothing(last.epoch) + ",";
  row += summary.curve.points().empty() ? std::string() : std::to_string(last.step);
  row += "," + or_nothing(last.loss) + "," + or_nothing(last.accuracy);
  for (const std::string& name : metrics) row += "," + or_nothing(metric_of(last, name));
  row += "," + number(summary.seconds) + "," + std::to_string(summary.attempts);
  return row + "," + field(summary.model);
}

constexpr std::size_t gap = 2;
constexpr std::size_t narrowest = 6;  // width of a parameter's column if there is no room

// The number of characters in UTF-8.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char each) { return (each & 0xC0) != 0x80; }));
}

// Removes control characters, which a terminal would interpret.
std::string printable(std::string text) {
  for (char& each : text)
    if (static_cast<unsigned char>(each) < ' ' || each == 0x7F) each = '?';
  return text;
}

std::string cut(const std::string& text, std::size_t columns) {
  if (width(text) <= columns) return text;
  std::string kept;
  std::size_t used = 0;
  for (const char each : text) {
    if ((each & 0xC0) != 0x80 && ++used >= columns) break;
    kept += each;
  }
  return kept + "…";
}

struct Column {
  std::string name;
  std::vector<std::string> cells;
  bool of_parameter = false;
  bool of_metric = false;  // which may be left out
  std::size_t columns = 0;

  void add(std::string text) {
    columns = std::max(columns, width(text));
    cells.push_back(std::move(text));
  }
};

std::string shown(const std::optional<double>& value) {
  return value ? printed("%.5g", *value) : std::string();
}

// The text of a column that is no parameter and no metric of the trainer.
std::string own_cell(const Summary& summary, std::string_view name) {
  if (name == "state") return std::string(shown_state(summary));
  const auto last = summary.curve.last();
  if (name == "step") return last ? std::to_string(last->step) : "";
  if (name == "epoch") return last && last->epoch ? std::to_string(*last->epoch) : "";
  const auto value = known_value(summary, name);
  if (name == "loss" || name == "accuracy") return shown(value);
  const bool none = !value || (name == "attempts" && *value == 0);
  return none ? "" : std::to_string(static_cast<std::uint64_t>(*value + 0.5));
}

class Table {
 public:
  Table(const Summaries& sorted, const SortOrder& order, std::size_t rows)
      : all_(sorted), rows_(rows) {
    for (const char* own : {"index", "state"}) add_own(own);
    for (const std::string& name : parameter_names(sorted)) add_parameter(name);
    for (const char* own : {"epoch", "step", "loss", "accuracy"}) add_own(own);
    for (const std::string& name : metric_names(sorted)) add_metric(name, name != order.metric);
    for (const char* own : {"seconds", "attempts"}) add_own(own);
  }

  void fit(std::size_t columns) {
    if (columns == 0) return;
    if (used() > columns) leave_out_what_is_the_same();
    if (used() > columns) cut_parameters(columns);
    while (used() > columns && leave_out_last(&Column::of_parameter)) ++parameters_left_out_;
    while (used() > columns && leave_out_last(&Column::of_metric)) ++metrics_left_out_;
  }

  std::string text() const {
    std::string text;
    for (std::size_t row = 0; row <= rows_; ++row) text += line(row);
    if (!same_.empty()) text += "in all: " + same_ + "\n";
    if (parameters_left_out_ > 0)
      text += std::to_string(parameters_left_out_) + " parameters found no room: --csv has them\n";
    if (metrics_left_out_ > 0)
      text += std::to_string(metrics_left_out_) + " metrics found no room: --csv has them\n";
    return text;
  }

 private:
  // True: a row has one.
  template <class CellOf>
  bool add(Column column, CellOf cell_of) {
    column.add(column.name);
    bool any = false;
    for (std::size_t row = 0; row < rows_; ++row) {
      std::string text = cell_of(all_[row]);
      any = any || !text.empty();
      column.add(text.empty() ? "-" : std::move(text));
    }
    columns_.push_back(std::move(column));
    return any;
  }
  void add_own(const char* name) {
    if (!add({name, {}}, [&](const Summary& it) { return own_cell(it, name); }))
      columns_.pop_back();
  }
  void add_metric(const std::string& name, bool may_be_left_out) {
    add({.name = name, .cells = {}, .of_metric = may_be_left_out},
        [&](const Summary& it) { return shown(sweep::last_value(it, name)); });
  }
  // False: there is none.
  bool leave_out_last(bool Column::*kind) {
    const auto last = std::find_if(columns_.rbegin(), columns_.rend(),
                                   [&](const Column& column) { return column.*kind; });
    if (last == columns_.rend()) return false;
    columns_.erase(std::next(last).base());
    return true;
  }
  void add_parameter(const std::string& name) {
    add({name, {}, true}, [&](const Summary& it) { return printable(parameter_text(it, name)); });
  }
  std::size_t used() const {
    std::size_t sum = 0;
    for (const Column& column : columns_) sum += column.columns + gap;
    return sum - gap;
  }
  void leave_out_what_is_the_same() {
    if (all_.size() < 2) return;
    const auto differ = differing(all_);
    std::erase_if(columns_, [&](const Column& column) {
      const bool same = column.of_parameter &&
                        std::find(differ.begin(), differ.end(), column.name) == differ.end();
      if (same) same_ += (same_.empty() ? "" : ", ") + column.name + "=" + column.cells[1];
      return same;
    });
  }
  // Shortens the widest column, one character at a time.
  void cut_parameters(std::size_t columns) {
    for (std::size_t too_many = used() - columns; too_many > 0; --too_many) {
      Column* widest = nullptr;
      for (Column& column : columns_) {
        const bool may = column.of_parameter && column.columns > narrowest;
        if (may && (widest == nullptr || column.columns > widest->columns)) widest = &column;
      }
      if (widest == nullptr) return;
      --widest->columns;
    }
  }
  std::string line(std::size_t row) const {
    std::string line;
    for (const Column& column : columns_) {
      const std::string cell = cut(column.cells[row], column.columns);
      line += cell + std::string(column.columns - width(cell) + gap, ' ');
    }
    return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }

  const Summaries& all_;
  std::size_t rows_;
  std::vector<Column> columns_;
  std::string same_;
  std::size_t parameters_left_out_ = 0, metrics_left_out_ = 0;
};

std::string counted(const Summaries& all, const SortOrder& order) {
  std::array<std::size_t, 5> counts{};
  for (const Summary& summary : all) ++counts[static_cast<std::size_t>(summary.state)];
  std::string text =
      std::to_string(all.size()) + (all.size() == 1 ? " experiment" : " experiments");
  for (std::size_t state = counts.size(); state-- > 0;) {
    if (counts[state] > 0)
      text +=
          ", " + std::to_string(counts[state]) + " " + to_text(static_cast<Summary::State>(state));
  }
  const auto early = std::ranges::count_if(
      all, [](const Summary& summary) { return !summary.stopped_early.empty(); });
  if (early > 0)
    text +=
        "; " + std::to_string(early) + " stopped early, listed behind those that came to their end";
  return text + "; by " + order.metric +
         (order.largest_first ? ", largest first" : ", smallest first");
}

}  // namespace

std::vector<std::string> parameter_names(const Summaries& all) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Summary& summary : all) {
    for (const sweep::Parameter& parameter : summary.parameters)
      if (seen.insert(parameter.name).second) names.push_back(parameter.name);
  }
  return names;
}

std::vector<std::string> differing(const Summaries& all) {
  std::vector<std::string> names = parameter_names(all);
  std::erase_if(names, [&](const std::string& name) {
    const std::string first = parameter_text(all.front(), name);
    return std::all_of(all.begin(), all.end(), [&](const Summary& summary) {
      return parameter_text(summary, name) == first;
    });
  });
  return names;
}

Result<SortOrder> sort_order(const Summaries& all, const std::string& asked,
                             const std::optional<sweep::Objective>& objective) {
  if (asked.empty()) {
    sweep::Ranking ranking = sweep::ranking_of(all, objective);
    return SortOrder{ranking.metric, ranking.largest_first, ranking.note};
  }
  const auto colon = asked.find(':');
  const std::string name = asked.substr(0, colon);
  const std::string way = colon == std::string::npos ? "" : asked.substr(colon + 1);
  if (colon != std::string::npos && way != "min" && way != "max")
    return failure("'" + asked + "' ends neither with :min nor with :max");
  if (!any_has(all, name))
    return failure("no experiment has a metric '" + name +
                   "'; there are: " + names_of_metrics(all));
  const Metric* known = find_metric(name);
  const bool largest =
      known != nullptr ? known->largest_first : sweep::largest_is_best(name).value_or(false);
  return SortOrder{name, way.empty() ? largest : way == "max"};
}

void sort(Summaries& all, const SortOrder& order) {
  const auto value = [&](const Summary& summary) { return value_of(summary, order.metric); };
  Summaries sorted;
  sorted.reserve(all.size());
  for (const std::size_t place : sweep::best_first(all, value, order.largest_first))
    sorted.push_back(std::move(all[place]));
  all = std::move(sorted);
}

std::string to_csv(const Summaries& sorted) {
  std::set<std::string> own = {"index",    "state",   "epoch",    "step",  "loss",
                               "accuracy", "seconds", "attempts", "model", "stopped_early"};
  const std::vector<std::string> metrics = metric_names(sorted);
  own.insert(metrics.begin(), metrics.end());
  const std::vector<std::string> parameters = parameter_names(sorted);
  std::string csv = "index,state";
  for (const std::string& name : parameters)
    csv += (own.contains(name) ? ",parameter." : ",") + name;
  csv += ",epoch,step,loss,accuracy";
  for (const std::string& name : metrics) csv += "," + name;
  const bool early = std::ranges::any_of(
      sorted, [](const Summary& summary) { return !summary.stopped_early.empty(); });
  csv += early ? ",seconds,attempts,model,stopped_early\n" : ",seconds,attempts,model\n";
  for (const Summary& summary : sorted) {
    csv += csv_row(summary, parameters, metrics);
    csv += (early ? "," + field(summary.stopped_early) : "") + "\n";
  }
  return csv;
}

std::string to_json(const Summaries& sorted) {
  std::string json = "[";
  for (const Summary& summary : sorted) {
    std::string one = sweep::to_json(summary);
    one.pop_back();  // its newline
    json += (json.size() > 1 ? ",\n" : "\n") + one;
  }
  return json + "\n]\n";
}

std::string to_table(const Summaries& sorted, const SortOrder& order, const Screen& screen) {
  const bool all = screen.rows == 0 || sorted.size() <= screen.rows;
  Table table(sorted, order, all ? sorted.size() : screen.rows);
  table.fit(screen.columns);
  std::string text = table.text();
  if (!all) text += "... " + std::to_string(sorted.size() - screen.rows) + " more: --csv has all\n";
  if (!order.note.empty()) text += order.note + "\n";
  return text + counted(sorted, order) + "\n";
}

}  // namespace spotter::command
