// Temporary credentials that stay valid long enough to pass on: loaded once for all callers, and
// again well before they expire.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "agent/aws/aws_client.hpp"

namespace spotter::act {

// Threading: the io_context's one thread. Must outlive the io_context's last run.
class FreshKeys {
 public:
  using Load = std::function<asio::awaitable<Result<wire::Credentials, CallError>>()>;

  // `clock`: empty means the system's.
  FreshKeys(asio::io_context& context, Load load, CredentialChain::WallClock clock = {});

  // Returns valid credentials at once, and reloads old ones in the background; waits only when
  // there are none. A failed reload is hidden while the old ones are valid. For two seconds the
  // same failure is returned without another try.
  asio::awaitable<Result<wire::Credentials, CallError>> get();

 private:
  bool valid_for(std::chrono::seconds margin) const;
  void begin();
  asio::awaitable<void> reload();

  asio::io_context& context_;
  Load load_;
  CredentialChain::WallClock clock_;
  asio::steady_timer loaded_;  // never expires: its cancellation wakes the waiting callers
  bool loading_ = false;
  std::optional<wire::Credentials> keys_;
  CallError error_;
  std::chrono::steady_clock::time_point not_before_{};
};

}  // namespace spotter::act
