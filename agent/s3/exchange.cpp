#include "agent/s3/exchange.hpp"

#include <algorithm>
#include <cstring>

namespace spotter::s3 {
namespace {

constexpr std::size_t longest_body = 8U << 20;
constexpr std::size_t longest_headers = 64U << 10;
// From the socket: what is copied on from here should still be in the processor's cache.
constexpr long received_at_once = 128L << 10;

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool is_success(int status) { return status / 100 == 2; }

}  // namespace

Exchange::Exchange() : easy_(curl_easy_init()) {
  curl_easy_setopt(easy_, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, message_.data());
  curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy_, CURLOPT_PATH_AS_IS, 1L);  // a key may be a/../b
  curl_easy_setopt(easy_, CURLOPT_USERAGENT, "spotter");
  curl_easy_setopt(easy_, CURLOPT_BUFFERSIZE, received_at_once);
  curl_easy_setopt(easy_, CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
  // A server that says nothing for so long will not: another connection may reach another one.
  curl_easy_setopt(easy_, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy_, CURLOPT_LOW_SPEED_TIME, 20L);
  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
}

Exchange::~Exchange() {
  curl_easy_cleanup(easy_);
  curl_slist_free_all(headers_);
}

void Exchange::prepare(Plan plan) {
  plan_ = std::move(plan);
  answer_ = {};
  received_ = 0;
  objection_.clear();
  too_long_ = false;
  message_[0] = '\0';
  curl_slist_free_all(headers_);
  headers_ = nullptr;
  for (const auto& [name, value] : plan_.headers) {
    // libcurl sends a header without a value only when it ends with a semicolon.
    std::string line = name;
    line.append(value.empty() ? ";" : ": ").append(value);
    headers_ = curl_slist_append(headers_, line.c_str());
  }
  headers_ = curl_slist_append(headers_, "Expect:");  // a second's wait where it is not known
  headers_ = curl_slist_append(headers_, "Accept:");
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_);
  curl_easy_setopt(easy_, CURLOPT_URL, plan_.url.c_str());
  set_method();
}

void Exchange::set_method() {
  curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, nullptr);
  curl_easy_setopt(easy_, CURLOPT_HTTPGET, 1L);
  if (plan_.method == "GET") return;
  if (plan_.method == "HEAD") {
    curl_easy_setopt(easy_, CURLOPT_NOBODY, 1L);
    return;
  }
  if (plan_.method == "PUT" || plan_.method == "POST") {
    curl_easy_setopt(easy_, CURLOPT_POST, 1L);
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(plan_.body.size()));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, plan_.body.empty() ? "" : plan_.body.data());
  }
  curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, plan_.method.c_str());
}

std::chrono::microseconds Exchange::time_of(CURLINFO what) const {
  curl_off_t time = 0;
  curl_easy_getinfo(easy_, what, &time);
  return std::chrono::microseconds(time);
}

std::chrono::microseconds Exchange::waited() const {
  return time_of(CURLINFO_STARTTRANSFER_TIME_T) - time_of(CURLINFO_PRETRANSFER_TIME_T);
}

std::chrono::microseconds Exchange::lasted() const {
  return time_of(CURLINFO_TOTAL_TIME_T) - time_of(CURLINFO_STARTTRANSFER_TIME_T);
}

std::string Exchange::message(CURLcode code) const {
  return message_[0] != '\0' ? message_.data() : curl_easy_strerror(code);
}

bool Exchange::take_header(std::string_view line) {
  if (line.starts_with("HTTP/")) {  // also after a 100
    answer_ = {};
    const auto blank = std::min(line.find(' '), line.size());
    answer_.status =
        static_cast<int>(wire::parse_count(trim(line.substr(blank)).substr(0, 3)).value_or(0));
    return true;
  }
  if (trim(line).empty()) {
    if (!is_success(answer_.status) || plan_.into.empty() || !plan_.check) return true;
    objection_ = plan_.check(answer_);
    return objection_.empty();
  }
  const auto colon = line.find(':');
  if (colon == line.npos) return true;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(), [](char each) {
    return each >= 'A' && each <= 'Z' ? static_cast<char>(each - 'A' + 'a') : each;
  });
  answer_.headers.emplace_back(std::move(name), trim(line.substr(colon + 1)));
  return answer_.headers.size() < longest_headers / 64;
}

bool Exchange::take_body(std::string_view bytes) {
  if (plan_.moved != nullptr) *plan_.moved += bytes.size();
  if (is_success(answer_.status) && !plan_.into.empty()) {
    if (bytes.size() > plan_.into.size() - received_) {
      too_long_ = true;
      return false;
    }
    std::memcpy(plan_.into.data() + received_, bytes.data(), bytes.size());
    received_ += bytes.size();
    if (plan_.arrived != nullptr) *plan_.arrived += bytes.size();
    return true;
  }
  if (answer_.body.size() + bytes.size() > longest_body) {
    too_long_ = true;
    return false;
  }
  answer_.body += bytes;
  return true;
}

std::size_t Exchange::on_header(char* data, std::size_t size, std::size_t count, void* self) {
  return static_cast<Exchange*>(self)->take_header({data, size * count}) ? size * count : 0;
}

std::size_t Exchange::on_body(char* data, std::size_t size, std::size_t count, void* self) {
  return static_cast<Exchange*>(self)->take_body({data, size * count}) ? size * count : 0;
}

}  // namespace spotter::s3
