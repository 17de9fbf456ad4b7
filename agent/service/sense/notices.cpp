#include "agent/service/sense/notices.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "agent/base/clock_text.hpp"
#include "agent/io/log.hpp"
#include "agent/wire/events.hpp"

namespace spotter::sense {

using decide::Happening;

namespace {

// "after 3 ms" and "after 4 ms" are the same problem.
std::string without_digits(std::string text) {
  std::erase_if(text, [](char each) { return each >= '0' && each <= '9'; });
  return text;
}

}  // namespace

void Notices::say_once(const std::string& problem) {
  answered_ = answered_ || problem.empty();
  if (!settings_.expected && !answered_) return;
  if (without_digits(problem) == without_digits(problem_)) return;
  if (problem.empty()) {
    io::note(wire::event("metadata-answers"), spdlog::level::info,
             "the metadata service answers again");
  } else {
    io::note(wire::event("metadata-silent"), spdlog::level::warn,
             "the metadata service: {}. Asking again each second", problem);
  }
  problem_ = problem;
}

asio::awaitable<Happening> Notices::read_identity() {
  if (!settings_.asked) co_return decide::EffectFailed{};
  const auto identity = co_await imds_.identity();
  if (identity && *identity) {
    say_once("");
    launched_ = (*identity)->launched;
    co_return decide::IdentityRead{(*identity)->instance, (*identity)->type, (*identity)->zone,
                                   (*identity)->region};
  }
  decide::EffectFailed failed;
  if (settings_.expected || answered_)
    failed.detail = decide::Detail(identity ? "no identity document" : identity.error().message);
  co_return failed;
}

asio::awaitable<std::optional<decide::IdentityRead>> Notices::await_identity(std::uint32_t tries) {
  while (tries-- > 0) {
    const Happening answer = co_await read_identity();
    if (const auto* identity = std::get_if<decide::IdentityRead>(&answer)) co_return *identity;
    co_await io::wait_for(std::chrono::seconds(1));
  }
  co_return std::nullopt;
}

// The notice of an earlier termination that did not happen stays, with a past time, and is ignored.
// A hibernation's time is past, too: it begins with its notice.
asio::awaitable<void> Notices::look_for_action() {
  const auto seen = co_await imds_.spot_action();
  if (!seen) {
    say_once(seen.error().message);
    co_return;
  }
  say_once("");
  if (!*seen) {
    if (announced_) deliver_(decide::NoticeWithdrawn{});
    announced_.reset();
    co_return;
  }
  const SpotAction& action = **seen;
  if (announced_ == action.time) co_return;
  const bool past = action.remaining <= Duration::zero();
  announced_ = action.time;
  if (past && action.action != InterruptionAction::Hibernate) co_return;
  // EC2 freezes the machine at any time; until then there is no deadline.
  const bool hibernate = action.action == InterruptionAction::Hibernate;
  const Time deadline = hibernate ? now_() + wire::longest_notice : action.deadline();
  deliver_(decide::NoticeSeen{action.action, deadline});
}

asio::awaitable<void> Notices::look_for_hints() {
  const auto rebalance = co_await imds_.rebalance();
  if (rebalance && *rebalance && !rebalance_said_) {
    rebalance_said_ = true;
    deliver_(decide::RebalanceRecommended{});
  }
  // The lifecycle state is the only sign that an Auto Scaling group terminates the instance: no
  // notice, no time. A lifecycle hook may hold it longer, but two minutes is what a notice gives.
  const auto state = co_await imds_.lifecycle_state();
  if (state && *state && **state == wire::LifecycleState::Terminated && !leaving_group_) {
    leaving_group_ = true;
    // After a spot notice that one's own, earlier deadline holds.
    if (!announced_)
      deliver_(
          decide::NoticeSeen{InterruptionAction::Terminate, now_() + wire::longest_notice, true});
  }
  if (state && *state && **state == wire::LifecycleState::InService && leaving_group_) {
    leaving_group_ = false;
    deliver_(decide::NoticeWithdrawn{});
  }
}

asio::awaitable<void> Notices::watch() {
  if (!settings_.asked) co_return;
  asio::steady_timer timer(co_await asio::this_coro::executor);
  auto next = std::chrono::steady_clock::now();
  constexpr int looks_in_vain = 10;
  for (int round = 0; settings_.expected || answered_ || round < looks_in_vain; ++round) {
    co_await look_for_action();
    if (round % settings_.others_each == 0) {
      co_await look_for_hints();
    }
    // At fixed times, not after a pause: a slow answer must not delay the next look.
    const auto now = std::chrono::steady_clock::now();
    next = std::max(next + settings_.every, now);
    timer.expires_at(next);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

namespace {

constexpr Duration kCall{30'000};
constexpr Duration kLateNotice = wire::longest_notice / 2;  // of who looks too late to know better
constexpr Duration kUntilKnown{1'000};                      // which instance this is
constexpr const char* kInterruptible = "interruptible-capacity-reservation";

}  // namespace

void Reservation::say(const std::string& words) {
  if (words == said_) return;
  said_ = words;
  spdlog::info("{}", words);
  parts_.say(words);
}

void Reservation::complain(const CallError& error) {
  if (error.message == problem_) return;
  problem_ = error.message;
  spdlog::warn("when the capacity reservation of this instance ends is not known: {}{}",
               error.message,
               error.forbidden() ? ". Give its role what `spotter iam agent` prints" : "");
}

// Other reservations do not end an instance: it goes on as any other on demand.
asio::awaitable<bool> Reservation::learn() {
  const InstanceId instance = parts_.instance();
  if (!instance) co_return true;
  wire::DescribeInstances request;
  request.instances = {instance};
  const auto seen = co_await aws_.call(std::move(request), kCall);
  if (!seen && parts_.expected) complain(seen.error());
  if (!seen && seen.error().forbidden() && !parts_.expected) co_return false;
  if (!seen || seen->items.empty()) co_return true;
  const wire::Instance& self = seen->items.front();
  if (self.lifecycle != "capacity-block" && self.lifecycle != kInterruptible) co_return false;
  id_ = self.reservation;
  co_return !id_.empty();
}

void Reservation::leave(Time deadline, Duration leeway) {
  parts_.deliver(decide::NoticeSeen{
      .action = InterruptionAction::Terminate, .deadline = deadline, .leeway = leeway});
}

// A block can be extended, also after the notice.
void Reservation::see_block(const wire::CapacityReservation& block) {
  if (!block.ends) return;
  say("in the capacity block " + id_ + ", which ends at " + wire::to_rfc3339(*block.ends) +
      "; EC2 ends its instances from " + wire::to_rfc3339(*block.ends - wire::block_clears_in) +
      " on");
  const auto left = *block.ends - wire::block_clears_in - aws_.aws_time();
  const bool near = left <= wire::longest_notice;
  if (announced_ && !near) {
    announced_.reset();
    parts_.deliver(decide::NoticeWithdrawn{});
  }
  if (!near || announced_ == block.ends) return;
  announced_ = block.ends;
  const Duration lead = std::max<Duration>(left, kLateNotice);  // later EC2 may end it at any time
  const Duration rest = *block.ends - aws_.aws_time();
  leave(parts_.now() + lead, std::max(Duration{0}, rest - lead));
}

// The instances that end are known only where all do; an owner who takes back some has a checkpoint
// made on each. Between two looks the two minutes may have begun at the first.
void Reservation::see_lent(std::uint64_t lent) {
  const bool fewer = lent_ && lent < *lent_;
  const Time began = lent_ ? looked_ : parts_.now() - kLateNotice;
  lent_ = lent;
  looked_ = parts_.now();
  if (lent > 0) {
    reclaimed_ = false;
    if (fewer) parts_.deliver(decide::RebalanceRecommended{});
  } else if (!std::exchange(reclaimed_, true)) {
    leave(std::max(began + wire::longest_notice, parts_.now() + kLateNotice), Duration{0});
  }
}

asio::awaitable<std::optional<wire::CapacityReservation>> Reservation::ask(std::string id) {
  wire::DescribeCapacityReservations request{.reservations = {std::move(id)}};
  auto seen = co_await aws_.call(std::move(request), kCall);
  if (!seen) complain(seen.error());
  if (!seen || seen->items.empty()) co_return std::nullopt;
  co_return std::move(seen->items.front());
}

asio::awaitable<void> Reservation::look() {
  auto asking = ask(id_);
  const auto own = co_await std::move(asking);
  if (!own) co_return;
  if (own->is_block) {
    problem_.clear();
    co_return see_block(*own);
  }
  if (own->state == "cancelled" || own->state == "expired") co_return see_lent(0);
  say("in the interruptible capacity reservation " + id_ +
      ", whose owner may take the instance back at any time, two minutes ahead" +
      (own->source.empty()
           ? "; its source is not shown to this account, so nothing is seen of that "
             "before the metadata service says it"
           : ""));
  if (own->source.empty()) co_return;
  auto asking_of_source = ask(own->source);
  const auto source = co_await std::move(asking_of_source);
  if (source) problem_.clear();
  if (source && source->lent) see_lent(*source->lent);
}

asio::awaitable<void> Reservation::watch() {
  for (;;) {
    if (id_.empty()) {
      auto learning = learn();
      if (!co_await std::move(learning)) co_return;
    }
    if (!id_.empty()) {
      auto looking = look();
      co_await std::move(looking);
    }
    // An agent that begins beside the end of a block learns it before it has the storage.
    const bool knows_itself = !parts_.instance().empty();
    co_await io::wait_for(knows_itself ? parts_.every
                                       : std::min<Duration>(parts_.every, kUntilKnown));
  }
}

}  // namespace spotter::sense
