#include "agent/follow/follower.hpp"

#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>

#include "agent/supervise/run_directory.hpp"
#include "agent/wire/status.hpp"

namespace spotter::follow {
namespace {

// By these at both ends of what was read a file is known that was written over meanwhile.
constexpr std::size_t compared_bytes = 4096;
constexpr std::chrono::minutes missing_after{1};  // from then on a missing file is trouble

bool is_pattern(const std::string& path) { return path.find_first_of("*?[") != path.npos; }

std::string text_of(double value) {
  std::array<char, 32> buffer{};
  const auto [end, failed] = std::to_chars(buffer.begin(), buffer.end(), value);
  return {buffer.begin(), failed == std::errc{} ? end : buffer.begin()};
}

std::string line(const char* key, const std::string& value) {
  return std::string(key) + "=" + value + "\n";
}

// The process around a Follower.

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int milliseconds_between_looks = 500;
constexpr milliseconds time_to_end(800);       // the supervisor waits for a second
constexpr milliseconds patience(200);          // for an agent that is busy
constexpr std::size_t curve_limit = 8U << 20;  // as host/records.hpp has it

std::optional<std::uint64_t> last_step(const std::string& curve) {
  const auto text = io::read_file(curve, curve_limit);
  if (!text) return std::nullopt;
  const auto last = wire::parse_curve(*text).curve.last();
  return last ? std::optional(last->step) : std::nullopt;
}

}  // namespace

std::string GrowingFile::newest() const {
  if (!is_pattern(pattern_)) return pattern_;
  glob_t found{};
  std::string newest;
  timespec changed{};
  if (::glob(pattern_.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      struct stat status {};
      if (::stat(found.gl_pathv[i], &status) != 0 || !S_ISREG(status.st_mode)) continue;
      const auto later = std::pair(status.st_mtim.tv_sec, status.st_mtim.tv_nsec) >=
                         std::pair(changed.tv_sec, changed.tv_nsec);
      if (!newest.empty() && !later) continue;
      newest = found.gl_pathv[i];
      changed = status.st_mtim;
    }
  }
  ::globfree(&found);
  return newest;
}

// Nothing is kept open between two looks: a server of files shows others' changes to who opens.
io::Descriptor GrowingFile::open(Identity& identity, std::uint64_t& bytes) const {
  const std::string path = newest();
  if (path.empty()) return io::Descriptor();
  io::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return io::Descriptor();
  identity = {status.st_dev, status.st_ino};
  bytes = static_cast<std::uint64_t>(status.st_size);
  return file;
}

bool GrowingFile::is_same(const io::Descriptor& file) const {
  return io::read_at(file.get(), 0, head_.size()) == head_ &&
         io::read_at(file.get(), at_ - tail_.size(), tail_.size()) == tail_;
}

GrowingFile::News GrowingFile::look() {
  News news;
  Identity identity;
  std::uint64_t bytes = 0;
  const io::Descriptor file = open(identity, bytes);
  if (!file) return news;
  news.there = true;
  if (!begun_ || identity != identity_ || bytes < at_ || !is_same(file)) {
    news.begins = true;
    begun_ = true;
    identity_ = identity;
    at_ = 0;
    dropped_ = false;
    for (std::string* each : {&head_, &tail_, &partial_}) each->clear();
  }
  const std::string piece = io::read_at(file.get(), at_, most_bytes_a_look);
  news.more = piece.size() == most_bytes_a_look;
  head_ += piece.substr(0, compared_bytes - std::min(head_.size(), compared_bytes));
  tail_ += piece;
  if (tail_.size() > compared_bytes) tail_.erase(0, tail_.size() - compared_bytes);
  // When the machine is lost the rows before a checkpoint must not be: the trainer does not write
  // these again. (Where there is a guard it syncs them, too, before it records one.) On failure
  // they are only as durable as they were.
  if (!piece.empty()) (void)::fdatasync(file.get());
  take(piece, news);
  return news;
}

void GrowingFile::take(std::string_view piece, News& news) {
  at_ += piece.size();
  while (!piece.empty()) {
    const auto newline = piece.find('\n');
    const auto part = piece.substr(0, newline);
    dropped_ = dropped_ || partial_.size() + part.size() > longest_;
    if (dropped_)
      partial_.clear();
    else
      partial_ += part;
    if (newline == piece.npos) return;
    piece.remove_prefix(newline + 1);
    if (!dropped_) news.lines.push_back(std::move(partial_));
    partial_.clear();
    dropped_ = false;
  }
}

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
  // An old row is another run's: the trainer may write the same rows yet.
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
  report_trouble(missing_after);  // also where the trainer was quick
  send_waiting();
}

// Sent like the trainer's own sentence in `spotter status`, which it may replace.
void Follower::report_trouble(std::chrono::milliseconds since_start) {
  std::string words;
  if (!there_ && since_start >= missing_after) {
    words = options_.name + ": no file that can be read (metrics of job.yaml)";
  } else if (there_ && !log_.trouble().empty()) {
    words = options_.name + ": " + log_.trouble();
  }
  words = wire::printable(std::move(words));
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

int run(const Options& options) {
  std::signal(SIGPIPE, SIG_IGN);
  const auto began = Clock::now();
  const auto since = [&began] {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - began);
  };
  Follower follower(options, last_step(options.curve), [&options](const std::string& text) {
    return supervise::send_datagram(options.socket, text, patience);
  });
  follower.begin();
  std::printf("ready\n");
  std::fflush(stdout);
  bool more = false;
  for (;;) {
    pollfd watched{0, POLLIN, 0};
    const int seen = ::poll(&watched, 1, more ? 0 : milliseconds_between_looks);
    if (seen > 0) break;
    more = follower.look(since());
  }
  std::array<char, 64> word{};
  if (::read(0, word.data(), word.size()) <= 0) return 1;
  const auto end = Clock::now() + time_to_end;
  do more = follower.look(since());
  while ((more || !follower.is_done()) && Clock::now() < end);
  follower.end();
  return 0;
}

}  // namespace spotter::follow
