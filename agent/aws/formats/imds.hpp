// The instance metadata service's answers, as values. No I/O.
// Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html
#pragma once

#include <optional>

#include "agent/base/clock_text.hpp"
#include "agent/base/names.hpp"

namespace spotter::wire {

// dynamic/instance-identity/document
struct Identity {
  InstanceId instance;
  Zone zone;
  Region region;
  InstanceType type;
  std::string account;       // may be empty
  std::string image;         // may be empty
  std::string architecture;  // may be empty
  std::optional<WallTime> launched = {};
};
Result<Identity> parse_identity(std::string_view json);

// meta-data/spot/instance-action: {"action": "terminate", "time": "2026-11-21T10:15:30Z"}
struct SpotNotice {
  InterruptionAction action = InterruptionAction::Terminate;
  WallTime time;
  friend bool operator==(const SpotNotice&, const SpotNotice&) = default;
};
Result<SpotNotice> parse_spot_notice(std::string_view json);

// meta-data/events/recommendations/rebalance: {"noticeTime": "..."}
Result<WallTime> parse_rebalance(std::string_view json);

// meta-data/autoscaling/target-lifecycle-state
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/retrieving-target-lifecycle-state-through-imds.html
enum class LifecycleState { InService, Terminated, Other };
LifecycleState parse_lifecycle_state(std::string_view text);

// It becomes a header's value: visible ASCII. A service in trouble may answer with anything.
bool can_be_token(std::string_view text);

// meta-data/iam/security-credentials/ROLE, and the container credentials endpoint.
struct Credentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;           // empty: long-term keys
  std::optional<WallTime> expiration;  // absent: never
};
Result<Credentials> parse_credentials(std::string_view json);

// meta-data/tags/instance: the keys, one a line.
std::vector<std::string> parse_lines(std::string_view text);

// The deadline rule: how long after the answer (whose HTTP Date is `date`) the notice's time is.
// Never negative, never more than 120 s. Both stamps come from AWS's clock, so a wrong local clock
// does not matter. Both are whole seconds: the result may be up to 1 s too optimistic, for the
// policy's margin to cover.
inline constexpr std::chrono::seconds longest_notice{120};
Duration remaining(WallTime notice, WallTime date);

}  // namespace spotter::wire
