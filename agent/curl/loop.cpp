#include "agent/curl/loop.hpp"

#include <fcntl.h>
#include <unistd.h>
#ifndef SPOTTER_CLIENT
#include <sys/epoll.h>
#endif

#include <algorithm>
#include <cerrno>

namespace spotter::curl {
namespace {

short interest(int what) {
  int events = 0;
  if ((what & CURL_POLL_IN) != 0) events |= POLLIN;
  if ((what & CURL_POLL_OUT) != 0) events |= POLLOUT;
  return static_cast<short>(events);
}

int happened(short events) {
  int what = 0;
  if ((events & (POLLIN | POLLHUP)) != 0) what |= CURL_CSELECT_IN;
  if ((events & POLLOUT) != 0) what |= CURL_CSELECT_OUT;
  if ((events & (POLLERR | POLLNVAL)) != 0) what |= CURL_CSELECT_ERR;
  return what;
}

}  // namespace

#ifndef SPOTTER_CLIENT

// epoll(7), whose events have the numbers of poll(2)'s, and whose own file can be waited for.
Files::Files() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

Files::~Files() { ::close(epoll_); }

bool Files::set(int file, short events) {
  epoll_event event{};
  event.events = static_cast<std::uint32_t>(events);
  event.data.fd = file;
  return ::epoll_ctl(epoll_, EPOLL_CTL_MOD, file, &event) == 0 ||
         ::epoll_ctl(epoll_, EPOLL_CTL_ADD, file, &event) == 0;
}

// libcurl may have closed it already; then the kernel has forgotten it by itself.
void Files::forget(int file) { ::epoll_ctl(epoll_, EPOLL_CTL_DEL, file, nullptr); }

std::vector<pollfd> Files::wait(int milliseconds) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_, events.data(), events.size(), milliseconds);
  std::vector<pollfd> ready;
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    ready.push_back({event.data.fd, 0, static_cast<short>(event.events)});
  }
  return ready;
}

bool open_pipe(std::array<int, 2>& ends) { return ::pipe2(ends.data(), O_CLOEXEC) == 0; }

#else

// poll(2), which every system has.
Files::Files() = default;

Files::~Files() = default;

bool Files::set(int file, short events) {
  events_[file] = events;
  return true;
}

void Files::forget(int file) { events_.erase(file); }

std::vector<pollfd> Files::wait(int milliseconds) {
  std::vector<pollfd> all;
  for (const auto& [file, events] : events_) all.push_back({file, events, 0});
  if (::poll(all.data(), static_cast<nfds_t>(all.size()), milliseconds) < 0) return {};
  std::erase_if(all, [](const pollfd& each) { return each.revents == 0; });
  for (const pollfd& each : all)
    if ((each.revents & POLLNVAL) != 0) forget(each.fd);  // closed by libcurl
  return all;
}

// A program that a thread starts between the two calls gets both ends: here that costs nothing but
// a wait for its end.
bool open_pipe(std::array<int, 2>& ends) {
  return ::pipe(ends.data()) == 0 && ::fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0 &&
         ::fcntl(ends[1], F_SETFD, FD_CLOEXEC) == 0;
}

#endif

Loop::~Loop() {
  if (multi_ != nullptr) curl_multi_cleanup(multi_);
}

CURLMcode Loop::add(Easy& easy, Turned& who) {
  if (multi_ == nullptr) {
    multi_ = curl_multi_init();
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, most_idle_);
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
  }
  curl_easy_setopt(easy.easy_, CURLOPT_PRIVATE, &who);
  return curl_multi_add_handle(multi_, easy.easy_);
}

void Loop::remove(Easy& easy) { curl_multi_remove_handle(multi_, easy.easy_); }

bool Loop::watch(int file, bool for_writing, Turned& who) {
  if (!files_.set(file, for_writing ? POLLIN | POLLOUT : POLLIN)) return false;
  watched_.emplace(file, &who);
  return true;
}

void Loop::forget(int file) {
  if (watched_.erase(file) > 0) files_.forget(file);
}

int Loop::on_socket(CURL* /*easy*/, curl_socket_t socket, int what, void* self, void* /*ours*/) {
  Files& files = static_cast<Loop*>(self)->files_;
  if (what == CURL_POLL_REMOVE)
    files.forget(socket);
  else
    files.set(socket, interest(what));
  return 0;
}

int Loop::on_timer(CURLM* /*multi*/, long milliseconds, void* self) {
  auto& loop = *static_cast<Loop*>(self);
  if (milliseconds < 0) {
    loop.timer_.reset();
  } else {
    loop.timer_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  }
  return 0;
}

void Loop::act(curl_socket_t socket, int events) {
  if (multi_ == nullptr) return;  // of a file that was forgotten in this turn
  int running = 0;
  curl_multi_socket_action(multi_, socket, events, &running);
}

void Loop::turn(std::chrono::milliseconds at_most) {
  auto wait = std::max(at_most, std::chrono::milliseconds(0));
  if (timer_) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*timer_ - std::chrono::steady_clock::now());
    wait = std::clamp(left, std::chrono::milliseconds(0), wait);
  }
  for (const pollfd& each : files_.wait(static_cast<int>(wait.count()))) {
    const auto watched = watched_.find(each.fd);
    if (watched != watched_.end()) {
      watched->second->ready();
    } else {
      act(each.fd, happened(each.revents));
    }
  }
#ifdef SPOTTER_CLIENT
  // No file says that a program has ended: who watches one looks in each turn.
  for (const auto& [file, who] : std::unordered_map(watched_)) who->ready();
#endif
  if (timer_ && std::chrono::steady_clock::now() >= *timer_) {
    timer_.reset();
    act(CURL_SOCKET_TIMEOUT, 0);
  }
  report_ended();
}

void Loop::report_ended() {
  if (multi_ == nullptr) return;
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURLcode code = message->data.result;
    Turned* turned = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &turned);
    turned->finished(code);
  }
}

Bell::Bell(Loop& loop) : loop_(loop) {
  if (!open_pipe(ends_) || loop_.watch(ends_[0], false, *this)) return;
  for (int& end : ends_) ::close(std::exchange(end, -1));
}

Bell::~Bell() {
  if (!is_open()) return;
  loop_.forget(ends_[0]);
  for (const int end : ends_) ::close(end);
}

void Bell::ring() {
  if (!rung_.exchange(true)) (void)!::write(ends_[1], "!", 1);  // there is room for one
}

void Bell::ready() {
  char byte = 0;
  if (!rung_) return;
  while (::read(ends_[0], &byte, 1) < 0 && errno == EINTR) {
  }
  rung_.exchange(false);
}

}  // namespace spotter::curl
