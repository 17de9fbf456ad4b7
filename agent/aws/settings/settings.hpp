// AWS's environment variables and files.
#pragma once

#include <functional>
#include <map>

#include "agent/aws/formats/imds.hpp"

namespace spotter::act {

class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> values)
      : values_(std::move(values)) {}

  // This process's own, read once: before threads start.
  static Environment of_this_process();
  // The same with these, NAME=value, in the place of those of their names.
  Environment with(const std::vector<std::string>& variables) const;

  // Empty when unset: the AWS SDKs make no difference between unset and empty either.
  std::string get(std::string_view name) const;
  const std::map<std::string, std::string, std::less<>>& all() const { return values_; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

// "true", in any case.
bool is_set(const Environment& environment, const char* name);
// $NAME, ${NAME} and ~/ in a path, as Python's expandvars() and expanduser() have them.
std::string expanded(const Environment& environment, std::string path);

// AWS_CONFIG_FILE (~/.aws/config) and AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials), as
// botocore's configparser reads them. Private to aws/. Source:
// https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html

using Profile = std::map<std::string, std::string>;

using Sections = std::map<std::string, Profile>;

// The settings by [section], their names in lower case; a line that is indented deeper than the one
// before goes on it.
Sections parse_sections(std::string_view text);

struct SharedFiles {
  std::string name;      // of the profile: AWS_DEFAULT_PROFILE, AWS_PROFILE, or `default`
  bool named = false;    // by a variable
  Sections config;       // `profile x`, `sso-session y`
  Sections credentials;  // by profile

  // What both say; the credentials file has precedence. None: neither has it.
  std::optional<Profile> profile(const std::string& wanted) const;
};
// Fails in a unit of systemd for a file that another user may write.
Result<SharedFiles> shared_files(const Environment& environment);
// Empty when there is none, or it is not to be believed.
Profile own_profile(const Environment& environment);

// Empty: there is no such regular file.
std::string file_contents(const std::string& path);

// A container's endpoint (ECS, Batch, EKS).
struct ContainerEndpoint {
  std::string url;
  std::string token;  // the Authorization header; empty: none. Read each time: it is rotated
};
// None: not in a container. Fails when the URL is neither https nor on this host: keys are asked
// for in plain text only there.
Result<std::optional<ContainerEndpoint>> container_endpoint(const Environment& environment);

// The address at which a service answers.
// Source: https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html

// AWS_ENDPOINT_URL_<SERVICE>, else AWS_ENDPOINT_URL (both unless
// AWS_IGNORE_CONFIGURED_ENDPOINT_URLS is "true"), else https://SERVICE.REGION.SUFFIX, the suffix
// that of the region's partition (aws/formats/partition.hpp). AWS_USE_FIPS_ENDPOINT and
// AWS_USE_DUALSTACK_ENDPOINT ("true") choose the host that AWS has for them, as the SDKs'
// endpoint rules do. Without a trailing slash.
std::string endpoint(const Environment& environment, std::string_view service,
                     const Region& region);

// AWS_REGION, else AWS_DEFAULT_REGION, else the profile's `region`, else empty.
Region configured_region(const Environment& environment);

// EC2 accepts five minutes between the clocks, S3 fifteen; what is less than this is the network's.
inline constexpr std::chrono::seconds tolerated_skew{60};

using WallClock = std::function<wire::WallTime()>;
wire::WallTime system_time();  // whole seconds

}  // namespace spotter::act
