// Faults of requests to S3, switched on by request. Pure; the front asks once for each request and
// carries out the answer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/world/admissions.hpp"
#include "tests/world/random.hpp"
#include "tests/world/s3/request.hpp"

namespace spotter::world {
class Arguments;
}

namespace spotter::world::s3 {

struct Treatment {
  Admission admission;
  std::uint64_t rate = 0;                    // bytes a second of this connection; 0: any
  std::uint64_t total_rate = 0;              // of all connections together
  std::optional<std::uint64_t> reset_after;  // bytes of the answer's body
  bool spoiled = false;                      // one byte of the body is wrong
  bool replaced = false;                     // the object has another ETag than it was listed with
  bool conflict = false;                     // a conditional write answers 409
  // A listing does not end: each page says the same token; each is empty and says a new one.
  bool lists_again = false;
  bool lists_nothing = false;
};

class Faults {
 public:
  explicit Faults(std::uint64_t seed = 0) : random_(seed) {}

  Treatment treat(const Request& request, Time now);
  // Whether listing is denied: a missing key is AccessDenied then, not NoSuchKey.
  bool hides_missing_keys() const { return admissions_.is_denied("ListBucket"); }

  // One of names(), or one that S3 shares with EC2: throttle, latency, fail-next, deny, clear. They
  // name an operation (UploadPart) or, for deny, an IAM action (PutObject) as well.
  Expected<void> fault(const std::string& name, const std::map<std::string, std::string>& arguments,
                       Time now);
  static bool knows(const std::string& name);   // one of names()
  static bool shares(const std::string& name);  // one that EC2 has, too
  static std::vector<std::string> names();      // "s3-reset after=1048576 ...", one line each

 private:
  struct Some {  // of the next `count` requests for keys that match
    int count = 0;
    std::string key = "*";
    std::uint64_t bytes = 0;
  };
  bool use(Some& fault, const Request& request);
  std::optional<ApiError> refuse(Time now);
  void apply(const std::string& name, Arguments& given, Time now);

  Admissions admissions_;
  Random random_;
  std::uint64_t rate_ = 0;
  std::uint64_t total_rate_ = 0;
  std::uint64_t slow_down_percent_ = 0;
  std::uint64_t error_percent_ = 0;
  std::uint64_t requests_a_second_ = 0;  // more than that: SlowDown; 0: any
  double allowance_ = 0;                 // requests that may come at once
  Time counted_{};
  Some reset_;
  Some spoiled_;
  Some replaced_;
  int conflicts_ = 0;
  std::string endless_;  // how a listing does not end: again, empty; or empty: it does
};

}  // namespace spotter::world::s3
