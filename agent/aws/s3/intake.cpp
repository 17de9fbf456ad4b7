#include "agent/aws/s3/intake.hpp"

#include <cstring>
#include <utility>

#include "agent/curl/easy.hpp"

namespace spotter::s3 {
namespace {

constexpr std::size_t longest_body = 8U << 20;
constexpr std::size_t longest_headers = 64U << 10;

bool is_success(int status) { return status / 100 == 2; }

}  // namespace

void Intake::begin(Plan plan) {
  plan_ = std::move(plan);
  taken_ = {};
}

bool Intake::take_header(std::string_view line) {
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
  if (auto header = curl::parse_header(line)) answer.headers.push_back(std::move(*header));
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
