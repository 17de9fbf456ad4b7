// The credential chain of agent/aws/aws_client.hpp for a thread without Asio: it blocks while
// it asks a container's endpoint or the metadata service, for 5 s at most, once in some hours.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "agent/aws/formats/imds.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/base/result.hpp"

namespace spotter::s3 {

class Keys {
 public:
  using WallClock = std::function<wire::WallTime()>;

  Keys(act::Environment environment, WallClock clock);

  // Cached; asked for again 5 minutes before they expire (a failure then is none while the old ones
  // are valid).
  Result<wire::Credentials> get();

  // The service called them expired.
  void expire() { cached_.reset(); }

 private:
  Result<std::optional<wire::Credentials>> load() const;
  Result<std::optional<wire::Credentials>> from_role() const;
  bool valid_for(std::chrono::seconds margin) const;

  act::Environment environment_;
  WallClock clock_;
  std::optional<wire::Credentials> cached_;
};

}  // namespace spotter::s3
