#include "agent/service/sweep/worker.hpp"

#include <spdlog/spdlog.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>

#include <iostream>

#include "agent/aws/formats/batch.hpp"
#include "agent/config/run.hpp"
#include "agent/decide/policy.hpp"
#include "agent/io/log.hpp"
#include "agent/service/act/local.hpp"
#include "agent/service/machine.hpp"
#include "agent/service/observe/status.hpp"
#include "agent/service/service.hpp"
#include "agent/service/sweep/claims.hpp"
#include "agent/service/sweep/experiments.hpp"
#include "agent/sweep/claim.hpp"
#include "agent/sweep/claimant.hpp"
#include "agent/sweep/summary.hpp"
#include "agent/wire/events.hpp"

namespace spotter {
namespace {

using spdlog::level::err;
using sweep::attempt_name;
using wire::event;

// A worker's operations on the storage for the job's experiments, each attempt in a folder of its
// own (host/attempt.hpp). With a volume for each experiment, or a home in a bucket, most do
// nothing: the agent that attaches or brings it finds all in it. Nothing here throws; failures have
// a message for a person.
class Attempts {
 public:
  // `sets`: of the job's sweep; empty without one.
  Attempts(const config::Job& job, const decide::Policy& policy, std::vector<sweep::Set> sets,
           const std::string& run_directory)
      : job_(job),
        policy_(policy),
        sets_(std::move(sets)),
        local_(job, command::own_program(), run_directory) {}

  std::size_t count() const { return job_.sweep ? sets_.size() : 1; }

  // "experiment 3 of 8", "the job"
  std::string name(std::size_t index) const {
    if (!job_.sweep) return "the job";
    return "experiment " + std::to_string(index) + " of " + std::to_string(sets_.size());
  }

  asio::awaitable<Result<void>> mount_storage() {
    if (!in_folders()) co_return Result<void>();
    const decide::Happening answer =
        co_await local_.on(decide::PrepareShare(), policy_.prepare_share);
    const auto* failed = std::get_if<decide::EffectFailed>(&answer);
    if (failed != nullptr) co_return failure(failed->detail.str());
    co_return Result<void>();
  }

  asio::awaitable<void> release_storage() {
    if (!in_folders()) co_return;
    co_await local_.on(decide::ReleaseShare(), policy_.release_share);
  }

  // The owner of this job's claims. REQUIRES: mount_storage() succeeded.
  sweep::Owner owner() const {
    const std::string storage = config::storage_name(job_);
    // With a volume for each experiment, no other job has the tag by which volumes are found; and a
    // bucket's prefix has one home of a name.
    return {in_folders() ? local_.home_id() : storage, storage};
  }

  asio::awaitable<Result<std::string>> find_parent(sweep::FindParent ask) {
    if (!in_folders()) co_return std::string();
    verbs::FindParent verb{home(ask.index), ask.token};
    co_return co_await local_.of_attempt(std::move(verb), policy_.look);
  }

  asio::awaitable<Result<std::string>> begin(sweep::Begin begin) {
    if (!in_folders()) co_return std::string();
    verbs::BeginAttempt verb{home(begin.index), attempt_name(begin.token), begin.parent};
    co_return co_await local_.of_attempt(std::move(verb), policy_.verify);
  }

  // The experiment's agent has ended: before the next one takes the folder of its working copy
  // (Job::folder_in_turn()), what sum_up() is to say is read.
  asio::awaitable<void> end(sweep::Begin begun) {
    const auto home = home_in_bucket(begun.index);
    if (!home) co_return;
    auto asking =
        local_.of_attempt(verbs::SumUp{.path = job_.storage.mount() + "/" + job_.folder_in_turn(),
                                       .index = begun.index,
                                       .token = begun.token,
                                       .copy_of = *home},
                          policy_.ledger);
    const auto text = co_await std::move(asking);
    if (text) read_[begun.index] = {begun.token, *text};
  }

