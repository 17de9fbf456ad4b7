#include "tests/world/admissions.hpp"

namespace spotter::world {
namespace {

// Statuses: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
int status_of(const std::string& code) {
  static const std::map<std::string, int> statuses = {{"AuthFailure", 401},
                                                      {"DryRunOperation", 412},
                                                      {"InternalError", 500},
                                                      {"InternalFailure", 500},
                                                      {"InsufficientInstanceCapacity", 500},
                                                      {"RequestLimitExceeded", 503},
                                                      {"ServiceUnavailable", 503},
                                                      {"Unavailable", 503},
                                                      {"UnauthorizedOperation", 403},
                                                      {"SignatureDoesNotMatch", 403},
                                                      {"RequestExpired", 400},
                                                      {"InvalidClientTokenId", 403},
                                                      // S3's
                                                      {"AccessDenied", 403},
                                                      {"ConditionalRequestConflict", 409},
                                                      {"NoSuchBucket", 404},
                                                      {"NoSuchKey", 404},
                                                      {"OperationAborted", 409},
                                                      {"PreconditionFailed", 412},
                                                      {"SlowDown", 503}};
  const auto found = statuses.find(code);
  return found == statuses.end() ? 400 : found->second;
}

template <class Value>
std::optional<Value> of_action(const std::map<std::string, Value>& map, const std::string& action) {
  for (const std::string& key : {action, std::string("*")}) {
    const auto found = map.find(key);
    if (found != map.end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace

Admission Admissions::admit(const std::string& action, Time now) {
  Admission admission{.delay = of_action(latencies_, action).value_or(Duration{0})};
  const auto is_throttled = [&](const std::string& key) {
    const auto found = throttled_.find(key);
    return found != throttled_.end() && now < found->second;
  };
  if (is_throttled(action) || is_throttled("*")) {
    admission.error = ApiError{"RequestLimitExceeded", "Request limit exceeded.", 503};
    return admission;
  }
  const auto failing = failing_.count(action) ? failing_.find(action) : failing_.find("*");
  if (failing != failing_.end()) {
    const std::string code = failing->second.code;
    if (--failing->second.count <= 0) failing_.erase(failing);
    admission.drop = code.rfind("timeout", 0) == 0;
    admission.carry_out = code == "timeout-carried-out";
    admission.error = ApiError{code, "This call fails on request.", status_of(code)};
    return admission;
  }
  if (const auto code = of_action(denied_, action)) {
    admission.error =
        ApiError{*code, "You are not authorized to perform this operation.", status_of(*code)};
  }
  return admission;
}

bool Admissions::is_denied(const std::string& action) const {
  return denied_.count(action) || denied_.count("*");
}

void Admissions::fail_next(const std::string& action, int count, const std::string& code) {
  failing_[action] = {count, code};
  if (count <= 0) failing_.erase(action);
}

void Admissions::deny(const std::string& action, bool denied, const std::string& code) {
  if (denied) {
    denied_[action] = code;
  } else {
    denied_.erase(action);
  }
}

}  // namespace spotter::world
