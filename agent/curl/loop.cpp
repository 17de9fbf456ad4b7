#include "agent/curl/loop.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace spotter::curl {
namespace {

std::uint32_t interest(int what) {
  std::uint32_t events = 0;
  if ((what & CURL_POLL_IN) != 0) events |= EPOLLIN;
  if ((what & CURL_POLL_OUT) != 0) events |= EPOLLOUT;
  return events;
}

int happened(std::uint32_t events) {
  int what = 0;
  if ((events & (EPOLLIN | EPOLLHUP)) != 0) what |= CURL_CSELECT_IN;
  if ((events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
  if ((events & EPOLLERR) != 0) what |= CURL_CSELECT_ERR;
  return what;
}

// In the epoll already, or not.
void set_interest(int epoll, int file, std::uint32_t events, bool known) {
  epoll_event event{};
  event.events = events;
  event.data.fd = file;
  if (::epoll_ctl(epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, file, &event) != 0)
    ::epoll_ctl(epoll, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, file, &event);
}

}  // namespace

Loop::Loop(long most_idle) : most_idle_(most_idle), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

Loop::~Loop() {
  if (multi_ != nullptr) curl_multi_cleanup(multi_);
  ::close(epoll_);
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

void Loop::watch(int file, bool for_writing, Turned& who) {
  const bool known = !watched_.emplace(file, &who).second;
  set_interest(epoll_, file, for_writing ? EPOLLIN | EPOLLOUT : EPOLLIN, known);
}

void Loop::forget(int file) {
  if (watched_.erase(file) > 0) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, file, nullptr);
}

int Loop::on_socket(CURL* /*easy*/, curl_socket_t socket, int what, void* self, void* known) {
  auto& loop = *static_cast<Loop*>(self);
  if (what == CURL_POLL_REMOVE) {
    // libcurl may have closed it already; then the kernel has forgotten it by itself.
    ::epoll_ctl(loop.epoll_, EPOLL_CTL_DEL, socket, nullptr);
    return 0;
  }
  set_interest(loop.epoll_, socket, interest(what), known != nullptr);
  curl_multi_assign(loop.multi_, socket, self);  // anything but null: it is known now
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
  std::array<epoll_event, 64> events;
  const int count =
      ::epoll_wait(epoll_, events.data(), events.size(), static_cast<int>(wait.count()));
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    const auto watched = watched_.find(event.data.fd);
    if (watched != watched_.end()) {
      watched->second->ready();
    } else {
      act(event.data.fd, happened(event.events));
    }
  }
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

}  // namespace spotter::curl
