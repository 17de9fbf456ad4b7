#include "agent/aws/s3/exchange.hpp"

#include <utility>

namespace spotter::s3 {
namespace {

// From the socket: what is copied on from here should still be in the processor's cache.
constexpr long document_read_at_once = 128L << 10;

}  // namespace

Exchange::Exchange(curl::Loop& loop, const curl::TrustStore& trust)
    : loop_(loop),
      easy_(trust, {.connect = connect_limit,
                    .silence = silence_limit,
                    .read_at_once = document_read_at_once,
                    .write_at_once = 1L << 20}) {
  easy_.keep_path();
  easy_.hand_to(*this);
}

Exchange::~Exchange() { loop_.remove(easy_); }

void Exchange::begin(Plan plan, Done done) {
  intake_.begin(std::move(plan));
  done_ = std::move(done);
  const Plan& begun = intake_.plan();
  easy_.set_url(begun.base + begun.target);
  easy_.set_headers(begun.headers);
  easy_.set_method(begun.method, begun.body);
  loop_.add(easy_, *this);
}

void Exchange::finished(CURLcode code) {
  loop_.remove(easy_);
  const auto first = easy_.time_of(CURLINFO_STARTTRANSFER_TIME_T);
  const Done done = std::move(done_);
  Taken taken = intake_.end(code, easy_.explain(code));
  taken.waited = first - easy_.time_of(CURLINFO_PRETRANSFER_TIME_T);
  taken.lasted = easy_.time_of(CURLINFO_TOTAL_TIME_T) - first;
  done(std::move(taken));
}

}  // namespace spotter::s3