  asio::awaitable<Result<std::string>> publish(sweep::Published published) {
    if (!in_folders() || !published.done) co_return std::string();
    verbs::PublishAttempt verb{home(published.index), attempt_name(published.token)};
    co_return co_await local_.of_attempt(std::move(verb), policy_.ledger);
  }

  // The outcome, a sweep::Summary as JSON; empty: the storage does not have it.
  // A copy here may be old if the experiment was ended elsewhere.
  asio::awaitable<std::string> sum_up(sweep::Published published) {
    Result<std::string> text = std::string();
    if (const auto read = read_.extract(published.index);
        !read.empty() && read.mapped().token == published.token)
      text = std::move(read.mapped().text);
    if (in_folders()) {
      auto asking = local_.of_attempt(verbs::SumUp{.path = home(published.index),
                                                   .index = published.index,
                                                   .token = published.token,
                                                   .copy_of = {}},
                                      policy_.ledger);
      text = co_await std::move(asking);
    }
    auto summary = text ? sweep::parse_summary(*text) : tl::unexpected(text.error());
    const bool done = summary && summary->state == sweep::Summary::State::Done;
    if (!summary || (published.done && !done && !in_folders())) co_return "";
    // The copy is another's soon.
    if (!summary->model.empty() && !in_folders())
      if (const auto home = home_in_bucket(published.index)) summary->model = *home;
    if (published.index < sets_.size()) summary->parameters = sets_[published.index];
    if (!published.done) summary->state = sweep::Summary::State::Failed;
    co_return sweep::to_json(*summary);
  }

 private:
  bool in_folders() const { return job_.storage.share && !job_.storage.in_bucket(); }

  std::string home(std::size_t index) const {
    return job_.home() + (job_.sweep ? "/" + std::to_string(index) : "");
  }

  // The home in the bucket, as a URL; none: the storage is another one.
  std::optional<std::string> home_in_bucket(std::size_t index) const {
    auto home = job_.kept_at();
    if (!home) return std::nullopt;
    if (job_.sweep) home->key += std::to_string(index) + "/";
    return wire::to_url(*home);
  }

