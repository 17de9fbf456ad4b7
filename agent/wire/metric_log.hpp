// The metrics in a log that a trainer writes for itself, one row a line: CSV or JSON lines. No I/O.
//
//   Keras' CSVLogger (keras/src/callbacks/csv_logger.py): `epoch` from 0, the metrics' names in the
//     order of the alphabet; "NA" for what an epoch lacks
//   Lightning's CSVLogger (lightning/fabric/loggers/csv_logs.py): `epoch`, `step` among the names,
//     a row for the training and another for the validation, empty cells in both; written over with
//     a longer header when a name appears later
//   JSON lines: one object a line; NaN and Infinity as Python's json writes them
#pragma once

#include <cstddef>
#include <functional>
#include <map>

#include "agent/wire/curve.hpp"

namespace spotter::wire {

inline constexpr std::size_t longest_log_line = 64U << 10;
inline constexpr std::size_t most_log_columns = 1024;  // more in one row are not looked at

enum class LogKind : std::uint8_t { Csv, JsonLines };

// Our names ("step", "epoch", "loss", "accuracy", a metric's) -> the log's.
using LogColumns = std::map<std::string, std::string, std::less<>>;

// Our name of a column: the one in `columns`; else the plain one for a framework's (acc, val_acc,
// train_loss, eval_loss, global_step, ...); else its own, with '_' for characters that a metric's
// name may not have. Empty: no name of a metric can be made of it.
std::string name_of_column(std::string_view column, const LogColumns& columns);

class MetricLog {
 public:
  // `wanted`: our name of a metric that is taken however many others there are; "": none.
  MetricLog(LogKind kind, LogColumns columns, std::string wanted = {})
      : kind_(kind), columns_(std::move(columns)), wanted_(std::move(wanted)) {}

  // Without its newline. None: a header, a line that is cut off or longer than a line may be, a row
  // without a step or without any finite number beside it. `time` is 0. If a row has an epoch and
  // no step, the epoch is the step. The first `most_metrics` names of the log are taken.
  std::optional<CurvePoint> take(std::string_view line);

  // Another file begins: with a header, if it is CSV.
  void begin() { header_.clear(); }

  // Why the lines so far are of no use, for a person; empty: they are.
  const std::string& trouble() const { return trouble_; }

 private:
  struct Cell {
    std::string_view column;
    double value = 0;  // finite
  };
  std::optional<CurvePoint> take_csv(std::string_view line);
  std::optional<CurvePoint> take_json(std::string_view line);
  void take_header(const std::vector<std::string>& cells);
  std::optional<CurvePoint> point_of(const std::vector<Cell>& cells);

  LogKind kind_;
  LogColumns columns_;
  std::string wanted_;
  char separator_ = ',';
  std::vector<std::string> header_;
  std::string trouble_;
};

// RFC 4180, one line: fields may be quoted, a quote in one is doubled. None: a quoted field does
// not end in this line.
std::optional<std::vector<std::string>> csv_fields(std::string_view line, char separator);

}  // namespace spotter::wire
