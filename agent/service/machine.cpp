#include "agent/service/machine.hpp"

#include <spdlog/spdlog.h>

#include <cstdlib>

#include "agent/config/run.hpp"
#include "agent/io/asio.hpp"
#include "agent/io/kernel.hpp"

namespace spotter {
namespace {

constexpr Duration kCall{30'000};
// The group's lifecycle state is read every ten seconds (service/sense/notices.hpp).
constexpr int kSecondsOfAGroup = 20;

Result<void> outcome(const decide::Happening& answer) {
  const auto* failed = std::get_if<decide::EffectFailed>(&answer);
  if (failed == nullptr) return {};
  return failure(failed->detail.str());
}

constexpr std::uint32_t kTries = 10;  // a second apart; systemd waits longer for a start

asio::awaitable<void> ask(asio::io_context& context,
                          std::optional<decide::IdentityRead>& identity) {
  const auto environment = act::Environment::of_this_process();
  io::HttpClient http(context);
  sense::ImdsClient imds(http, command::imds_settings(environment));
  sense::Notices notices(imds, {}, io::now, [](decide::Happening) {});
  identity = co_await notices.await_identity(kTries);
}

}  // namespace

Machine::Machine(asio::io_context& context, const config::Job& job, act::Environment environment,
                 OnNotice on_notice)
    : context_(context),
      job_(job),
      environment_(std::move(environment)),
      http_(context),
      imds_(http_, command::imds_settings(environment_)),
      sensed_([this, deliver = std::move(on_notice)](decide::Happening what) {
        const auto* seen = std::get_if<decide::NoticeSeen>(&what);
        if (seen != nullptr) notice(*seen);
        deliver(std::move(what));
      }),
      notices_(imds_, {}, io::now, sensed_) {}

// REQUIRES: learn() has returned.
asio::awaitable<void> Machine::watch() {
  reservation_ = std::make_unique<sense::Reservation>(
      *aws_, sense::Reservation::Parts{
                 io::now, [this] { return identity_ ? identity_->instance : InstanceId(); },
                 sensed_, [](const std::string&) {}});
  asio::co_spawn(context_, reservation_->watch(), io::rethrow);
  co_await notices_.watch();
}

void Machine::notice(const decide::NoticeSeen& seen) {
  held_ = seen.held;
  complete_if_idle();
  asio::co_spawn(context_, notify("notice", notice_words(name(), seen.deadline, io::now())),
                 io::rethrow);
}

// Waits a few seconds until it is sent: what follows may end this machine.
asio::awaitable<void> Machine::notify(std::string_view event, std::string words) {
  constexpr Duration patience{5'000};
  if (!notifier_) co_return;
  notifier_->send({event, std::move(words)});
  co_await notifier_->drain(patience);
}

void Machine::set_idle(bool idle) {
  idle_ = idle;
  complete_if_idle();
}

void Machine::complete_if_idle() {
  if (!idle_ || !held_) return;
  held_ = false;
  asio::co_spawn(context_, complete_lifecycle(), asio::detached);
}

// If it fails, the hook's own timeout ends the machine.
asio::awaitable<void> Machine::complete_lifecycle() {
  const auto read = co_await await_fleet();
  if (!read || read->fleet.kind != FleetKind::AutoScalingGroup) co_return;
  const decide::CompleteLifecycle completion{read->fleet, identity_->instance};
  const decide::Happening answer = co_await cloud_->on(completion, kCall);
  const auto done = outcome(answer);
  completed_ = done.has_value();
  if (!done) spdlog::warn("{}", done.error().message);
}

asio::awaitable<void> Machine::learn(std::uint32_t tries) {
  if (!identity_) identity_ = co_await notices_.await_identity(tries);
  Region region = act::configured_region(environment_);
  if (region.empty() && identity_) {
    region = identity_->region;
    ::setenv("AWS_REGION", region.str().c_str(), 1);
  }
  aws_ = std::make_unique<act::AwsClient>(http_, command::aws_settings(environment_, region));
  cloud_ = std::make_unique<act::Cloud>(*aws_, job_);
  notifier_ = std::make_unique<Notifier>(context_, http_, *aws_, job_);
}

std::string Machine::name() const {
  return identity_ ? identity_->instance.str() : command::host_name();
}

asio::awaitable<std::vector<bool>> Machine::experiments_here(std::size_t count) {
  if (job_.storage.share || !identity_) co_return std::vector<bool>();
  co_return co_await cloud_->experiments_in(identity_->zone, count, kCall);
}

asio::awaitable<Result<decide::FleetRead>> Machine::read_fleet() {
  if (!identity_) co_return decide::FleetRead{};
  const decide::ReadFleet question{identity_->instance};
  const decide::Happening answer = co_await cloud_->on(question, 3 * kCall);
  if (const auto* read = std::get_if<decide::FleetRead>(&answer)) {
    decide::FleetRead fleet = *read;
    if (job_.fleet) fleet.fleet = *job_.fleet;
    co_return fleet;
  }
  const auto* failed = std::get_if<decide::EffectFailed>(&answer);
  co_return failure(failed != nullptr ? failed->detail.str() : "no answer");
}

// EC2 shows none until the fleet's tags are written: as the core has it (decide/identity.cpp).
asio::awaitable<Result<decide::FleetRead>> Machine::await_fleet() {
  for (;;) {
    auto read = co_await read_fleet();
    if (!read || job_.fleet || read->is_final() || !identity_) co_return read;
    const auto now = std::chrono::steady_clock::now();
    if (!fleet_asked_at_) fleet_asked_at_ = now;
    if (now - *fleet_asked_at_ >= decide::Policy().fleet_tags) co_return read;
    co_await io::wait_for(decide::Policy().poll_held);
  }
}

asio::awaitable<Result<void>> Machine::cancel_fleet() {
  if (!std::exchange(end_notified_, true)) {
    co_await notify("finished", "all of its work has ended: the fleet is cancelled");
  }
  const auto read = co_await await_fleet();
  if (!read) co_return tl::unexpected(read.error());
  if (read->fleet.kind == FleetKind::None) co_return Result<void>();
  const decide::CancelFleet cancellation{read->fleet};
  const decide::Happening answer = co_await cloud_->on(cancellation, kCall);
  const auto cancelled = outcome(answer);
  if (!cancelled || read->fleet.kind != FleetKind::AutoScalingGroup) co_return cancelled;
  for (int second = 0; !completed_ && second < kSecondsOfAGroup; ++second)
    co_await io::wait_for(std::chrono::seconds(1));
  co_return cancelled;
}

asio::awaitable<bool> Machine::leave_fleet(std::optional<std::uint32_t> needed) {
  if (!needed) {
    co_await notify("failed", "nothing succeeds on " + name() + ": it leaves the fleet");
  }
  const auto read = co_await await_fleet();
  const Fleet fleet = read ? read->fleet : Fleet{};
  if (!read) spdlog::error("cannot leave the fleet: {}", read.error().message);
  if (fleet.kind == FleetKind::None) co_return false;
  if (needed && read->target != 0 && read->target <= *needed) {
    // Another machine that left may have lowered the target, while too many instances still run.
    auto counting = cloud_->count_instances(fleet, kCall);
    if (co_await std::move(counting) <= *needed) co_return false;
    needed.reset();  // the target is as low as it may be
  }
  const decide::Happening answer =
      co_await cloud_->leave_fleet(fleet, identity_->instance, needed, kCall);
  const auto left = outcome(answer);
  if (!left) spdlog::error("cannot leave the fleet: {}", left.error().message);
  co_return left.has_value();
}

Result<std::string> member_here() {
  asio::io_context context(1);
  std::optional<decide::IdentityRead> identity;
  asio::co_spawn(context, ask(context, identity), io::rethrow);
  context.run();
  if (!identity)
    return failure(
        "the metadata service does not say which instance this is, after which a gang's member is "
        "named; on any other machine `spotter run --job job.yaml --gang NAME` joins the gang");
  return identity->instance.str();
}

}  // namespace spotter
