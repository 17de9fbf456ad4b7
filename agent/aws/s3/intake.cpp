#include "agent/aws/s3/intake.hpp"

#include <algorithm>
#include <cstring>

namespace spotter::s3 {
namespace {

constexpr std::size_t longest_body = 8U << 20;
constexpr std::size_t longest_headers = 64U << 10;

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool is_success(int status) { return status / 100 == 2; }

}  // namespace

void Intake::begin(Plan plan) {
  plan_ = std::move(plan);
  taken_ = {};
}

bool Intake::take_header(std::string_view line) {
  Answer& answer = taken_.answer;
  if (line.starts_with("HTTP/")) {  // also after a 100
    answer = {};
    const auto blank = std::min(line.find(' '), line.size());
    answer.status =
        static_cast<int>(wire::parse_count(trim(line.substr(blank)).substr(0, 3)).value_or(0));
    return true;
  }
  if (trim(line).empty()) {
    if (!is_success(answer.status) || plan_.into.empty() || !plan_.check) return true;
    taken_.objection = plan_.check(answer);
    return taken_.objection.empty();
  }
  const auto colon = line.find(':');
  if (colon == line.npos) return true;
  std::string name(line.substr(0, colon));
  std::ranges::transform(name, name.begin(), [](char each) {
    return each >= 'A' && each <= 'Z' ? static_cast<char>(each - 'A' + 'a') : each;
  });
  answer.headers.emplace_back(std::move(name), trim(line.substr(colon + 1)));
  return answer.headers.size() < longest_headers / 64;
}

std::span<char> Intake::room() const {
  if (!is_success(taken_.answer.status)) return {};
  return plan_.into.subspan(taken_.received);
}

void Intake::put(std::size_t bytes) {
  taken_.received += bytes;
  if (plan_.moved != nullptr) *plan_.moved += bytes;
  if (plan_.arrived != nullptr) *plan_.arrived += bytes;
}

bool Intake::take_body(std::string_view bytes) {
  if (is_success(taken_.answer.status) && !plan_.into.empty()) {
    const auto where = room();
    taken_.too_long = bytes.size() > where.size();
    if (taken_.too_long) return false;
    std::memcpy(where.data(), bytes.data(), bytes.size());
    put(bytes.size());
    return true;
  }
  if (plan_.moved != nullptr) *plan_.moved += bytes.size();
  taken_.too_long = taken_.answer.body.size() + bytes.size() > longest_body;
  if (!taken_.too_long) taken_.answer.body += bytes;
  return !taken_.too_long;
}

Taken Intake::end(CURLcode code, std::string message) {
  taken_.code = code;
  taken_.message = std::move(message);
  plan_ = {};
  return std::move(taken_);
}

}  // namespace spotter::s3
