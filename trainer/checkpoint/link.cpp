#include "trainer/checkpoint/link.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cassert>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

namespace spotter::checkpoint {

namespace {

constexpr std::chrono::milliseconds kProgressInterval{100};  // 10 a second is more than an eye sees
constexpr std::size_t kNoticeLimit = 65'536;                 // bytes; the agent writes about 100

// The one piece of global state: a signal handler can reach nothing else. (A signalfd would need
// the signals blocked in every thread, and BLAS libraries start theirs before main.)
std::atomic<int> stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_stop_signal(int number) { stop_signal.store(number); }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// No newline may end the value early.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return line;
}

}  // namespace

std::chrono::milliseconds boot_now() {
  timespec now{};
  [[maybe_unused]] const int result = ::clock_gettime(CLOCK_BOOTTIME, &now);
  assert(result == 0);
  return std::chrono::seconds(now.tv_sec) + std::chrono::milliseconds(now.tv_nsec / 1'000'000);
}

Link Link::from_environment() {
  return {environment("NOTIFY_SOCKET"), environment("SPOTTER_NOTICE_FILE")};
}

Link::Link(std::string_view socket, std::filesystem::path notice_file)
    : address_(socket), notice_file_(std::move(notice_file)) {
  if (address_.empty()) return;
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void Link::send(std::string_view datagram) {
  sockaddr_un address{};
  if (!socket_ || address_.size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, address_.data(), address_.size());
  if (address_.front() == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  // Addressed each time, not connected: the agent may be restarted and bind anew. A result is of no
  // use.
  (void)::sendto(socket_.get(), datagram.data(), datagram.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&address), size);
}

void Link::ready() { send("READY=1\n"); }

void Link::status(std::string_view text) { send("STATUS=" + one_line(text) + "\n"); }

void Link::resumed(std::uint64_t step) {
  send("X_SPOTTER_RESUMED_STEP=" + std::to_string(step) + "\n");
}

void Link::progress(const Progress& now) {
  const auto at = boot_now();
  const bool soon = last_progress_ && at - *last_progress_ < kProgressInterval;
  if (!socket_ || (soon && now.step != now.steps_total)) return;
  last_progress_ = at;
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, "X_SPOTTER_LOSS=%.6g\nX_SPOTTER_ACCURACY=%.6g\n", now.loss,
                now.accuracy);
  send("WATCHDOG=1\nX_SPOTTER_STEP=" + std::to_string(now.step) + "\nX_SPOTTER_STEPS_TOTAL=" +
       std::to_string(now.steps_total) + "\nX_SPOTTER_EPOCH=" + std::to_string(now.epoch) +
       "\nX_SPOTTER_EPOCHS_TOTAL=" + std::to_string(now.epochs_total) + "\n" + numbers);
}

void Link::checkpointed(const std::filesystem::path& path, std::uint64_t step) {
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(path, ignored).lexically_normal();
  send("X_SPOTTER_CHECKPOINT=" + one_line(absolute.string()) +
       "\nX_SPOTTER_CHECKPOINT_STEP=" + std::to_string(step) + "\n");
}

void Link::finished() { send("X_SPOTTER_FINISHED=1\n"); }

std::optional<Notice> Link::notice() const {
  if (notice_file_.empty()) return std::nullopt;
  std::string bytes;
  const auto read = read_pieces(notice_file_, [&](std::string_view piece) {
    if (bytes.size() <= kNoticeLimit) bytes.append(piece);
  });
  if (!read) return std::nullopt;
  const auto json = nlohmann::json::parse(bytes, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  Notice notice{"terminate", std::nullopt};
  if (json.contains("action") && json["action"].is_string()) notice.action = json["action"];
  if (json.contains("deadline_boottime_ms") && json["deadline_boottime_ms"].is_number_integer()) {
    notice.deadline = std::chrono::milliseconds(json["deadline_boottime_ms"]);
  }
  return notice;
}

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;  // a file half written by somebody's library must not see EINTR
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP}) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    if (number == SIGHUP && before.sa_handler == SIG_IGN) continue;
    ::sigaction(number, &action, nullptr);
  }
  std::signal(SIGPIPE, SIG_IGN);
}

std::optional<int> stop_requested() {
  const int number = stop_signal.load();
  return number == 0 ? std::nullopt : std::optional(number);
}

}  // namespace spotter::checkpoint
