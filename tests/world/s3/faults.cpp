#include "tests/world/s3/faults.hpp"

#include <algorithm>
#include <array>

#include "tests/world/arguments.hpp"
#include "tests/world/query.hpp"

namespace spotter::world::s3 {
namespace {

struct Named {
  std::string_view name;
  std::string_view arguments;
};
constexpr std::array own = {
    Named{"s3-slow", "rate=0 total=0 (bytes a second of each answer, of all; 0: any)"},
    Named{"s3-slow-down", "percent=10 above=0 (503: by chance; above so many requests a second)"},
    Named{"s3-errors", "percent=10 (500 InternalError, by chance)"},
    Named{"s3-reset", "after=1048576 count=1 key=BUCKET/KEY|* (bytes of an object, then a reset)"},
    Named{"s3-spoiled", "count=1 key=BUCKET/KEY|* (one byte of the object is wrong)"},
    Named{"s3-replaced", "count=1 key=BUCKET/KEY|* (a GET finds another ETag)"},
    Named{"s3-conflict", "count=1 (409 at a conditional write; an upload in parts is gone then)"},
    Named{"s3-endless",
          "pages=again|empty (a listing says one token again and again, or has no entries)"},
};
constexpr std::array shared = {std::string_view("throttle"), std::string_view("latency"),
                               std::string_view("fail-next"), std::string_view("deny"),
                               std::string_view("clear")};

const ApiError slow_down{"SlowDown", "Please reduce your request rate.", 503};

// EC2's words for it, in S3's.
void translate(std::optional<ApiError>& error, const Request& request) {
  if (!error) return;
  if (error->code == "RequestLimitExceeded") error = slow_down;
  if (error->code == "UnauthorizedOperation")
    error = ApiError{
        "AccessDenied",
        "User is not authorized to perform: s3:" + std::string(permission(request.operation)), 403};
}

bool reads_content(Operation operation) { return operation == Operation::GetObject; }

bool is_conditional(const Request& request) {
  return carries_content(request.operation) ||
                 request.operation == Operation::CompleteMultipartUpload ||
                 request.operation == Operation::CopyObject
             ? request.headers.contains("if-match") || request.headers.contains("if-none-match")
             : false;
}

}  // namespace

bool Faults::use(Some& fault, const Request& request) {
  if (fault.count <= 0 || !matches(fault.key, request.bucket + "/" + request.key)) return false;
  --fault.count;
  return true;
}

std::optional<ApiError> Faults::refuse(Time now) {
  if (random_.below(100) < slow_down_percent_) return slow_down;
  if (random_.below(100) < error_percent_)
    return ApiError{"InternalError", "We encountered an internal error. Please try again.", 500};
  if (requests_a_second_ == 0) return std::nullopt;
  const auto limit = static_cast<double>(requests_a_second_);
  const double passed = std::chrono::duration<double>(now - std::exchange(counted_, now)).count();
  allowance_ = std::min(limit, allowance_ + std::max(0.0, passed) * limit);
  if (allowance_ < 1) return slow_down;
  allowance_ -= 1;
  return std::nullopt;
}

Treatment Faults::treat(const Request& request, Time now) {
  Treatment treatment{.admission = admissions_.admit(std::string(name(request.operation)), now),
                      .rate = rate_,
                      .total_rate = total_rate_};
  auto& error = treatment.admission.error;
  if (!error && admissions_.is_denied(std::string(permission(request.operation))))
    error = ApiError{"UnauthorizedOperation", "", 403};
  if (!error) error = refuse(now);
  translate(error, request);
  if (error) return treatment;
  if (reads_content(request.operation)) {
    if (use(reset_, request)) treatment.reset_after = reset_.bytes;
    treatment.spoiled = use(spoiled_, request);
    treatment.replaced = use(replaced_, request);
  }
  if (conflicts_ > 0 && is_conditional(request)) {
    --conflicts_;
    treatment.conflict = true;
  }
  treatment.lists_again = endless_ == "again";
  treatment.lists_nothing = endless_ == "empty";
  return treatment;
}

void Faults::apply(const std::string& name, Arguments& given, Time now) {
  constexpr Duration a_minute{60000};
  const std::string action = given.text("action", "*");
  const auto some = [&](std::uint64_t bytes) {
    return Some{given.count("count", 1), given.text("key", "*"), bytes};
  };
  if (name == "throttle") admissions_.throttle(action, now + given.duration("for", a_minute));
  if (name == "latency") admissions_.set_latency(action, given.duration("of", Duration{1000}));
  if (name == "fail-next")
    admissions_.fail_next(action, given.count("count", 1), given.text("code", "InternalError"));
  if (name == "deny") admissions_.deny(action, given.on());
  if (name == "s3-slow") {
    rate_ = given.number("rate", 0);
    total_rate_ = given.number("total", 0);
  }
  if (name == "s3-slow-down") {
    requests_a_second_ = given.number("above", 0);
    slow_down_percent_ = given.number("percent", requests_a_second_ > 0 ? 0 : 10);
    allowance_ = static_cast<double>(requests_a_second_);
    counted_ = now;
  }
  if (name == "s3-errors") error_percent_ = given.number("percent", 10);
  if (name == "s3-reset") reset_ = some(given.number("after", 1024 * 1024));
  if (name == "s3-spoiled") spoiled_ = some(0);
  if (name == "s3-replaced") replaced_ = some(0);
  if (name == "s3-conflict") conflicts_ = given.count("count", 1);
  if (name == "s3-endless") endless_ = given.text("pages", "again");
  if (name == "clear") {
    const Random kept = random_;
    *this = Faults();
    random_ = kept;
  }
}

Expected<void> Faults::fault(const std::string& name,
                             const std::map<std::string, std::string>& arguments, Time now) {
  if (!knows(name) && !shares(name))
    return refusal("InvalidParameterValue", "There is no fault '" + name + "'.");
  Faults changed = *this;  // a malformed argument changes nothing
  Arguments given(arguments);
  changed.apply(name, given, now);
  if (!given.problem().empty()) return refusal("InvalidParameterValue", given.problem());
  *this = std::move(changed);
  return {};
}

bool Faults::knows(const std::string& name) {
  return std::any_of(own.begin(), own.end(), [&](const Named& it) { return it.name == name; });
}

bool Faults::shares(const std::string& name) {
  return std::find(shared.begin(), shared.end(), name) != shared.end();
}

std::vector<std::string> Faults::names() {
  std::vector<std::string> lines;
  for (const Named& it : own)
    lines.push_back(std::string(it.name) + ' ' + std::string(it.arguments));
  return lines;
}

}  // namespace spotter::world::s3
