#include "agent/io/http.hpp"

#include <optional>
#include <utility>

#include "agent/curl/loop.hpp"
#include "agent/io/http_transfer.hpp"

namespace spotter::io {
namespace {

constexpr long idle_connections = 4;  // IMDS, EC2, one more service, one spare

}  // namespace

struct HttpClient::Transfer final : curl::Turned {
  Transfer(asio::io_context& context, HttpRequest request, const curl::TrustStore& trust)
      : exchange(std::move(request), trust), ended(context) {
    ended.expires_at(asio::steady_timer::time_point::max());
  }
  void finished(CURLcode result) override {
    code = result;
    ended.cancel();
  }
  HttpExchange exchange;
  asio::steady_timer ended;  // cancelled when there is a code: how the coroutine is woken
  std::optional<CURLcode> code;
};

// Turns libcurl's loop whenever that has something to do. Outlives the client while transfers run.
// Its handlers hold it weakly: what is pending when the last transfer is gone concerns nobody.
class HttpClient::Multi : public std::enable_shared_from_this<Multi> {
 public:
  explicit Multi(asio::io_context& context)
      : context_(context), timer_(context), readable_(context, loop_.descriptor()) {}
  ~Multi() { readable_.release(); }  // the loop closes it
  Multi(const Multi&) = delete;
  Multi& operator=(const Multi&) = delete;

  asio::io_context& context() { return context_; }
  const curl::TrustStore& trust() const { return trust_; }
  CURLMcode add(Transfer& transfer);
  void remove(Transfer& transfer);

 private:
  void turn();
  void wait_for_time();
  void wait_for_sockets();

  asio::io_context& context_;
  curl::TrustStore trust_ = curl::TrustStore::of_this_machine();
  curl::Loop loop_{idle_connections};
  asio::steady_timer timer_;
  asio::posix::stream_descriptor readable_;
  bool waits_ = false;  // for sockets
  std::size_t transfers_ = 0;
};

CURLMcode HttpClient::Multi::add(Transfer& transfer) {
  ++transfers_;
  const CURLMcode added = loop_.add(transfer.exchange.easy(), transfer);
  wait_for_time();  // libcurl begins when it is turned
  wait_for_sockets();
  return added;
}

// Without a transfer nothing is waited for: an io_context that has nothing else to do may end.
void HttpClient::Multi::remove(Transfer& transfer) {
  loop_.remove(transfer.exchange.easy());
  if (--transfers_ > 0) return;
  timer_.cancel();
  readable_.cancel();
}

void HttpClient::Multi::turn() {
  loop_.turn(std::chrono::milliseconds(0));
  if (transfers_ > 0) wait_for_time();
}

void HttpClient::Multi::wait_for_time() {
  timer_.cancel();
  const auto next = loop_.next();
  if (!next) return;
  timer_.expires_at(*next);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    const auto alive = weak.lock();
    if (alive && !failed) alive->turn();
  });
}

void HttpClient::Multi::wait_for_sockets() {
  if (std::exchange(waits_, true)) return;
  readable_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [weak = weak_from_this()](boost::system::error_code failed) {
                         const auto alive = weak.lock();
                         if (!alive) return;
                         alive->waits_ = false;
                         if (!failed) alive->turn();
                         if (alive->transfers_ > 0) alive->wait_for_sockets();
                       });
}

HttpClient::HttpClient(asio::io_context& context) : multi_(std::make_shared<Multi>(context)) {}
HttpClient::~HttpClient() = default;

asio::awaitable<Result<HttpResponse, CallError>> HttpClient::send(HttpRequest request) {
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
    CallError error{.kind = CallError::Kind::NotSent,
                    .message = "libcurl takes no transfer (" + std::to_string(added) + ")"};
    co_return tl::unexpected(std::move(error));
  }
  boost::system::error_code woken;
  auto ended = member.transfer.ended.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  co_await std::move(ended);
  if (!member.transfer.code) {
    CallError error{.kind = CallError::Kind::Cancelled, .message = "cancelled"};
    co_return tl::unexpected(std::move(error));
  }
  co_return member.transfer.exchange.result(*member.transfer.code);
}

}  // namespace spotter::io
