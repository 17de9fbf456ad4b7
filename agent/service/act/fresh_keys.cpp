#include "agent/service/act/fresh_keys.hpp"

namespace spotter::act {
namespace {

// botocore begins to ask for new keys a quarter of an hour before they expire: by then they are
// loaded.
constexpr std::chrono::minutes refresh_before_expiry{20};
// A call that begins with these keys has to end before they expire.
constexpr std::chrono::minutes last_use{1};
constexpr std::chrono::seconds pause_after_failure{2};

}  // namespace

FreshKeys::FreshKeys(asio::io_context& context, Load load, CredentialChain::WallClock clock)
    : context_(context),
      load_(std::move(load)),
      clock_(clock ? std::move(clock) : system_time),
      loaded_(context, asio::steady_timer::time_point::max()) {}

bool FreshKeys::valid_for(std::chrono::seconds margin) const {
  if (!keys_) return false;
  return !keys_->expiration || *keys_->expiration - clock_() > margin;
}

void FreshKeys::begin() {
  if (loading_ || std::chrono::steady_clock::now() < not_before_) return;
  loading_ = true;
  asio::co_spawn(context_, reload(), io::rethrow);
}

asio::awaitable<void> FreshKeys::reload() {
  auto loading = load_();
  Result<wire::Credentials, CallError> loaded = co_await std::move(loading);
  if (loaded) {
    keys_ = std::move(*loaded);
  } else {
    error_ = std::move(loaded.error());
    not_before_ = std::chrono::steady_clock::now() + pause_after_failure;
  }
  loading_ = false;
  loaded_.cancel();
}

asio::awaitable<Result<wire::Credentials, CallError>> FreshKeys::get() {
  if (!valid_for(refresh_before_expiry)) begin();
  while (loading_ && !valid_for(last_use)) {
    boost::system::error_code woken;
    auto waiting = loaded_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    co_await std::move(waiting);
  }
  if (valid_for(std::chrono::seconds{0})) co_return *keys_;
  co_return tl::unexpected(error_);
}

}  // namespace spotter::act
