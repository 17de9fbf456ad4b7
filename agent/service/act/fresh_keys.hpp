// Temporary credentials that are always worth handing on: loaded once for all who ask, anew well
// before they expire.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "agent/aws/aws_client.hpp"

namespace spotter::act {

using KeysResult = CallResult<wire::Credentials>;

// Threading: the io_context's one thread. Must outlive the io_context's last run.
class FreshKeys {
 public:
  using Load = std::function<asio::awaitable<KeysResult>()>;

  // `clock`: empty is the system's.
  FreshKeys(asio::io_context& context, Load load, CredentialChain::WallClock clock = {});

  // What is valid is given at once, and replaced behind the caller's back when it is old; only who
  // comes when there is nothing waits. A failure is none while the old ones are valid, and is
  // repeated for two seconds without asking again.
  asio::awaitable<KeysResult> get();

 private:
  bool valid_for(std::chrono::seconds margin) const;
  void begin();
  asio::awaitable<void> reload();

  asio::io_context& context_;
  Load load_;
  CredentialChain::WallClock clock_;
  asio::steady_timer loaded_;  // never rings: its cancellation wakes those who wait
  bool loading_ = false;
  std::optional<wire::Credentials> keys_;
  CallError error_;
  std::chrono::steady_clock::time_point not_before_{};
};

}  // namespace spotter::act