  const config::Job& job_;
  const decide::Policy& policy_;
  std::vector<sweep::Set> sets_;
  act::Local local_;
  struct Read {
    std::uint64_t token = 0;  // of the attempt
    std::string text;
  };
  std::map<std::size_t, Read> read_;  // by end(), and not asked for yet
};

constexpr int failures_of_a_machine = 3;

constexpr int most_idle_looks = 5;  // a lease apart: about as long as an unrenewed claim is valid

class Worker {
 public:
  Worker(asio::io_context& context, config::Job job, std::vector<sweep::Set> sets,
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

  int run() {
    if (!service_.take(run_directory_)) return 1;
    await_signal();
    service_.ready();
    asio::co_spawn(context_, run_sessions(), io::rethrow);
    context_.run();
    sd_notify(0, "STOPPING=1");
    return exit_status_;
  }

 private:
  static constexpr Duration between_tries{5'000};

  asio::awaitable<void> run_sessions() {
    say("looking around");
    co_await machine_.learn(policy_.identity_tries);
    auto watching = machine_.watch();
    asio::co_spawn(context_, std::move(watching), io::rethrow);
    co_await experiments_.clear();
    if (experiments_.is_stuck()) {
      co_await leave_unfit();
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
      auto near = co_await machine_.experiments_here(attempts_.count());
      if (leaving_ == Leaving::No) claim(std::move(near));  // else it has to leave by now
      while (!claims_->has_left() || publishing_ > 0 || experiments_.runs() || claims_->is_busy()) {
        co_await io::wait_for(std::chrono::milliseconds(500));
      }
      auto leaving = leave();
      good = !co_await std::move(leaving);
    }
    // Interrupted before it held anything; if the instance is spared, systemd starts us again.
    if (!claims_ && leaving_ == Leaving::Interrupted) exit_status_ = wire::interrupted_exit_code;
    co_await attempts_.release_storage();
    context_.stop();
  }

  using Try = std::function<asio::awaitable<Result<void>>()>;

  // Retries until it succeeds; false: this machine has to leave first.
  asio::awaitable<bool> retry_until_done(std::string trouble, Try attempt) {
    while (leaving_ == Leaving::No) {
      const auto done = co_await attempt();
      if (done) co_return true;
      say(trouble + ": " + done.error().message);
      co_await io::wait_for(between_tries);
    }
    co_return false;
  }

  asio::awaitable<void> retry_storage() {
    co_await io::wait_for(between_tries);
    auto bringing = attempts_.mount_storage();
    (void)co_await std::move(bringing);
  }

  void claim(std::vector<bool> near) {
    idle_looks_ = failures_ = 0;
    machine_.set_idle(false);
    auto settings = claim_settings(job_, attempts_.count(), machine_.name());
    settings.near = std::move(near);
    claims_->begin(std::move(settings));
  }

  void carry_out(const sweep::Order& order) {
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

  // Must not be called from within an order. A running trainer ends first (`at_once` asks it to),
  // then this goes on.
  void begin_leaving(bool at_once) {
    if (experiments_.is_at_work()) {
      if (at_once) experiments_.stop();
    } else if (claims_) {
      experiments_.withdraw();
      claims_->deliver(sweep::Leave{});
    } else {
      experiments_.hurry();  // it clears what an earlier worker left
    }
  }

  asio::awaitable<void> find_parent(std::uint64_t number, sweep::FindParent ask) {
    const auto parent = co_await attempts_.find_parent(ask);
    if (!parent) {
      spdlog::warn("{}", parent.error().message);
      co_await retry_storage();
    }
    sweep::Answer answer = sweep::NoAnswer{};
    if (parent) answer = sweep::Parent{*parent};
    claims_->deliver(sweep::Reply{number, std::move(answer)});
  }

  asio::awaitable<void> train(sweep::Begin begin, Experiments::Turn turn) {
    co_await run_turn(begin, turn);
    if (!experiments_.is_on(turn)) claims_->deliver(sweep::TrainerGone{begin.index, begin.token});
    if (!experiments_.is_stuck() || leaving_ != Leaving::No) co_return;
    leaving_ = Leaving::Broken;
    begin_leaving(false);
  }

  asio::awaitable<void> run_turn(sweep::Begin begin, Experiments::Turn turn) {
    say(attempts_.name(begin.index) + " is ours" +
        (begin.parent.empty() ? "" : ", and goes on where " + begin.parent + " was"));
    while (experiments_.is_on(turn)) {
      const auto begun = co_await attempts_.begin(begin);
      if (begun) break;
      say("cannot begin: " + begun.error().message);
      co_await retry_storage();
    }
    if (!experiments_.is_on(turn)) co_return;
    const int status = co_await experiments_.run(turn);
    co_await attempts_.end(begin);
    if (experiments_.is_on(turn)) ended(begin.index, status);
  }

  void ended(std::size_t index, int status) {
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

  asio::awaitable<void> publish(sweep::Published published) {
    if (co_await publish_result(published)) {
      auto summing = attempts_.sum_up(published);
      claims_->mark_ended(published.index, co_await std::move(summing));
      say(attempts_.name(published.index) +
          (published.done ? " is done" : " has failed too often"));
    }
    --publishing_;
  }

  // False: this machine has to leave, and another one publishes it.
  asio::awaitable<bool> publish_result(const sweep::Published& published) {
    for (;;) {
      const auto done = co_await attempts_.publish(published);
      if (done) co_return true;
      spdlog::error("{} is done, but its result cannot be published yet: {}",
                    attempts_.name(published.index), done.error().message);
      if (leaving_ == Leaving::Interrupted || leaving_ == Leaving::Asked) co_return false;
      co_await retry_storage();
    }
  }

  void idle(std::size_t unfinished) {
    if (leaving_ != Leaving::No) return;
    unfinished_ = unfinished;
    if (unfinished == 0) {
      leaving_ = Leaving::AllDone;
    } else if (++idle_looks_ < most_idle_looks) {
      if (idle_looks_ > 1) return;
      return say("nothing is free: others are at work on the last " + std::to_string(unfinished));
    } else {
      leaving_ = Leaving::NothingFree;
    }
    asio::post(context_, [this] { begin_leaving(false); });
  }

  // true: for good
  asio::awaitable<bool> leave() {
    const Leaving why = std::exchange(leaving_, Leaving::No);
    machine_.set_idle(true);
    if (claims_->are_foreign()) exit_status_ = 2;
    if (why == Leaving::Asked || claims_->are_foreign()) co_return true;
    if (why == Leaving::AllDone) {
      say("all " + std::to_string(attempts_.count()) + " have ended: the fleet is cancelled");
      auto cancelling = retry_until_done("everything has ended, but the fleet is not cancelled",
                                         [this] { return machine_.cancel_fleet(); });
      co_await std::move(cancelling);
      co_return true;
    }
    if (why == Leaving::NothingFree) {
      if (co_await leave_fleet(static_cast<std::uint32_t>(unfinished_))) co_return true;
      // In no fleet, or in one that needs it: waits until an experiment is given back.
    }
    if (why == Leaving::Broken) {
      co_await leave_unfit();
      co_return true;
    }
    Duration wait = why == Leaving::NothingFree ? job_.claims->lease : between_tries;
    if (why == Leaving::Interrupted) {
      say("releasing the work: the instance is about to end");
      wait = std::max(between_tries, deadline_ + policy_.spared_after - io::now());
    }
    for (const Time until = io::now() + wait; io::now() < until && leaving_ == Leaving::No;) {
      co_await io::wait_for(std::chrono::seconds(1));
    }
    co_return leaving_ == Leaving::Asked;
  }

  // false: it stays
  // Returns when the machine ends: if restarted before, it would claim what it cannot finish.
  asio::awaitable<bool> leave_fleet(std::optional<std::uint32_t> needed) {
    auto leaving = machine_.leave_fleet(needed);
    if (!co_await std::move(leaving)) co_return false;
    say("this machine leaves the fleet");
    while (leaving_ != Leaving::Asked) {
      co_await io::wait_for(std::chrono::seconds(1));
    }
    co_return true;
  }

  asio::awaitable<void> leave_unfit() {
    exit_status_ = 1;
    co_await leave_fleet(std::nullopt);
  }

  void noticed(const decide::Happening& what) {
    const auto* notice = std::get_if<decide::NoticeSeen>(&what);
    if (notice == nullptr || leaving_ == Leaving::Asked) return;
    leaving_ = Leaving::Interrupted;
    deadline_ = notice->deadline + notice->leeway;
    begin_leaving(false);  // a running trainer gets the notice, too
  }

  void await_signal() {
    signals_.async_wait([this](boost::system::error_code error, int) {
      if (error) return;
      say("asked to stop: releasing the work");
      leaving_ = Leaving::Asked;
      begin_leaving(true);
      await_signal();
    });
  }

  void say(const std::string& words) {
    if (words != words_) spdlog::info("{}", words);
    sd_notifyf(0, "STATUS=%s", words.c_str());
    words_ = words;
    show();
  }

  void show() const {
    write_worker_status(run_directory_ + "/status.json",
                        {job_.name.str(), words_, trouble_, experiments_.run_directory()});
  }

  asio::io_context& context_;
  config::Job job_;
  decide::Policy policy_;
  std::string run_directory_;
  Machine machine_;
  Attempts attempts_;
  Experiments experiments_;
  asio::signal_set signals_;
  Service service_;
  std::string words_, trouble_;  // for `spotter status`
  std::unique_ptr<Claims> claims_;
  int publishing_ = 0;  // experiments
  int idle_looks_ = 0;
  int failures_ = 0;  // consecutive ones on this machine
  // Why this machine releases what it holds, if it does.
  enum class Leaving : std::uint8_t { No, Again, Asked, Interrupted, NothingFree, AllDone, Broken };
  Leaving leaving_ = Leaving::No;
  std::size_t unfinished_ = 0;  // of NothingFree: running elsewhere
  Time deadline_{};             // of Interrupted
  int exit_status_ = 0;
};

}  // namespace

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
