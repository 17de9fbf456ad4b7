#include "agent/wire/metric_log.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"

namespace spotter::wire {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

// The frameworks' names for the same thing.
constexpr std::array other_names{
    Names{"global_step", "step"},
    Names{"iteration", "step"},
    Names{"iter", "step"},
    Names{"acc", "accuracy"},
    Names{"train_acc", "accuracy"},
    Names{"train_accuracy", "accuracy"},
    Names{"train_loss", "loss"},
    Names{"val_acc", "val_accuracy"},
    Names{"eval_accuracy", "val_accuracy"},
    Names{"eval_loss", "val_loss"},
};

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr double largest_count = 9007199254740992;  // 2^53: beyond it a double skips numbers

bool is_place(std::string_view name) {
  return name == "step" || name == "epoch" || name == "loss" || name == "accuracy";
}

// The whole text as a number; "nan" and "inf" are numbers.
std::optional<double> number_in(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  return number_of_text<double>(text);
}

std::optional<std::uint64_t> count_in(std::optional<double> value) {
  if (!value || !(*value >= 0) || *value >= largest_count) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

// The one that the header has most often.
char separator_of(std::string_view header) {
  constexpr std::array candidates{',', '\t', ';'};
  return *std::ranges::max_element(candidates, {},
                                   [&](char each) { return std::ranges::count(header, each); });
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i)
    text += (i == 0 ? "" : ", ") + names[i].substr(0, longest_metric_name);
  return text + (names.size() > shown ? ", ..." : "");
}

}  // namespace

std::string name_of_column(std::string_view column, const LogColumns& columns) {
  for (const auto& [ours, its] : columns)
    if (its == column) return ours;
  std::string name(trimmed(column));
  for (const auto& [other, plain] : other_names)
    if (name == other) name = plain;
  if (columns.contains(name)) return {};  // another column has that name
  if (is_place(name)) return name;
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_.-/").find(c) != std::string_view::npos;
  };
  for (char& each : name)
    if (!fits(each)) each = '_';
  return is_metric_name(name) ? name : std::string();
}

std::optional<std::vector<std::string>> csv_fields(std::string_view line, char separator) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char each = line[i];
    if (quoted && each == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (each == '"' && (quoted || fields.back().empty())) {
      quoted = !quoted;
    } else if (!quoted && each == separator) {
      fields.emplace_back();
    } else {
      fields.back() += each;
    }
  }
  if (quoted) return std::nullopt;
  return fields;
}

std::optional<CurvePoint> MetricLog::take(std::string_view line) {
  if (line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
  if (line.size() > longest_log_line || trimmed(line).empty()) return std::nullopt;
  return kind_ == LogKind::Csv ? take_csv(line) : take_json(line);
}

// A trainer that starts again may write its header again, in the middle of the file.
std::optional<CurvePoint> MetricLog::take_csv(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const char separator = header_.empty() ? separator_of(line) : separator_;
  const auto fields = csv_fields(line, separator);
  if (!fields) return std::nullopt;
  std::vector<Cell> cells;
  bool has_number = false;
  for (std::size_t i = 0; i < std::min(fields->size(), most_log_columns); ++i) {
    const auto value = number_in((*fields)[i]);
    has_number = has_number || value;
    if (i < header_.size() && value && std::isfinite(*value)) cells.push_back({header_[i], *value});
  }
  const auto names_step = [this](const std::string& field) {
    const std::string name = name_of_column(field, columns_);
    return name == "step" || name == "epoch";
  };
  if (!has_number && (header_.empty() || std::ranges::any_of(*fields, names_step))) {
    separator_ = separator;
    take_header(*fields);
    return std::nullopt;
  }
  if (header_.empty())
    trouble_ = "its first line has numbers: a header with the columns' names is needed";
  // A row whose writer was killed, and the one that was written behind it, are one line.
  if (fields->size() != header_.size()) return std::nullopt;
  return point_of(cells);
}

void MetricLog::take_header(const std::vector<std::string>& cells) {
  header_.clear();
  trouble_.clear();
  bool has_step = false;
  for (const std::string& cell : cells) {
    header_.emplace_back(trimmed(cell));
    const std::string name = name_of_column(header_.back(), columns_);
    has_step = has_step || name == "step" || name == "epoch";
  }
  if (!has_step)
    trouble_ =
        "no column of it is the step or the epoch: say which one is, as in metrics: "
        "{columns: {step: NAME}}; it has " +
        listed(header_);
}

std::optional<CurvePoint> MetricLog::take_json(std::string_view line) {
  const auto object = parse_foreign_json(line);
  if (!object || !object->is_object()) {
    if (trouble_.empty() && header_.empty()) trouble_ = "its lines are no JSON objects";
    return std::nullopt;
  }
  std::vector<Cell> cells;
  for (const auto& [column, value] : object->items()) {
    if (cells.size() >= most_log_columns) break;
    std::optional<double> number;
    if (value.is_number()) number = value.get<double>();
    // In a row with NaN, a number of Python's with many digits is a marked text.
    if (value.is_string())
      number = number_in(marked_number(value.get_ref<const std::string&>()).value_or(""));
    if (number && std::isfinite(*number)) cells.push_back({column, *number});
  }
  auto point = point_of(cells);
  if (point) header_.assign(1, "{}");  // that its lines are of use is known now
  if (point) trouble_.clear();
  if (!point && header_.empty())
    trouble_ =
        "its lines have no \"step\" and no \"epoch\": say which member is, as in metrics: "
        "{columns: {step: NAME}}";
  return point;
}

// First those that job.yaml names, then those of our names, then the other names of these.
std::optional<CurvePoint> MetricLog::point_of(const std::vector<Cell>& cells) {
  MetricValues values;
  std::size_t metrics = 0;
  for (const int wanted : {0, 1, 2}) {
    for (const Cell& cell : cells) {
      const std::string name = name_of_column(cell.column, columns_);
      const bool first = columns_.contains(name) || (name == wanted_ && !name.empty());
      const int rank = first ? 0 : name == cell.column ? 1 : 2;
      const bool fits = is_place(name) || (!name.empty() && metrics < most_metrics);
      if (rank != wanted || !fits) continue;
      if (values.emplace(name, cell.value).second && !is_place(name)) ++metrics;
    }
  }
  const auto taken = [&](std::string_view name) -> std::optional<double> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    const double value = found->second;
    values.erase(found);
    return value;
  };
  const auto epoch = count_in(taken("epoch"));
  const auto step = count_in(taken("step"));
  if (!step && !epoch) return std::nullopt;
  CurvePoint point;
  point.step = step.value_or(epoch.value_or(0));
  point.epoch = epoch;
  point.loss = taken("loss");
  point.accuracy = taken("accuracy");
  point.metrics = std::move(values);
  if (!point.loss && !point.accuracy && point.metrics.empty()) return std::nullopt;
  return point;
}

}  // namespace spotter::wire
