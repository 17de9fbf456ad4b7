#include "agent/agent.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <random>

#include "agent/act/aws/aws_client.hpp"
#include "agent/act/performer.hpp"
#include "agent/command/follow.hpp"
#include "agent/command/run.hpp"
#include "agent/config/job.hpp"
#include "agent/decide/describe.hpp"
#include "agent/io/clock.hpp"
#include "agent/io/files.hpp"
#include "agent/io/log.hpp"
#include "agent/loop.hpp"
#include "agent/sense/link.hpp"
#include "agent/sense/notices.hpp"
#include "agent/sense/trainer_end.hpp"
#include "agent/settings.hpp"
#include "agent/share_watch.hpp"
#include "agent/status.hpp"
#include "agent/supervise/client.hpp"
#include "agent/wire/batch_values.hpp"

namespace spotter {
namespace {

Time now() { return Time(io::boot_time()); }

class Agent {
 public:
  // `once`: `spotter run`.
  Agent(asio::io_context& context, config::Job job, act::Environment environment, bool once)
      : context_(context),
        job_(std::move(job)),
        policy_(policy_of(job_, once)),
        environment_(std::move(environment)),
        run_directory_(once && environment_.get("SPOTTER_RUN").empty()
                           ? command::run_directory_of(job_)
                           : run_directory_of(environment_)),
        http_(context),
        imds_(http_, imds_settings()),
        notices_(imds_, {}, now, [this](decide::Happening what) { sensed(std::move(what)); }),
        link_(context, {[this](decide::Happening what) { sensed(std::move(what)); },
                        [this](const wire::TrainerMessage& message) { heard(message); },
                        !job_.checkpoints.files.empty()}),
        trainer_end_(
            context, run_directory_, [this] { return expectation(); },
            [this](decide::TrainerEnded ended) { trainer_ended(ended); }),
        status_(run_directory_ + "/status.json", job_.name.str()),
        signals_(context, SIGTERM, SIGINT),
        watchdog_(context) {}

  int run();

 private:
  sense::ImdsSettings imds_settings() const {
    sense::ImdsSettings settings;
    const std::string endpoint = environment_.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (!endpoint.empty()) settings.endpoint = endpoint;
    return settings;
  }
  std::string result_path() const {
    if (job_.trainer.result.empty()) return {};
    return job_.home() + "/" + job_.trainer.result;
  }
  // The trainer's last datagrams came before its end.
  supervise::Expectation expectation() {
    link_.drain();
    // A share's server may take its time to say what is there: asked for in trainer_ended().
    return {run_directory_, job_.storage.share ? std::string() : result_path(), said_finished_};
  }
  void trainer_ended(decide::TrainerEnded ended);
  asio::awaitable<void> confirm_result();
  int exit_status() const;
  void sensed(decide::Happening what) {
    if (loop_) loop_->deliver({now(), {}, std::move(what)});
  }
  void heard(const wire::TrainerMessage& message) {
    said_finished_ = said_finished_ || message.finished;
    if (message.of_guard && message.note) spdlog::warn("{}", *message.note);
    if (message.of_guard && message.checkpoint)
      spdlog::info("{} is durable", message.checkpoint->path);
    if (!message.of_guard) status_.observe(message);
    if (message.window_trained) {
      spdlog::info("the trainer went on for {:.1f} s after the notice", *message.window_trained);
    }
  }

  bool prepare();
  void compose_loop(Region region);
  void watch_share();
  asio::awaitable<void> live();
  void trace(const decide::Event& event, const decide::State& state, std::size_t before);
  void await_signal();
  void feed_watchdog(Duration every);

  asio::io_context& context_;
  config::Job job_;
  decide::Policy policy_;
  act::Environment environment_;
  std::string run_directory_;
  io::HttpClient http_;
  sense::ImdsClient imds_;
  sense::Notices notices_;
  sense::Link link_;
  sense::TrainerEnd trainer_end_;
  Status status_;
  asio::signal_set signals_;
  asio::steady_timer watchdog_;
  int lock_ = -1;  // held until the process ends
  bool said_finished_ = false;
  std::string said_;        // the last line of the journal about the stage
  int trainer_status_ = 1;  // of the last trainer that ended by itself

