// Messages of the trainer, anybody's program, to $NOTIFY_SOCKET, and the curve on the storage that
// they become.
#include "agent/wire/datagram.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "agent/wire/curve.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {
namespace {

std::string text(double value) {
  std::array<char, 64> buffer{};
  return {buffer.data(), std::to_chars(buffer.begin(), buffer.end(), value).ptr};
}
std::string text(std::uint64_t value) { return std::to_string(value); }

template <class T>
std::string line(const char* key, const std::optional<T>& value) {
  return value ? std::string(key) + "=" + text(*value) + "\n" : "";
}

std::string print(const wire::TrainerMessage& message) {
  std::string bytes;
  if (message.ready) bytes += "READY=1\n";
  if (message.watchdog) bytes += "WATCHDOG=1\n";
  if (message.finished) bytes += "X_SPOTTER_FINISHED=1\n";
  if (message.of_guard) bytes += "X_SPOTTER_GUARD=1\n";
  if (message.of_log) bytes += "X_SPOTTER_LOG=1\n";
  if (message.status) bytes += "STATUS=" + *message.status + "\n";
  if (message.note) bytes += "X_SPOTTER_NOTE=" + *message.note + "\n";
  if (message.best) bytes += "X_SPOTTER_BEST=" + *message.best + "\n";
  if (message.put_away) bytes += "X_SPOTTER_PUT_AWAY=" + *message.put_away + "\n";
  bytes += line("X_SPOTTER_WINDOW_TRAINED_SECONDS", message.window_trained);
  if (const auto& progress = message.progress) {
    bytes += line<std::uint64_t>("X_SPOTTER_STEP", progress->step);
    bytes += line("X_SPOTTER_STEPS_TOTAL", progress->steps_total);
    bytes += line("X_SPOTTER_EPOCH", progress->epoch);
    bytes += line("X_SPOTTER_EPOCHS_TOTAL", progress->epochs_total);
    bytes += line("X_SPOTTER_LOSS", progress->loss);
    bytes += line("X_SPOTTER_ACCURACY", progress->accuracy);
    for (const auto& [name, value] : progress->metrics)
      bytes += "X_SPOTTER_METRIC=" + name + " " + text(value) + "\n";
  }
  bytes += line("X_SPOTTER_RESUMED_STEP", message.resumed_step);
  if (const auto& checkpoint = message.checkpoint) {
    bytes += "X_SPOTTER_CHECKPOINT=" + checkpoint->path + "\n";
    bytes += line<std::uint64_t>("X_SPOTTER_CHECKPOINT_STEP", checkpoint->step);
    bytes += line("X_SPOTTER_CHECKPOINT_SECONDS", checkpoint->seconds);
    bytes += line("X_SPOTTER_CHECKPOINT_BYTES", checkpoint->bytes);
  }
  if (const auto& flow = message.flow) {
    bytes += "X_SPOTTER_CHANNEL=" + flow->channel + "\n";
    bytes += line<std::uint64_t>("X_SPOTTER_CHANNEL_BYTES", flow->bytes);
    bytes += line<double>("X_SPOTTER_CHANNEL_STALL_SECONDS", flow->stalled);
  }
  return bytes;
}

// The core counts steps in 64 bits with a sign.
bool is_step(std::uint64_t step) {
  return step <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

void examine_curve(std::string_view bytes) {
  wire::Curve curve = wire::parse_curve(bytes).curve;
  const auto& points = curve.points();
  for (std::size_t i = 0; i < points.size(); ++i) {
    must(i == 0 || points[i - 1].step < points[i].step, "a curve's steps ascend");
    must(std::isfinite(points[i].loss.value_or(0)), "its losses are numbers");
  }
  const auto again = wire::parse_curve(to_lines(curve));
  must(again.foreign == 0 && again.curve.points().size() == points.size(), "it reads the same");
  must(curve.metric_names().size() <= most_metrics, "so many metrics");
  const auto last = curve.last();
  curve.thin(5);
  must(points.size() <= 5 && curve.last() == last, "thinned it ends as it did");
}

}  // namespace

void examine(std::string_view bytes) {
  examine_curve(bytes);
  const auto message = wire::parse_datagram(bytes);
  const bool refused = bytes.size() > wire::longest_datagram || bytes.find('\0') != bytes.npos;
  must(message.has_value() != refused, "refused are long ones and those with a NUL, no others");
  if (!message) return;
  if (message->status) {
    must(message->status->size() <= wire::longest_status_text, "a status is short");
  }
  if (const auto& checkpoint = message->checkpoint) {
    must(checkpoint->path.starts_with('/') && is_step(checkpoint->step), "a durable checkpoint");
  }
  must(!message->progress || is_step(message->progress->step), "a step can be counted");
  must(is_step(message->resumed_step.value_or(0)), "a resumed step can be counted");
  must(std::isfinite(message->progress.value_or(wire::Progress{}).loss.value_or(0)), "a loss");
  const auto metrics = message->progress.value_or(wire::Progress{}).metrics;
  must(metrics.size() <= most_metrics, "so many metrics");
  for (const auto& [name, value] : metrics)
    must(is_metric_name(name) && std::isfinite(value), "a metric has a name and a value");
  if (const auto gang = wire::parse_gang_report(bytes)) {
    must(gang->by_name.size() <= wire::most_gang_members, "so many members");
    must(gang->who.size() <= wire::longest_status_text, "a gang's texts are short");
    must(gang->took >= 0 && std::isfinite(gang->took), "a round takes a time");
    must(wire::to_line(*gang).size() <= 2 * wire::longest_datagram, "a report is written again");
  }
  must(wire::parse_datagram(print(*message)) == *message, "a message printed reads the same");
}

}  // namespace spotter::fuzz
