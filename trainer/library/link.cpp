#include "trainer/library/link.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

namespace spotter::checkpoint {

namespace {

constexpr std::chrono::milliseconds kProgressInterval{100};  // more than 10 a second are of no use
constexpr std::size_t kNoticeLimit = 65'536;                 // bytes; the agent writes about 100
constexpr int kFinishedTries = 100;  // two seconds of a notice's two minutes
constexpr std::chrono::milliseconds kFinishedPause{20};

// The only global state, as a signal handler can use nothing else. (A signalfd needs the signals
// blocked in every thread, and BLAS libraries start threads before main.)
std::atomic<int> stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_stop_signal(int number) { stop_signal.store(number); }

// Without newlines, which would end the value.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return line;
}

std::string number(const char* key, double value, char between = '=') {
  char text[longest_metric_name + 64];
  std::snprintf(text, sizeof text, "%s%c%.6g\n", key, between, value);
  return text;
}

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// Null: there is none, or it cannot be parsed.
nlohmann::json read_json(const fs::path& file) {
  if (file.empty()) return nullptr;
  const auto bytes = read_whole(file, kNoticeLimit);
  return bytes ? nlohmann::json::parse(*bytes, nullptr, false) : nullptr;
}

std::optional<std::chrono::milliseconds> milliseconds_of(const nlohmann::json& json,
                                                         const char* key) {
  if (!json.contains(key) || !json[key].is_number_integer()) return std::nullopt;
  return std::chrono::milliseconds(json[key]);
}

bool is_time(const std::optional<std::chrono::nanoseconds>& last) {
  return !last || boot_now() - *last >= kProgressInterval;
}

// Adds those that a report may have.
void add_metrics(MetricValues& to, const MetricValues& from) {
  for (const auto& [name, value] : from)
    if (is_metric_name(name) && std::isfinite(value) &&
        (to.size() < most_metrics || to.contains(name)))
      to[name] = value;
}

}  // namespace

std::optional<std::chrono::nanoseconds> interval(double seconds) {
  constexpr double kLongest = 1e9;
  if (!(seconds >= 0) || seconds > kLongest) return std::nullopt;
  const std::chrono::duration<double> time(seconds);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time);
}

std::chrono::nanoseconds boot_now() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

Link Link::from_environment() {
  return {environment("NOTIFY_SOCKET"), environment("SPOTTER_NOTICE_FILE"),
          environment("SPOTTER_PACE_FILE")};
}

