#include "agent/io/http.hpp"

#include <curl/curl.h>

#include <cassert>
#include <map>
#include <optional>

#include "agent/io/http_transfer.hpp"

namespace spotter::io {
namespace {

constexpr long idle_connections = 4;  // IMDS, EC2, one more service, one spare

// One of libcurl's sockets. Asio only waits for it; libcurl owns, reads, writes and closes it.
struct Socket {
  Socket(asio::io_context& context, curl_socket_t fd) : descriptor(context, fd) {}
  asio::posix::stream_descriptor descriptor;
  int wanted = CURL_POLL_NONE;
  bool waits_to_read = false;
  bool waits_to_write = false;
};

}  // namespace

struct HttpClient::Transfer {
  Transfer(asio::io_context& context, HttpRequest request, const TrustStore& trust)
      : exchange(std::move(request), trust), ended(context) {
    ended.expires_at(asio::steady_timer::time_point::max());
  }
  HttpExchange exchange;
  asio::steady_timer ended;  // cancelled when there is a code: how the coroutine is woken
  std::optional<CURLcode> code;
};

// Outlives the client while transfers run. Its handlers hold it weakly: what is pending when the
// last transfer is gone concerns nobody.
class HttpClient::Multi : public std::enable_shared_from_this<Multi> {
 public:
  explicit Multi(asio::io_context& context);
  ~Multi();
  Multi(const Multi&) = delete;
  Multi& operator=(const Multi&) = delete;

  asio::io_context& context() { return context_; }
  const TrustStore& trust() const { return trust_; }
  CURLMcode add(Transfer& transfer);
  void remove(Transfer& transfer);

 private:
  static int on_socket(CURL*, curl_socket_t fd, int wanted, void* self, void*);
  static int on_timer(CURLM*, long milliseconds, void* self);
  void watch(curl_socket_t fd, int wanted);
  void wait(const std::shared_ptr<Socket>& socket, curl_socket_t fd);
  void ready(const std::shared_ptr<Socket>& socket, curl_socket_t fd, int direction);
  void act(curl_socket_t fd, int what);

  asio::io_context& context_;
  asio::steady_timer timer_;
  TrustStore trust_ = TrustStore::of_this_machine();
  CURLM* multi_ = nullptr;
  std::map<curl_socket_t, std::shared_ptr<Socket>> sockets_;
};

HttpClient::Multi::Multi(asio::io_context& context) : context_(context), timer_(context) {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  assert(global == CURLE_OK);
  (void)global;
  multi_ = curl_multi_init();
  assert(multi_ != nullptr);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &Multi::on_socket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &Multi::on_timer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, idle_connections);
}

HttpClient::Multi::~Multi() {
  curl_multi_cleanup(multi_);
  // libcurl closed what it owned: nothing here may close it a second time.
  for (auto& [fd, socket] : sockets_) socket->descriptor.release();
}

CURLMcode HttpClient::Multi::add(Transfer& transfer) {
  curl_easy_setopt(transfer.exchange.handle(), CURLOPT_PRIVATE, &transfer);
  return curl_multi_add_handle(multi_, transfer.exchange.handle());
}

void HttpClient::Multi::remove(Transfer& transfer) {
  curl_multi_remove_handle(multi_, transfer.exchange.handle());
}

int HttpClient::Multi::on_socket(CURL*, curl_socket_t fd, int wanted, void* self, void*) {
  static_cast<Multi*>(self)->watch(fd, wanted);
  return 0;
}

void HttpClient::Multi::watch(curl_socket_t fd, int wanted) {
  const auto found = sockets_.find(fd);
  if (wanted == CURL_POLL_REMOVE) {
    if (found == sockets_.end()) return;
    found->second->wanted = CURL_POLL_NONE;
    found->second->descriptor.release();
    sockets_.erase(found);
    return;
  }
  auto& socket = found != sockets_.end() ? found->second : sockets_[fd];
  if (!socket) socket = std::make_shared<Socket>(context_, fd);
  socket->wanted = wanted;
  wait(socket, fd);
}

void HttpClient::Multi::wait(const std::shared_ptr<Socket>& socket, curl_socket_t fd) {
  using Descriptor = asio::posix::stream_descriptor;
  const auto begin = [&](Descriptor::wait_type type, int direction, bool& waits) {
    if ((socket->wanted & direction) == 0 || waits) return;
    waits = true;
    socket->descriptor.async_wait(
        type, [self = weak_from_this(), socket, fd, direction](boost::system::error_code failed) {
          (direction == CURL_POLL_IN ? socket->waits_to_read : socket->waits_to_write) = false;
          const auto alive = self.lock();
          if (alive && !failed) alive->ready(socket, fd, direction);
        });
  };
  begin(Descriptor::wait_read, CURL_POLL_IN, socket->waits_to_read);
  begin(Descriptor::wait_write, CURL_POLL_OUT, socket->waits_to_write);
}

void HttpClient::Multi::ready(const std::shared_ptr<Socket>& socket, curl_socket_t fd,
                              int direction) {
  if ((socket->wanted & direction) == 0) return;  // libcurl changed its mind, or let the socket go
  act(fd, direction == CURL_POLL_IN ? CURL_CSELECT_IN : CURL_CSELECT_OUT);
  const auto found = sockets_.find(fd);
  if (found != sockets_.end() && found->second == socket) wait(socket, fd);
}

int HttpClient::Multi::on_timer(CURLM*, long milliseconds, void* pointer) {
  auto& self = *static_cast<Multi*>(pointer);
  self.timer_.cancel();
  if (milliseconds < 0) return 0;
  // Also with 0 not now: libcurl must not be entered from its own callback.
  self.timer_.expires_after(std::chrono::milliseconds(milliseconds));
  self.timer_.async_wait([weak = self.weak_from_this()](boost::system::error_code failed) {
    const auto alive = weak.lock();
    if (alive && !failed) alive->act(CURL_SOCKET_TIMEOUT, 0);
  });
  return 0;
}

void HttpClient::Multi::act(curl_socket_t fd, int what) {
  int running = 0;
  curl_multi_socket_action(multi_, fd, what, &running);
  int queued = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &queued)) {
    if (message->msg != CURLMSG_DONE) continue;
    void* data = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &data);
    auto& transfer = *static_cast<Transfer*>(data);
    transfer.code = message->data.result;
    transfer.ended.cancel();
  }
}

HttpClient::HttpClient(asio::io_context& context) : multi_(std::make_shared<Multi>(context)) {}
HttpClient::~HttpClient() = default;

asio::awaitable<HttpResult> HttpClient::send(HttpRequest request) {
  // Takes the handle away from libcurl however this coroutine ends, also when its frame is
  // destroyed.
  struct Membership {
    std::shared_ptr<Multi> multi;
    Transfer transfer;
    Membership(std::shared_ptr<Multi> owner, HttpRequest what)
        : multi(std::move(owner)), transfer(multi->context(), std::move(what), multi->trust()) {}
    ~Membership() { multi->remove(transfer); }
  };
  Membership member(multi_, std::move(request));
  const CURLMcode added = member.multi->add(member.transfer);
  if (added != CURLM_OK) {
    HttpError error{HttpError::Kind::NotSent, curl_multi_strerror(added)};
    co_return tl::unexpected(std::move(error));
  }
  boost::system::error_code woken;
  auto ended = member.transfer.ended.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  co_await std::move(ended);
  if (!member.transfer.code) {
    HttpError error{HttpError::Kind::Cancelled, "cancelled"};
    co_return tl::unexpected(std::move(error));
  }
  co_return member.transfer.exchange.result(*member.transfer.code);
}

}  // namespace spotter::io
