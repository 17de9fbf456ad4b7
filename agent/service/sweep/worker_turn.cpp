#include <spdlog/spdlog.h>
#include <sysexits.h>

#include "agent/aws/formats/batch.hpp"
#include "agent/io/log.hpp"
#include "agent/service/sweep/worker_parts.hpp"
#include "agent/wire/events.hpp"

namespace spotter {
namespace {

using spdlog::level::err;
constexpr int failures_of_a_machine = 3;

}  // namespace

using wire::event;

void Worker::claim(std::vector<bool> near) {
  idle_looks_ = failures_ = 0;
  machine_.set_idle(false);
  auto settings = claim_settings(job_, attempts_.count(), machine_.name());
  settings.near = std::move(near);
  claims_->begin(std::move(settings));
}

void Worker::carry_out(const sweep::Order& order) {
  if (const auto* begin = std::get_if<sweep::Begin>(&order)) {
    idle_looks_ = 0;
    const auto turn = experiments_.begin(begin->index, begin->token, begin->usable_until);
    asio::co_spawn(context_, train(*begin, turn), io::rethrow);
  } else if (const auto* extended = std::get_if<sweep::Extend>(&order)) {
    experiments_.extend(extended->usable_until);
  } else if (const auto* end = std::get_if<sweep::End>(&order)) {
    io::note(event("claim-lost"), err, "the claim is lost ({}): the trainer is killed", end->why);
    experiments_.end();
    if (leaving_ != Leaving::No)
      asio::post(context_, [this] { begin_leaving(false); });  // its end is no outcome
  } else if (const auto* published = std::get_if<sweep::Published>(&order)) {
    ++publishing_;
    asio::co_spawn(context_, publish(*published), io::rethrow);
  } else if (const auto* nothing = std::get_if<sweep::Idle>(&order)) {
    idle(nothing->unfinished);
  }
}

asio::awaitable<void> Worker::find_parent(std::uint64_t number, sweep::FindParent ask) {
  auto finding = attempts_.find_parent(ask);
  const auto parent = co_await std::move(finding);
  if (!parent) {
    spdlog::warn("{}", parent.error().message);
    auto retrying = retry_storage();
    co_await std::move(retrying);
  }
  sweep::Answer answer = sweep::NoAnswer{};
  if (parent) answer = sweep::Parent{*parent};
  claims_->deliver(sweep::Reply{number, std::move(answer)});
}

asio::awaitable<void> Worker::train(sweep::Begin begin, Experiments::Turn turn) {
  auto trying = run_turn(begin, turn);
  co_await std::move(trying);
  if (!experiments_.is_on(turn)) claims_->deliver(sweep::TrainerGone{begin.index, begin.token});
  if (!experiments_.is_stuck() || leaving_ != Leaving::No) co_return;
  leaving_ = Leaving::Broken;
  begin_leaving(false);
}

asio::awaitable<void> Worker::run_turn(sweep::Begin begin, Experiments::Turn turn) {
  say(attempts_.name(begin.index) + " is ours" +
      (begin.parent.empty() ? "" : ", and goes on where " + begin.parent + " was"));
  while (experiments_.is_on(turn)) {
    auto beginning = attempts_.begin(begin);
    const auto begun = co_await std::move(beginning);
    if (begun) break;
    say("cannot begin: " + begun.error().message);
    auto retrying = retry_storage();
    co_await std::move(retrying);
  }
  if (!experiments_.is_on(turn)) co_return;
  auto running = experiments_.run(turn);
  const int status = co_await std::move(running);
  auto ending = attempts_.end(begin);
  co_await std::move(ending);
  if (experiments_.is_on(turn)) ended(begin.index, status);
}

void Worker::ended(std::size_t index, int status) {
  if (status == 0) {
    failures_ = 0;
    claims_->deliver(sweep::TrainerDone{});
    if (leaving_ != Leaving::No) claims_->deliver(sweep::Leave{});
    return;
  }
  const bool interrupted = status == wire::interrupted_exit_code;
  const bool wrong = status == 2;
  const bool unable = status == EX_UNAVAILABLE;  // not the experiment's fault
  if (wrong) exit_status_ = 2;
  if (unable)
    io::note(event("machine-unfit"), err, "it cannot run here: {}", attempts_.name(index));
  if (!interrupted && !wrong && !unable) {
    io::note(event("experiment-failed"), err, "{} failed here (exit status {})",
             attempts_.name(index), status);
    claims_->deliver(sweep::TrainerFailed{false});
    if (++failures_ < failures_of_a_machine) return;
    io::note(event("machine-unfit"), err, "{} failures in a row: it claims no more", failures_);
  }
  if (leaving_ == Leaving::No)
    leaving_ = interrupted ? Leaving::Again : wrong ? Leaving::Asked : Leaving::Broken;
  claims_->deliver(sweep::Leave{});
}

// False: this machine has to leave, and another one publishes it.
asio::awaitable<bool> Worker::publish_result(const sweep::Published& published) {
  for (;;) {
    auto linking = attempts_.publish(published);
    const auto done = co_await std::move(linking);
    if (done) co_return true;
    spdlog::error("{} is done, but its result cannot be published yet: {}",
                  attempts_.name(published.index), done.error().message);
    if (leaving_ == Leaving::Interrupted || leaving_ == Leaving::Asked) co_return false;
    auto retrying = retry_storage();
    co_await std::move(retrying);
  }
}

asio::awaitable<void> Worker::publish(sweep::Published published) {
  auto publishing = publish_result(published);
  if (co_await std::move(publishing)) {
    auto summing = attempts_.sum_up(published);
    claims_->mark_ended(published.index, co_await std::move(summing));
    say(attempts_.name(published.index) + (published.done ? " is done" : " has failed too often"));
  }
  --publishing_;
}

}  // namespace spotter
