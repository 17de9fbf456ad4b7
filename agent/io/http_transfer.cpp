#include "agent/io/http_transfer.hpp"

#include <ctime>
#include <utility>

namespace spotter::io {
namespace {

// Kept small: an idle agent's memory is a promise, and the answers are a few kilobytes.
constexpr long buffer_bytes = 8 * 1024;

std::chrono::milliseconds boot_time() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::milliseconds(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
}

}  // namespace

HttpExchange::HttpExchange(HttpRequest request, const curl::TrustStore& trust)
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

Result<HttpResponse, CallError> HttpExchange::result(CURLcode code) {
  if (code != CURLE_OK) return tl::unexpected(error(code));
  response_.status = easy_.status();
  response_.received_at = boot_time();
  return std::move(response_);
}

CallError HttpExchange::error(CURLcode code) const {
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
  if (!easy_.may_have_sent()) return {.kind = CallError::Kind::NotSent, .message = std::move(text)};
  return {.kind = CallError::Kind::Transient, .message = std::move(text)};
}

bool HttpExchange::take_header(std::string_view line) {
  if (curl::parse_status(line)) {  // the final answer after a 100 starts again
    response_.headers.clear();
  } else if (auto header = curl::parse_header(line)) {
    response_.headers[std::move(header->first)] = std::move(header->second);
  }
  return true;
}

bool HttpExchange::take_body(std::string_view bytes) {
  too_large_ = response_.body.size() + bytes.size() > request_.response_limit;
  if (!too_large_) response_.body.append(bytes);
  return !too_large_;
}

}  // namespace spotter::io