Link::Link(std::string_view socket, fs::path notice_file, fs::path pace_file)
    : address_(socket), notice_file_(std::move(notice_file)), pace_file_(std::move(pace_file)) {
  if (address_.empty()) return;
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool Link::send(std::string_view datagram) {
  sockaddr_un address{};
  if (!socket_ || address_.size() >= sizeof address.sun_path) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, address_.data(), address_.size());
  if (address_.front() == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  // Uses an address, not a connection: the agent may restart and bind again.
  return ::sendto(socket_.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                  reinterpret_cast<const sockaddr*>(&address), size) >= 0;
}

void Link::status(std::string_view text) { send("STATUS=" + one_line(text) + "\n"); }

void Link::resumed(std::uint64_t step) {
  send("X_SPOTTER_RESUMED_STEP=" + std::to_string(step) + "\n");
}

bool Link::progress_due(std::uint64_t step, std::uint64_t steps_total) const {
  return socket_ && (step == steps_total || is_time(last_progress_));
}

void Link::progress(const Progress& now) {
  if (!socket_) return;
  MetricValues metrics = std::move(waiting_.metrics);
  add_metrics(metrics, now.metrics);
  waiting_ = now;
  waiting_.metrics = std::move(metrics);
  const bool evaluated = !waiting_.metrics.empty();
  if (progress_due(now.step, now.steps_total) || (evaluated && is_time(last_metrics_)))
    send_waiting_now();
}

void Link::send_waiting() {
  if (!waiting_.metrics.empty()) send_waiting_now();
}

// Values that the agent's full queue refuses wait on.
void Link::send_waiting_now() {
  if (send(waiting_)) waiting_ = {};
}

bool Link::send(const Progress& now) {
  last_progress_ = boot_now();
  if (!now.metrics.empty()) last_metrics_ = last_progress_;
  std::string text = "WATCHDOG=1\nX_SPOTTER_STEP=" + std::to_string(now.step) + "\n";
  const auto count = [&](const char* key, std::uint64_t value) {
    if (value != 0) text += std::string(key) + "=" + std::to_string(value) + "\n";
  };
  count("X_SPOTTER_STEPS_TOTAL", now.steps_total);
  count("X_SPOTTER_EPOCH", now.epoch);
  count("X_SPOTTER_EPOCHS_TOTAL", now.epochs_total);
  if (!std::isnan(now.loss)) text += number("X_SPOTTER_LOSS", now.loss);
  if (!std::isnan(now.accuracy)) text += number("X_SPOTTER_ACCURACY", now.accuracy);
  for (const auto& [name, value] : now.metrics)
    text += number(("X_SPOTTER_METRIC=" + name).c_str(), value, ' ');
  return send(text);
}

void Link::checkpointed(const fs::path& path, std::uint64_t step,
                        std::optional<std::chrono::nanoseconds> stall,
                        std::optional<std::uint64_t> bytes) {
  std::error_code ignored;
  const auto absolute = fs::absolute(path, ignored).lexically_normal();
  std::string text = "X_SPOTTER_CHECKPOINT=" + one_line(absolute.string()) +
                     "\nX_SPOTTER_CHECKPOINT_STEP=" + std::to_string(step) + "\n";
  if (stall) text += number("X_SPOTTER_CHECKPOINT_SECONDS", seconds(*stall));
  const auto size = fs::file_size(absolute, ignored);
  if (!bytes && !ignored) bytes = size;
  if (bytes) text += "X_SPOTTER_CHECKPOINT_BYTES=" + std::to_string(*bytes) + "\n";
  send(text);
}

void Link::window_trained(std::chrono::nanoseconds trained) {
  send(number("X_SPOTTER_WINDOW_TRAINED_SECONDS", seconds(trained)));
}

// Without it a trainer that ends after a notice counts as stopped, and the job trains its last
// steps again: where the queue is full, it waits for who reads it.
void Link::finished() {
  errno = 0;
  for (int left = kFinishedTries; !send("X_SPOTTER_FINISHED=1\n") && left > 0; --left) {
    if (errno != EAGAIN && errno != ENOBUFS) return;
    std::this_thread::sleep_for(kFinishedPause);
  }
}

std::optional<Notice> Link::notice() const {
  const auto json = read_json(notice_file_);
  if (!json.is_object()) return std::nullopt;
  Notice notice{"terminate", milliseconds_of(json, "deadline_boottime_ms"),
                milliseconds_of(json, "stop_by_boottime_ms")};
  if (json.contains("action") && json["action"].is_string()) notice.action = json["action"];
  return notice;
}

Advice Link::advice() const {
  const auto json = read_json(pace_file_);
  if (!json.is_object()) return {};
  Advice advice{std::nullopt, milliseconds_of(json, "asked_boottime_ms")};
  // In whole milliseconds: a checkpoint of the same one may have been made before the request.
  if (advice.wanted) *advice.wanted += std::chrono::milliseconds(1);
  const auto every = json.find("checkpoint_every_seconds");
  if (every != json.end() && every->is_number()) advice.every = interval(every->get<double>());
  return advice;
}

bool catch_stop_signal(int number) {
  struct sigaction before {};
  if (::sigaction(number, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return false;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // other libraries' writes must not fail with EINTR
  return ::sigaction(number, &action, nullptr) == 0;
}

void catch_stop_signals() {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP}) {
    if (number != SIGHUP) std::signal(number, SIG_DFL);
    catch_stop_signal(number);
  }
  std::signal(SIGPIPE, SIG_IGN);
}

std::optional<int> stop_requested() {
  const int number = stop_signal.load();
  return number == 0 ? std::nullopt : std::optional(number);
}

}  // namespace spotter::checkpoint
