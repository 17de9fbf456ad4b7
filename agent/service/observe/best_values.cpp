#include "agent/service/observe/best_values.hpp"

#include <spdlog/spdlog.h>

#include <cmath>

#include "agent/io/files.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/wire/curve.hpp"
#include "agent/wire/metric_log.hpp"

namespace spotter {
namespace {

constexpr std::size_t limit = 1U << 20;
// A loss may be reported thousands of times a second.
constexpr std::chrono::milliseconds between_writes(200);

}  // namespace

BestValues::BestValues(asio::io_context& context, const config::Job& job, std::string run_directory)
    : path_(std::move(run_directory) + "/" + supervise::values_name), next_(context) {
  if (!job.checkpoints.keep_best) return;
  metric_ = job.checkpoints.keep_best->metric;
  as_in_log_ = wire::name_of_column(*metric_, {});
  const auto text = io::read_file(path_, limit);
  const auto before = text ? supervise::parse_values(*text) : failure("none");
  if (before) values_ = *before;
}

void BestValues::on_message(const wire::TrainerMessage& message,
                            std::chrono::system_clock::time_point now) {
  if (!metric_ || !message.progress) return;
  const wire::Progress& said = *message.progress;
  const wire::CurvePoint point{said.step, said.epoch, said.loss, said.accuracy, 0, said.metrics};
  auto value = wire::metric_of(point, *metric_);
  if (!value) value = wire::metric_of(point, as_in_log_);
  if (!value || !std::isfinite(*value)) return;
  values_.add({std::chrono::duration<double>(now.time_since_epoch()).count(), said.step, *value});
  unwritten_ = true;
  if (waits_) return;
  write();
  waits_ = true;
  next_.expires_after(between_writes);
  next_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    waits_ = false;
    if (unwritten_) write();
  });
}

// What need not survive a power failure: the next run of the trainer has values of its own.
void BestValues::write() {
  const auto done = io::replace_file(path_, to_json(values_), supervise::shown_mode);
  unwritten_ = false;
  const std::string trouble = done ? std::string() : done.error().message();
  if (!trouble.empty() && trouble != last_trouble_)
    spdlog::warn("cannot write {}: {}; the best checkpoint may not be kept", path_, trouble);
  last_trouble_ = trouble;
}

}  // namespace spotter
