#include "agent/aws/s3/carriers.hpp"

#include <cstring>
#include <utility>

namespace spotter::s3 {
namespace {

// From the socket: what is copied on from here should still be in the processor's cache.
constexpr long read_at_once = 128L << 10;

constexpr std::size_t longest_body = 8U << 20;
constexpr std::size_t most_headers = 1024;

bool is_success(int status) { return status / 100 == 2; }

}  // namespace

Exchange::Exchange(curl::Loop& loop, const curl::TrustStore& trust)
    : loop_(loop),
      easy_(trust, {.connect = connect_limit,
                    .silence = silence_limit,
                    .read_at_once = read_at_once,
                    .write_at_once = 1L << 20}) {
  easy_.keep_path();
  easy_.hand_to(*this);
}

Exchange::~Exchange() { loop_.remove(easy_); }

void Exchange::begin(Plan plan, Done done) {
  plan_ = std::move(plan);
  taken_ = {};
  done_ = std::move(done);
  again_ = false;
  easy_.set_url(plan_.base + plan_.target);
  easy_.set_headers(plan_.headers);
  easy_.set_method(plan_.method, plan_.body);
  loop_.add(easy_, *this);
}

void Exchange::finished(CURLcode code) {
  loop_.remove(easy_);
  // libcurl itself takes another connection for a kept one that the server has closed, but counts
  // that over all transfers of a handle, and refuses each sixth: github.com/curl/curl/pull/19066.
  if (code == CURLE_SEND_ERROR && taken_.answer.status == 0 && !std::exchange(again_, true)) {
    loop_.add(easy_, *this);
    return;
  }
  const Done done = std::move(done_);
  Taken taken = std::move(taken_);
  plan_ = {};
  taken.code = code;
  taken.message = easy_.explain(code);
  done(std::move(taken));
}

bool Exchange::take_header(std::string_view line) {
  Answer& answer = taken_.answer;
  if (const auto status = curl::parse_status(line)) {  // also after a 100
    answer = {};
    answer.status = *status;
    return true;
  }
  if (line.empty() || line == "\r\n") {
    if (!is_success(answer.status) || plan_.into.empty() || !plan_.check) return true;
    taken_.objection = plan_.check(answer);
    return taken_.objection.empty();
  }
  if (auto header = curl::parse_header(line)) {
    if (header->first == "etag") header->second = wire::quoted_etag(header->second);
    answer.headers.push_back(std::move(*header));
  }
  return answer.headers.size() < most_headers;
}

bool Exchange::take_body(std::string_view bytes) {
  if (is_success(taken_.answer.status) && !plan_.into.empty()) {
    const auto room = plan_.into.subspan(taken_.received);
    taken_.too_long = bytes.size() > room.size();
    if (taken_.too_long) return false;
    std::memcpy(room.data(), bytes.data(), bytes.size());
    taken_.received += bytes.size();
    if (plan_.moved != nullptr) *plan_.moved += bytes.size();
    if (plan_.arrived != nullptr) *plan_.arrived += bytes.size();
    return true;
  }
  if (plan_.moved != nullptr) *plan_.moved += bytes.size();
  taken_.too_long = taken_.answer.body.size() + bytes.size() > longest_body;
  if (!taken_.too_long) taken_.answer.body += bytes;
  return !taken_.too_long;
}

Carriers::Carriers(Ended ended) : ended_(std::move(ended)) {}

void Carriers::start(Id id, Plan plan) {
  if (free_.empty()) free_.push_back(std::make_unique<Exchange>(loop_, trust_));
  auto& exchange = *(exchanges_[id] = std::move(free_.back()));
  free_.pop_back();
  exchange.begin(std::move(plan), [this, id](Taken taken) {
    free_.push_back(std::move(exchanges_.extract(id).mapped()));
    ended_(id, std::move(taken));
  });
}

}  // namespace spotter::s3
