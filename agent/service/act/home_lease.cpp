// The lease of a home: renewed once a minute, also while files are on their way or code is fetched,
// for a holder that is no instance is Gone without it.
#include "agent/decide/policy.hpp"
#include "agent/service/act/home.hpp"

namespace spotter::act {

// Of what fails nobody knows: the next time.
bool Home::touch(const wire::HeadHolder& holder, Duration limit) const {
  const auto renewed = [&](const wire::SeenHead& seen) { return wire::to_renewed(seen, holder); };
  const Finding before = change(renewed, limit);
  return before || before.error().failure != decide::Failure::Conflict;
}

asio::awaitable<void> Home::renew(std::shared_ptr<Renewal> renewal) {
  for (;;) {
    renewal->timer.expires_after(wire::head_lease);
    boost::system::error_code woken;
    co_await renewal->timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (renewal->over) co_return;
    const Duration limit = decide::Policy().epoch_call;
    std::function<bool()> work = [this, limit, holder = wire::HeadHolder{renewal->epoch, self()}] {
      return touch(holder, limit);
    };
    auto touching = apart_.run(std::move(work), limit, "the home");
    const auto ours = co_await std::move(touching);
    if (renewal->over || (ours && !*ours)) co_return;
  }
}

void Home::begin_renewing(const asio::any_io_executor& executor, std::uint32_t epoch) {
  if (renewal_ && renewal_->epoch == epoch) return;
  end_renewing();
  renewal_ = std::make_shared<Renewal>(executor);
  renewal_->epoch = epoch;
  asio::co_spawn(executor, renew(renewal_), asio::detached);
}

void Home::end_renewing() {
  if (!renewal_) return;
  renewal_->over = true;
  renewal_->timer.cancel();
  renewal_.reset();
}

}  // namespace spotter::act