  std::unique_ptr<act::CredentialChain> credentials_;
  std::unique_ptr<act::AwsClient> aws_;
  std::unique_ptr<act::Cloud> cloud_;
  std::unique_ptr<act::Local> local_;
  std::unique_ptr<act::Trainer> trainer_;
  std::unique_ptr<act::Performer> performer_;
  std::unique_ptr<ShareWatch> share_watch_;
  std::unique_ptr<Loop> loop_;
};

bool Agent::prepare() {
  if (const auto made = io::make_directories(run_directory_, 0755); !made) {
    spdlog::error("cannot make {}: {}. Run as root, or set SPOTTER_RUN", run_directory_,
                  made.error().message());
    return false;
  }
  // A second agent would take the trainer's datagrams and unmount under the first.
  lock_ = ::open((run_directory_ + "/agent.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    spdlog::error("another agent is at work in {}: one instance runs one agent", run_directory_);
    return false;
  }
  if (const auto failed = link_.open(run_directory_ + "/trainer.sock", job_.trainer.user)) {
    spdlog::error("cannot listen on {}/trainer.sock: {}{}", run_directory_, failed.message(),
                  failed == std::errc::filename_too_long
                      ? "; a socket's path has at most 107 bytes: set SPOTTER_RUN to a shorter one"
                      : "");
    return false;
  }
  return true;
}

void Agent::trace(const decide::Event& event, const decide::State& state, std::size_t before) {
  const bool moved = state.stage.index() != before;
  if (const auto* notice = std::get_if<decide::NoticeSeen>(&event.what)) {
    const double left = std::chrono::duration<double>(notice->deadline - event.at).count();
    spdlog::warn("interruption notice: the instance ends in {:.1f} s", left);
  }
  if (std::holds_alternative<decide::NoticeWithdrawn>(event.what)) {
    spdlog::info("the interruption notice was withdrawn");
  }
  if (std::holds_alternative<decide::RebalanceRecommended>(event.what)) {
    spdlog::info("a rebalance recommendation: mostly they lead to nothing; training goes on");
  }
  if (const auto* resumed = std::get_if<decide::TrainerResumed>(&event.what)) {
    spdlog::info("the trainer goes on from step {}", resumed->step);
  }
  if (const auto* made = std::get_if<decide::CheckpointMade>(&event.what)) {
    spdlog::info("checkpoint of step {} is durable", made->step);
  }
  const std::string words = decide::describe(state, policy_);
  // The same look every second while something is awaited is nobody's news.
  if (!words.empty() && words != said_) {
    const bool blocked = std::holds_alternative<decide::Blocked>(state.stage);
    spdlog::log(blocked ? spdlog::level::err : spdlog::level::info, "{}", words);
    sd_notifyf(0, "STATUS=%s", words.c_str());
    said_ = words;
  }
  // What booting needed (XML of many volumes, a TLS handshake) is not needed again soon.
  if (moved && std::holds_alternative<decide::Training>(state.stage)) ::malloc_trim(0);
  status_.update(state, event.at, moved);
}

void Agent::compose_loop(Region region) {
  std::random_device random;
  act::AwsSettings settings;
  settings.environment = environment_;
  settings.region = region;
  settings.seed = random();
  settings.retry = act::retry_policy(environment_);
  credentials_ = std::make_unique<act::CredentialChain>(
      http_, environment_, [this]() -> asio::awaitable<Result<std::optional<wire::Credentials>>> {
        auto asking = imds_.role_credentials();
        auto answer = co_await std::move(asking);
        if (!answer) co_return failure(answer.error().message);
        co_return std::move(*answer);
      });
  aws_ = std::make_unique<act::AwsClient>(http_, *credentials_, std::move(settings));
  cloud_ = std::make_unique<act::Cloud>(*aws_, job_);
  local_ = std::make_unique<act::Local>(job_, own_program(), run_directory_);
  trainer_ =
      std::make_unique<act::Trainer>(job_, act::TrainerPaths{own_program(), run_directory_}, *aws_);

  act::Surroundings surroundings;
  surroundings.now = now;
  surroundings.deliver = [this](decide::Event event) { loop_->deliver(std::move(event)); };
  surroundings.read_identity = [this] { return notices_.read_identity(); };
  surroundings.watch_trainer = [this] {
    said_finished_ = false;
    trainer_end_.watch();
  };
  surroundings.exit = [this] { context_.stop(); };
  surroundings.run_directory = run_directory_;
  surroundings.result = result_path();
  performer_ = std::make_unique<act::Performer>(context_, *cloud_, *local_, *trainer_,
                                                std::move(surroundings));

  decide::State state;
  state.incarnation = random() | 1U;
  Loop::Hands hands;
  hands.now = now;
  hands.perform = [this](const decide::Effect& effect) { performer_->perform(effect); };
  hands.trace = [this](const decide::Event& event, const decide::State& after, std::size_t before) {
    trace(event, after, before);
  };
  loop_ = std::make_unique<Loop>(context_, std::move(state), policy_, std::move(hands));
  if (job_.storage.share) watch_share();
}

void Agent::watch_share() {
  ShareWatch::Hands hands;
  hands.wanted = [this] { return loop_->state().facts.mounted; };
  hands.hanging = [this](bool hanging) { local_->set_hanging(hanging); };
  hands.say = [this](std::string words) {
    sd_notifyf(0, "STATUS=%s", words.empty() ? said_.c_str() : words.c_str());
    status_.storage_says(std::move(words));
    status_.update(loop_->state(), now(), true);
  };
  share_watch_ = std::make_unique<ShareWatch>(context_, own_program(), job_.home(),
                                              policy_.place.str(), std::move(hands));
}

// The exit status and the result are looked at before anybody is told of the end.
void Agent::trainer_ended(decide::TrainerEnded ended) {
  const auto supervised = supervise::look(run_directory_);
  if (const auto* end = supervised ? std::get_if<supervise::Ended>(&*supervised) : nullptr) {
    trainer_status_ = end->exit_code.value_or(128 + end->signal.value_or(0));
  }
  const bool declared = job_.storage.share && !job_.trainer.result.empty();
  if (!ended.success || !declared) return sensed(ended);
  asio::co_spawn(context_, confirm_result(), [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  });
}

asio::awaitable<void> Agent::confirm_result() {
  auto asking = local_->is_there(result_path(), policy_.look);
  const bool there = co_await std::move(asking);
  if (!there) spdlog::error("the trainer ended well, but there is no {}", result_path());
  sensed(decide::TrainerEnded{there, false});
}

int Agent::exit_status() const {
  if (!policy_.once || !loop_) return policy_.once ? wire::interrupted_exit_code : 0;
  const decide::Facts& facts = loop_->state().facts;
  if (facts.done) return 0;
  if (facts.surrender == decide::Surrender::None) return wire::interrupted_exit_code;
  // Exit status 0 without the result is a failure all the same.
  const bool failed = facts.surrender == decide::Surrender::NoProgress;
  return failed && trainer_status_ != 0 ? trainer_status_ : 1;
}

// AWS calls need the region before anything else; only the metadata service knows it for sure. A
// share needs no AWS.
asio::awaitable<void> Agent::live() {
  Region region = act::configured_region(environment_);
  if (region.empty()) {
    asio::steady_timer timer(context_);
    for (std::uint32_t tries = 1;; ++tries) {
      auto asking = notices_.read_identity();
      const decide::Happening answer = co_await std::move(asking);
      if (const auto* identity = std::get_if<decide::IdentityRead>(&answer)) {
        region = identity->region;
        ::setenv("AWS_REGION", region.str().c_str(), 1);  // the trainer is told, too
        break;
      }
      if (job_.storage.share && (policy_.once || tries >= policy_.identity_tries)) break;
      timer.expires_after(std::chrono::seconds(1));
      co_await timer.async_wait(asio::use_awaitable);
    }
  }
  compose_loop(region);
  loop_->deliver({now(), {}, decide::Started{}});
  if (share_watch_) asio::co_spawn(context_, share_watch_->watch(), asio::detached);
  auto watching = notices_.watch();
  co_await std::move(watching);
}

void Agent::await_signal() {
  signals_.async_wait([this](boost::system::error_code error, int signal) {
    if (error) return;
    const bool release = signal == SIGINT || policy_.once || machine_is_stopping();
    if (!release || !loop_) {
      const bool trains = loop_ && loop_->state().facts.trainer_running;
      spdlog::info("the agent leaves{}",
                   trains ? "; the trainer goes on, and the next agent takes it over" : "");
      return context_.stop();
    }
    spdlog::info("asked to stop: letting go of the job");
    const Duration reserve = policy_.once ? Duration(0) : policy_.release_reserve;
    sensed(decide::StopRequested{now() + policy_.stop_grace + reserve});
    await_signal();
  });
}

void Agent::feed_watchdog(Duration every) {
  sd_notify(0, "WATCHDOG=1");
  watchdog_.expires_after(every);
  watchdog_.async_wait([this, every](boost::system::error_code error) {
    if (!error) feed_watchdog(every);
  });
}

int Agent::run() {
  if (!prepare()) return 1;
  // Beside the agent's own words, what the trainer prints is the program's output.
  std::optional<command::Follower> follower;
  if (policy_.once) follower.emplace(run_directory_ + "/trainer.log");
  await_signal();
  sd_notify(0, "READY=1");
  std::uint64_t microseconds = 0;
  if (sd_watchdog_enabled(0, &microseconds) > 0) {
    feed_watchdog(
        std::chrono::duration_cast<Duration>(std::chrono::microseconds(microseconds / 2)));
  }
  auto failed = [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  };
  asio::co_spawn(context_, live(), failed);
  context_.run();
  sd_notify(0, "STOPPING=1");
  return exit_status();
}

std::string of_sweep(const config::Job& job) {
  if (!job.experiment) return {};
  return ", experiment " + std::to_string(job.experiment->index) + ": " +
         sweep::to_json(job.experiment->set);
}

}  // namespace

int live(config::Checked<config::Job> job, const std::string& source, bool once) {
  if (!job) {
    std::cerr << config::describe(job.error(), source);
    return 2;
  }
  io::set_up_log();
  spdlog::info("spotter {} for the job {}{}", once ? "run" : "agent", job->name.view(),
               of_sweep(*job));
  asio::io_context context(1);
  auto agent =
      std::make_unique<Agent>(context, std::move(*job), act::Environment::of_this_process(), once);
  return agent->run();
}

}  // namespace spotter
