#include "agent/wire/datagram.hpp"

#include <algorithm>
#include <cmath>

#include "agent/base/number_text.hpp"

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

}  // namespace

Result<TrainerMessage> parse_datagram(std::string_view bytes) {
  if (bytes.size() > longest_datagram) return failure("the trainer's datagram is too long");
  if (bytes.find('\0') != std::string_view::npos) {
    return failure("the trainer's datagram contains a NUL");
  }
  TrainerMessage message;
  Parts parts;
  while (!bytes.empty()) {
    const auto end = std::min(bytes.find('\n'), bytes.size());
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
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

}  // namespace spotter::wire
