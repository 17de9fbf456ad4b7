#include "agent/service/sweep/worker.hpp"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <csignal>
#include <iostream>

#include "agent/io/log.hpp"
#include "agent/service/observe/status.hpp"
#include "agent/service/settings.hpp"
#include "agent/service/sweep/worker_parts.hpp"
#include "agent/supervise/here.hpp"
#include "agent/sweep/sweep_sets.hpp"
#include "agent/wire/events.hpp"

namespace spotter {

using wire::event;

Worker::Worker(asio::io_context& context, config::Job job, std::vector<sweep::Set> sets,
               const std::string& job_file)
    : context_(context),
      job_(std::move(job)),
      policy_(policy_of(job_, false)),
      run_directory_(command::run_directory_of(act::Environment::of_this_process())),
      machine_(context, job_, act::Environment::of_this_process(),
               [this](const decide::Happening& what) { noticed(what); }),
      attempts_(job_, policy_, std::move(sets), run_directory_),
      experiments_(context, job_file, run_directory_),
      signals_(context, SIGTERM, SIGINT),
      service_(context) {}

void Worker::say(const std::string& words) {
  if (words != words_) spdlog::info("{}", words);
  sd_notifyf(0, "STATUS=%s", words.c_str());
  words_ = words;
  show();
}

void Worker::show() const {
  write_worker_status(run_directory_ + "/status.json",
                      {job_.name.str(), words_, trouble_, experiments_.run_directory()});
}

asio::awaitable<void> Worker::pause(Duration duration) {
  asio::steady_timer timer(context_, duration);
  co_await timer.async_wait(asio::use_awaitable);
}

// Retries until it succeeds; false: this machine has to leave first.
asio::awaitable<bool> Worker::retry_until_done(std::string trouble, Try attempt) {
  while (leaving_ == Leaving::No) {
    auto trying = attempt();
    const auto done = co_await std::move(trying);
    if (done) co_return true;
    say(trouble + ": " + done.error().message);
    auto waiting = pause();
    co_await std::move(waiting);
  }
  co_return false;
}

asio::awaitable<void> Worker::retry_storage() {
  auto waiting = pause();
  co_await std::move(waiting);
  auto bringing = attempts_.mount_storage();
  (void)co_await std::move(bringing);
}

asio::awaitable<void> Worker::run_sessions() {
  say("looking around");
  auto learning = machine_.learn(policy_.identity_tries);
  co_await std::move(learning);
  auto watching = machine_.watch();
  asio::co_spawn(context_, std::move(watching), io::rethrow);
  auto clearing = experiments_.clear();
  co_await std::move(clearing);
  if (experiments_.is_stuck()) {
    auto leaving = leave_unfit();
    co_await std::move(leaving);
    co_return context_.stop();
  }
  auto bringing =
      retry_until_done("the storage is not there", [this] { return attempts_.mount_storage(); });
  const bool brought = co_await std::move(bringing);
  bool good = brought && leaving_ == Leaving::No;
  if (good) {
    claims_ = std::make_unique<Claims>(
        context_, job_, attempts_.owner(),
        Claims::Callbacks{[this](const sweep::Order& order) { carry_out(order); },
                          [this](std::uint64_t number, const sweep::FindParent& ask) {
                            asio::co_spawn(context_, find_parent(number, ask), io::rethrow);
                          },
                          [this](const std::string& trouble) {
                            trouble_ = trouble;
                            show();
                          }});
  }
  while (good) {
    auto looking = machine_.experiments_here(attempts_.count());
    auto near = co_await std::move(looking);
    if (leaving_ == Leaving::No) claim(std::move(near));  // else it has to leave by now
    while (!claims_->has_left() || publishing_ > 0 || experiments_.runs() || claims_->is_busy()) {
      auto waiting = pause(std::chrono::milliseconds(500));
      co_await std::move(waiting);
    }
    auto leaving = leave();
    good = !co_await std::move(leaving);
  }
  // Interrupted before it held anything; if the instance is spared, systemd starts us again.
  if (!claims_ && leaving_ == Leaving::Interrupted) exit_status_ = wire::interrupted_exit_code;
  auto releasing = attempts_.release_storage();
  co_await std::move(releasing);
  context_.stop();
}

int Worker::run() {
  if (!service_.take(run_directory_)) return 1;
  await_signal();
  service_.ready();
  asio::co_spawn(context_, run_sessions(), io::rethrow);
  context_.run();
  sd_notify(0, "STOPPING=1");
  return exit_status_;
}

int work(config::Job job, const std::string& job_file) {
  auto sets =
      job.sweep ? command::sets_of(job) : Result<std::vector<sweep::Set>, config::Problem>();
  if (!sets) {
    std::cerr << config::describe({sets.error()}, job_file);
    return sets.error().passing ? wire::interrupted_exit_code : 2;
  }
  io::set_up_log();
  io::set_log_field("SPOTTER_JOB", job.name.view());
  io::note(event("agent-started"), spdlog::level::info,
           "spotter agent for the job {}, claims in {}", job.name.view(),
           wire::to_url(job.claims->at));
  asio::io_context context(1);
  auto worker = std::make_unique<Worker>(context, std::move(job), std::move(*sets), job_file);
  return worker->run();
}

}  // namespace spotter
