#include "agent/aws/s3/exchange.hpp"

#include <utility>

namespace spotter::s3 {
namespace {

// From the socket: what is copied on from here should still be in the processor's cache.
constexpr long document_read_at_once = 128L << 10;

}  // namespace

Exchange::Exchange(Loop& loop) : loop_(loop), easy_(curl_easy_init()) {
  curl_easy_setopt(easy_, CURLOPT_PRIVATE, static_cast<Turned*>(this));
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, message_.data());
  curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy_, CURLOPT_PATH_AS_IS, 1L);  // a key may be a/../b
  curl_easy_setopt(easy_, CURLOPT_USERAGENT, "spotter");
  curl_easy_setopt(easy_, CURLOPT_BUFFERSIZE, document_read_at_once);
  curl_easy_setopt(easy_, CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, connect_limit.count());
  curl_easy_setopt(easy_, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy_, CURLOPT_LOW_SPEED_TIME, silence_limit.count());
  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
}

Exchange::~Exchange() {
  loop_.remove(easy_);
  curl_easy_cleanup(easy_);
  curl_slist_free_all(headers_);
}

void Exchange::begin(Plan plan, Done done) {
  intake_.begin(std::move(plan));
  done_ = std::move(done);
  message_[0] = '\0';
  curl_easy_setopt(easy_, CURLOPT_URL, (intake_.plan().base + intake_.plan().target).c_str());
  set_headers();
  set_method();
  loop_.add(easy_);
}

void Exchange::set_headers() {
  curl_slist_free_all(headers_);
  headers_ = nullptr;
  for (const auto& [name, value] : intake_.plan().headers) {
    // libcurl sends a header without a value only when it ends with a semicolon.
    std::string line = name;
    line.append(value.empty() ? ";" : ": ").append(value);
    headers_ = curl_slist_append(headers_, line.c_str());
  }
  headers_ = curl_slist_append(headers_, "Expect:");  // a second's wait where it is not known
  headers_ = curl_slist_append(headers_, "Accept:");
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_);
}

void Exchange::set_method() {
  const Plan& plan = intake_.plan();
  curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, nullptr);
  curl_easy_setopt(easy_, CURLOPT_HTTPGET, 1L);
  if (plan.method == "GET") return;
  if (plan.method == "HEAD") {
    curl_easy_setopt(easy_, CURLOPT_NOBODY, 1L);
    return;
  }
  if (plan.method == "PUT" || plan.method == "POST") {
    curl_easy_setopt(easy_, CURLOPT_POST, 1L);
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(plan.body.size()));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, plan.body.empty() ? "" : plan.body.data());
  }
  curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, plan.method.c_str());
}

std::chrono::microseconds Exchange::time_of(CURLINFO what) const {
  curl_off_t time = 0;
  curl_easy_getinfo(easy_, what, &time);
  return std::chrono::microseconds(time);
}

void Exchange::finished(CURLcode code) {
  loop_.remove(easy_);
  const auto first = time_of(CURLINFO_STARTTRANSFER_TIME_T);
  const Done done = std::move(done_);
  Taken taken = intake_.end(code, message_[0] != '\0' ? message_.data() : curl_easy_strerror(code));
  taken.waited = first - time_of(CURLINFO_PRETRANSFER_TIME_T);
  taken.lasted = time_of(CURLINFO_TOTAL_TIME_T) - first;
  done(std::move(taken));
}

std::size_t Exchange::on_header(char* data, std::size_t size, std::size_t count, void* self) {
  auto& intake = static_cast<Exchange*>(self)->intake_;
  return intake.take_header({data, size * count}) ? size * count : 0;
}

std::size_t Exchange::on_body(char* data, std::size_t size, std::size_t count, void* self) {
  auto& intake = static_cast<Exchange*>(self)->intake_;
  return intake.take_body({data, size * count}) ? size * count : 0;
}

}  // namespace spotter::s3
