#include "agent/follow/follower.hpp"

#include <array>
#include <charconv>

namespace spotter::follow {
namespace {

std::string text_of(double value) {
  std::array<char, 32> buffer{};
  const auto [end, failed] = std::to_chars(buffer.begin(), buffer.end(), value);
  return {buffer.begin(), failed == std::errc{} ? end : buffer.begin()};
}

std::string line(const char* key, const std::string& value) {
  return std::string(key) + "=" + value + "\n";
}

}  // namespace

std::string to_datagram(const wire::CurvePoint& point) {
  std::string text = "X_SPOTTER_LOG=1\n" + line("X_SPOTTER_STEP", std::to_string(point.step));
  if (point.epoch) text += line("X_SPOTTER_EPOCH", std::to_string(*point.epoch));
  if (point.loss) text += line("X_SPOTTER_LOSS", text_of(*point.loss));
  if (point.accuracy) text += line("X_SPOTTER_ACCURACY", text_of(*point.accuracy));
  for (const auto& [name, value] : point.metrics)
    text += line("X_SPOTTER_METRIC", name + " " + text_of(value));
  return text;
}

bool Follower::counts(const wire::CurvePoint& point, bool old) const {
  if (!old) return true;
  return last_ ? point.step > *last_ : options_.again;
}

void Follower::take(const std::string& line, bool old, wire::Curve& curve) {
  const auto point = log_.take(line);
  // Of another run: the trainer may write the same rows yet.
  if (!point || (old && !last_ && !options_.again)) return;
  const bool is_known = !known_.insert(std::hash<std::string>()(to_datagram(*point))).second;
  if (known_.size() > most_known_rows) known_.clear();
  rereads_ = rereads_ && is_known;
  if (!rereads_ && counts(*point, old)) curve.add(*point);
}

bool Follower::read(bool old) {
  const auto news = file_.look();
  there_ = news.there;
  if (news.begins) {
    log_.begin();
    rereads_ = true;
  }
  wire::Curve curve;
  for (const std::string& line : news.lines) take(line, old, curve);
  curve.thin(most_points_a_look);
  queue(curve);
  return news.more;
}

void Follower::begin() {
  std::size_t looks = most_old_bytes / most_bytes_a_look;
  while (read(true) && --looks > 0) continue;
  // The trainer may write on in the same line.
  if (!options_.again) file_.drop_rest();
}

bool Follower::look(std::chrono::milliseconds since_start) {
  // One look ahead of the agent, and no more: the file itself keeps the rest.
  if (!send_waiting()) return false;
  const bool more = read(false);
  report_trouble(since_start);
  return send_waiting() && more;
}

void Follower::end() {
  wire::Curve curve;
  // A number of CSV may be the beginning of a longer one.
  if (options_.kind == wire::LogKind::JsonLines) take(file_.rest(), false, curve);
  queue(curve);
  report_trouble(options_.missing_after);  // also where the trainer was quick
  send_waiting();
}

// As the trainer's own sentence in `spotter status`, which it may say itself.
void Follower::report_trouble(std::chrono::milliseconds since_start) {
  std::string words;
  if (!there_ && since_start >= options_.missing_after) {
    words = options_.name + ": no file that can be read (metrics of job.yaml)";
  } else if (there_ && !log_.trouble().empty()) {
    words = options_.name + ": " + log_.trouble();
  }
  for (char& each : words)
    if (static_cast<unsigned char>(each) < ' ') each = ' ';
  if (words == said_) return;
  if (send_("STATUS=" + words + "\n")) said_ = words;
}

void Follower::queue(const wire::Curve& curve) {
  for (const auto& point : curve.points()) waiting_.push_back(to_datagram(point));
}

bool Follower::send_waiting() {
  while (!waiting_.empty()) {
    if (!send_(waiting_.front())) return false;
    waiting_.pop_front();
  }
  return true;
}

}  // namespace spotter::follow
