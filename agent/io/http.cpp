#include "agent/io/http.hpp"

#include <string_view>

#include "agent/curl/loop.hpp"
#include "agent/io/driver.hpp"
#include "agent/io/kernel.hpp"

namespace spotter::io {
namespace {

// Kept small: an idle agent's memory is a promise, and the answers are a few kilobytes.
constexpr long buffer_bytes = 8 * 1024;

// Neither copied nor moved: libcurl keeps pointers into it.
class HttpExchange final : public curl::Sink {
 public:
  HttpExchange(HttpRequest request, const curl::TrustStore& trust)
      : request_(std::move(request)),
        easy_(trust, {.connect = request_.connect_timeout,
                      .whole = request_.timeout,
                      .read_at_once = buffer_bytes}) {
    if (!request_.use_proxy) easy_.ignore_proxy();
    if (request_.fresh_connection) easy_.use_own_connection();
    easy_.hand_to(*this);
    easy_.set_url(request_.url);
    easy_.set_headers(request_.headers);
    easy_.set_method(request_.method, request_.body);
  }

  curl::Easy& easy() { return easy_; }

  // Once, at the end; takes the response away.
  Result<HttpResponse, CallError> result(CURLcode code) {
    if (code != CURLE_OK) return tl::unexpected(error(code));
    response_.status = easy_.status();
    response_.received_at = boot_time();
    return std::move(response_);
  }

 private:
  CallError error(CURLcode code) const {
    std::string text = easy_.explain(code);
    if (too_large_) {
      return {.kind = CallError::Kind::Unreadable,
              .message =
                  "the answer is longer than " + std::to_string(request_.response_limit) + " bytes",
              .status = easy_.status()};
    }
    if (curl::is_distrust(code)) {
      return {.kind = CallError::Kind::Permission, .message = std::move(text)};
    }
    if (!easy_.may_have_sent())
      return {.kind = CallError::Kind::NotSent, .message = std::move(text)};
    return {.kind = CallError::Kind::Transient, .message = std::move(text)};
  }

  bool take_header(std::string_view line) override {
    if (curl::parse_status(line)) {  // the final answer after a 100 starts again
      response_.headers.clear();
    } else if (auto header = curl::parse_header(line)) {
      response_.headers[std::move(header->first)] = std::move(header->second);
    }
    return true;
  }

  bool take_body(std::string_view bytes) override {
    too_large_ = response_.body.size() + bytes.size() > request_.response_limit;
    if (!too_large_) response_.body.append(bytes);
    return !too_large_;
  }

  HttpRequest request_;
  HttpResponse response_;
  curl::Easy easy_;
  bool too_large_ = false;
};

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

// libcurl's loop, turned. Outlives the client while transfers run.
class HttpClient::Multi {
 public:
  explicit Multi(asio::io_context& context)
      : context_(context),
        driver_(context.get_executor(), loop_.descriptor(), [this] { return turn(); }) {}
  Multi(const Multi&) = delete;
  Multi& operator=(const Multi&) = delete;

  asio::io_context& context() { return context_; }
  const curl::TrustStore& trust() const { return trust_; }
  CURLMcode add(Transfer& transfer) {
    ++transfers_;
    driver_.begin();
    return loop_.add(transfer.exchange.easy(), transfer);
  }

  void remove(Transfer& transfer) {
    loop_.remove(transfer.exchange.easy());
    if (--transfers_ == 0) driver_.rest();
  }

 private:
  std::optional<Driver::Instant> turn() {
    loop_.turn(std::chrono::milliseconds(0));
    if (transfers_ == 0) return std::nullopt;
    return loop_.next().value_or(Driver::Instant::max());
  }

  asio::io_context& context_;
  curl::TrustStore trust_ = curl::TrustStore::of_this_machine();
  curl::Loop loop_{idle_connections};
  std::size_t transfers_ = 0;
  Driver driver_;
};

HttpClient::HttpClient(asio::io_context& context) : multi_(std::make_shared<Multi>(context)) {}
HttpClient::~HttpClient() = default;

asio::any_io_executor HttpClient::executor() const { return multi_->context().get_executor(); }

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
  co_await member.transfer.ended.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  if (!member.transfer.code) {
    CallError error{.kind = CallError::Kind::Cancelled, .message = "cancelled"};
    co_return tl::unexpected(std::move(error));
  }
  co_return member.transfer.exchange.result(*member.transfer.code);
}

}  // namespace spotter::io
