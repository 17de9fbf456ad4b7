// The lease of a home: renewed once a minute, also while files are on their way or code is fetched,
// for a holder that is no instance is Gone without it.
#include "agent/aws/s3/objects.hpp"
#include "agent/decide/policy.hpp"
#include "agent/service/act/at_s3.hpp"
#include "agent/service/act/home.hpp"

namespace spotter::act {

bool Home::touch(std::uint32_t epoch, const std::string& holder, Duration limit) const {
  s3::Client client(s3_settings(limit));
  const Finding before = read_head(client);
  if (!before) return true;  // nobody knows: the next time
  wire::Head head = before->head;
  const bool ours = head.epoch.number == epoch && head.epoch.holder.view() == holder &&
                    head.epoch.state == decide::Epoch::State::Using;
  if (!ours) return false;
  if (before->age < lease / 2) return true;  // a commit came just now
  ++head.commits;
  // Whatever comes of it: where another write was first, that one renewed it.
  (void)s3::put(client, head_, wire::to_json(head), {.absent = false, .etag = before->etag});
  return true;
}

asio::awaitable<void> Home::renew(std::shared_ptr<Renewal> renewal) {
  for (;;) {
    renewal->timer.expires_after(lease);
    boost::system::error_code woken;
    co_await renewal->timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (renewal->over) co_return;
    const Duration limit = decide::Policy().epoch_call;
    std::function<bool()> work = [this, epoch = renewal->epoch, holder = self().str(), limit] {
      return touch(epoch, holder, limit);
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
