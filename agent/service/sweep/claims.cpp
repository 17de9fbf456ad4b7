#include "agent/service/sweep/claims.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <random>

#include "agent/io/kernel.hpp"

namespace spotter {
Time now() { return Time(io::boot_time()); }

sweep::ClaimSettings claim_settings(const config::Job& job, std::size_t count, std::string holder) {
  std::random_device random;
  sweep::ClaimSettings settings;
  settings.experiments = count;
  settings.holder = std::move(holder);
  for (int words = 0; words < 4; ++words) settings.nonce += std::to_string(random()) + ".";
  settings.seed = random();
  settings.lease = job.claims->lease;
  settings.margin = job.claims->lease / 2;
  // An agent tries twice on its machine (job/experiment.cpp).
  settings.most_failures =
      static_cast<std::uint32_t>((job.on_failure.attempts_without_progress + 1) / 2);
  return settings;
}

Claims::Claims(asio::io_context& context, const config::Job& job, sweep::Owner owner,
               Callbacks callbacks)
    : place_(wire::to_url(job.claims->at)),
      callbacks_(std::move(callbacks)),
      clerk_({.environment = act::Environment::of_this_process(), .patience = job.claims->lease},
             job.claims->at, std::move(owner)),
      readable_(context, ::dup(clerk_.descriptor())),
      timer_(context) {
  asio::co_spawn(context, read_answers(), asio::detached);
}

void Claims::begin(sweep::ClaimSettings settings) {
  left_ = false;
  claimant_.emplace(std::move(settings));
  deliver(sweep::Tick{});
}

asio::awaitable<void> Claims::read_answers() {
  for (;;) {
    co_await readable_.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
    while (const auto answer = clerk_.next_answer()) {
      report_trouble(*answer);
      deliver(answer->reply);
    }
  }
}

// Reading a claim shows nothing about write permission, so it does not clear the problem.
void Claims::report_trouble(const command::ClaimClerk::Outcome& outcome) {
  const auto& answer = outcome.reply.answer;
  if (outcome.trouble.empty() && std::holds_alternative<sweep::ReadAnswer>(answer)) return;
  if (outcome.trouble == trouble_) return;
  trouble_ = outcome.trouble;
  if (!trouble_.empty()) spdlog::warn("the claims in {}: {}", place_, trouble_);
  callbacks_.complain(trouble_);
  if (!outcome.foreign) return;
  foreign_ = left_ = true;
  timer_.cancel();
}

void Claims::deliver(const sweep::News& news) {
  if (left_) return;
  for (auto& order : claimant_->on(now(), news)) carry_out(std::move(order));
  set_timer();
}

void Claims::set_timer() {
  if (left_) return;
  // The timer's clock stops while the machine sleeps: looks again within a minute.
  const Time soon = now() + std::chrono::minutes(1);
  const Duration left = std::min(claimant_->wake_at(), soon) - now();
  timer_.expires_after(std::max(Duration(1), left));
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) deliver(sweep::Tick{});
  });
}

void Claims::carry_out(sweep::Order order) {
  if (auto* request = std::get_if<sweep::Request>(&order)) {
    const auto* pin = std::get_if<sweep::FindParent>(&request->ask);
    if (pin != nullptr) return callbacks_.find_parent(request->number, *pin);
    clerk_.send(std::move(*request));
  } else if (const auto* mark = std::get_if<sweep::Mark>(&order)) {
    clerk_.send(*mark);
  } else if (std::holds_alternative<sweep::Left>(order)) {
    left_ = true;
    timer_.cancel();
  } else if (const auto* complaint = std::get_if<sweep::Complaint>(&order)) {
    const std::string text =
        complaint->text + ", so it is left alone: delete that object to have it run";
    if (wrong_.insert(text).second) spdlog::error("{}", text);
    callbacks_.complain(text);
  } else {
    callbacks_.carry_out(std::move(order));
  }
}

void Claims::mark_ended(std::size_t index, std::string summary) {
  clerk_.send(command::ClaimClerk::Record{index, std::move(summary)});
}

}  // namespace spotter
