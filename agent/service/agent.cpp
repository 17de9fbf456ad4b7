#include "agent/service/agent.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <random>
#include <thread>

#include "agent/aws/aws_calls.hpp"
#include "agent/aws/formats/batch.hpp"
#include "agent/config/run.hpp"
#include "agent/decide/step.hpp"
#include "agent/io/asio.hpp"
#include "agent/io/child.hpp"
#include "agent/io/files.hpp"
#include "agent/io/kernel.hpp"
#include "agent/io/log.hpp"
#include "agent/service/act/performer.hpp"
#include "agent/service/early_stop.hpp"
#include "agent/service/ending.hpp"
#include "agent/service/observe/observers.hpp"
#include "agent/service/sense/notices.hpp"
#include "agent/service/sense/stall.hpp"
#include "agent/service/sense/trainer.hpp"
#include "agent/service/service.hpp"
#include "agent/supervise/client.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/supervise/sidecar.hpp"
#include "agent/wire/events.hpp"

namespace spotter {
namespace {

using io::now;

using namespace std::chrono_literals;

volatile std::sig_atomic_t end_requested = 0;

// False: the output has no reader any more.
bool print_new(const std::string& path, off_t& at) {
  const io::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return true;
  struct stat status {};
  if (::fstat(file.get(), &status) == 0 && status.st_size < at) at = 0;
  for (;;) {
    std::string bytes = io::read_at(file.get(), static_cast<std::uint64_t>(at), 65536);
    if (bytes.empty()) return true;
    at += static_cast<off_t>(bytes.size());
    std::erase(bytes, '\0');  // parts that were moved to the storage meanwhile: host/share.hpp
    if (!io::write_all(STDOUT_FILENO, bytes)) return false;
  }
}

[[noreturn]] void follow(const std::string& path, off_t at) {
  for (;;) {
    const bool last = end_requested != 0;
    if (!print_new(path, at) || last) std::_Exit(0);
    std::this_thread::sleep_for(50ms);
  }
}

// Prints a growing file: the trainer's log, while `spotter run` is in the foreground.
//
// A child process that prints the content of `path` and what is appended, until it is asked to end;
// then the rest. Reads a truncated file from its beginning. Dies with this process.
class Follower : Pinned {
 public:
  // Skips what an earlier run wrote, which that run printed.
  explicit Follower(const std::string& path) {
    struct stat status {};
    const off_t begin = ::stat(path.c_str(), &status) == 0 ? status.st_size : 0;
    const pid_t parent = ::getpid();
    process_ = io::fork_child([&] {
      // The terminal sends these to all of us: the agent ends this process.
      for (const int each : {SIGINT, SIGHUP}) ::signal(each, SIG_IGN);
      ::signal(SIGTERM, [](int) { end_requested = 1; });
      if (io::die_with(parent, SIGTERM)) follow(path, begin);
      return 0;
    });
  }

  // Waits until it has printed the rest, two seconds at most.
  ~Follower() {
    if (process_ <= 0) return;
    ::kill(process_, SIGTERM);
    for (int i = 0; i < 200; ++i) {
      if (::waitpid(process_, nullptr, WNOHANG) != 0) return;
      std::this_thread::sleep_for(10ms);
    }
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

 private:
  int process_ = -1;
};

// `spotter run`, and a worker's experiment.
bool runs_a_program(const decide::Policy& policy) { return policy.foreground && !policy.fills; }

class Agent {
 public:
  Agent(asio::io_context& context, config::Job job, act::Environment environment,
        const decide::Policy& policy)
      : context_(context),
        job_(std::move(job)),
        policy_(policy),
        environment_(std::move(environment)),
        run_directory_(runs_a_program(policy) && environment_.get("SPOTTER_RUN").empty()
                           ? command::run_directory_of(job_)
                           : command::run_directory_of(environment_)),
        http_(context),
        imds_(http_, command::imds_settings(environment_)),
        notices_(imds_,
                 {.expected = !policy.foreground,
                  .asked = !policy.foreground ||
                           !act::is_set(environment_, "AWS_EC2_METADATA_DISABLED")},
                 now, [this](decide::Happening what) { sensed(std::move(what)); }),
        link_(context, {[this](decide::Happening what) { sensed(std::move(what)); },
                        [this](const wire::TrainerMessage& message) { on_message(message); },
                        !job_.checkpoints.has_patterns(), !job_.gang, job_.gang.has_value(),
                        [this](pid_t pid) { return supervise::is_sidecar(run_directory_, pid); },
                        [this](const wire::GangReport& gang) { observers_.on_gang(gang, now()); }}),
        trainer_end_(
            context, run_directory_, runs_a_program(policy_), [this] { return expectation(); },
            [this](decide::TrainerEnded ended) { trainer_ended(ended); }),
        stall_(context, job_.gang ? Duration(0) : job_.on_failure.stall,  // a gang looks itself
               {run_directory_, act::log_file_of(job_, run_directory_), job_.trainer.gpus != 0,
                [this] { return reported_; }, [this] { sensed(decide::TrainerHung{}); }}),
        observers_(context, job_, policy_, run_directory_,
                   {[this] { return state_ ? &*state_ : nullptr; },
                    [this] { return aws_ ? &aws_->tallies() : nullptr; }}),
        early_stop_(context, job_, [this](decide::RuledOut why) { sensed(why); }),
        signals_(context, SIGTERM, SIGINT),
        service_(context),
        machines_end_(context),
        timer_(context) {
    // Sent when the terminal closes; nohup(1) has it ignored.
    struct sigaction before {};
    ::sigaction(SIGHUP, nullptr, &before);
    if (policy_.foreground && before.sa_handler != SIG_IGN) signals_.add(SIGHUP);
  }

  int run() {
    if (!prepare()) return end_.of_worker ? EX_UNAVAILABLE : 1;
    // The trainer's output is this program's output, beside the agent's log.
    std::optional<Follower> follower;
    if (runs_a_program(policy_) && job_.attempt.empty())
      follower.emplace(run_directory_ + "/trainer.log");
    await_signal();
    service_.ready();
    asio::co_spawn(context_, run_session(), io::rethrow);
    context_.run();
    sd_notify(0, "STOPPING=1");
    if (state_) observers_.on_end(*state_, for_last_words(facts(), now()));
    follower.reset();  // prints the rest of the trainer's output
    const int status = exit_status(policy_, facts(), end_);
    const bool failed = status != 0 && status != wire::interrupted_exit_code;
    io::note(wire::event("agent-left"), failed ? spdlog::level::err : spdlog::level::info, "{}",
             last_words(policy_, facts(), end_));
    remove_run_directory();
    return status;
  }

 private:
  // Before there is a state, only a signal ends the agent.
  decide::Facts facts() const {
    return state_ ? state_->facts : decide::Facts{.exit = {.leave = true}};
  }
  std::string result_path() const {
    return job_.trainer.result.empty() ? "" : job_.trainers_home() + "/" + job_.trainer.result;
  }
  // Takes the trainer's last datagrams, sent before its end, first.
  supervise::Expectation expectation() {
    link_.drain();
    // On a share looking for the result may hang: trainer_ended() checks it instead.
    return {run_directory_,        job_.storage.share ? "" : result_path(),
            said_finished_,        job_.name.str(),
            job_.gang.has_value(), !job_.trainer.stop_signal,
            !job_.setup.empty()};
  }

  // Reads exit status and result before the end is reported to anybody.
  void trainer_ended(decide::TrainerEnded ended) {
    stall_.rest();
    const auto supervised = supervise::look(run_directory_);
    const bool known = supervised && supervised->ended;
    end_.exit_code = known ? supervised->ended->exit_code : std::nullopt;
    end_.signal = known ? supervised->ended->signal : std::nullopt;
    if (!ended.success || result_path().empty()) return sensed(ended);
    asio::co_spawn(context_, confirm_result(), io::rethrow);
  }

  // Until the result is confirmed, the trainer is neither started again nor counted as done. If the
  // machine has to be left meanwhile, the next one starts the trainer, which ends at once.
  asio::awaitable<void> confirm_result() {
    for (;;) {
      const auto there = co_await local_->is_there(result_path(), policy_.look);
      if (there && !*there) spdlog::error("the trainer ended well without {}", result_path());
      const bool leaves = std::holds_alternative<decide::Stopping>(state_->stage);
      if (there || leaves) co_return sensed(decide::TrainerEnded{there.value_or(false), !there});
    }
  }

  void sensed(decide::Happening what) {
    if (waits_for_machines_end_ && std::holds_alternative<decide::NoticeWithdrawn>(what))
      return context_.stop();
    if (state_) deliver({now(), {}, std::move(what)});
  }
  void on_message(const wire::TrainerMessage& message) {
    ++reported_;
    said_finished_ = said_finished_ || message.finished;
    const bool reports = message.checkpoint && !message.of_guard;
    if (reports && !std::exchange(reports_, true))
      (void)io::replace_file(run_directory_ + "/" + supervise::reports_name, "\n",
                             supervise::private_mode);
    observers_.on_message(message, now());
    early_stop_.on_message(message);
    if (!message.of_guard) metrics_.on_message(message, std::chrono::system_clock::now());
  }

  bool prepare() {
    if (!service_.take(run_directory_)) return false;
    if (const auto failed = link_.open(run_directory_ + "/trainer.sock", job_.trainer.user)) {
      spdlog::error(
          "cannot listen on {}/trainer.sock: {}{}", run_directory_, failed.message(),
          failed == std::errc::filename_too_long
              ? "; a socket's path has at most 107 bytes: set SPOTTER_RUN to a shorter one"
              : "");
      return false;
    }
    return true;
  }

  void compose(Region region) {
    aws_ = std::make_unique<act::AwsClient>(http_, command::aws_settings(environment_, region));
    cloud_ = std::make_unique<act::Cloud>(*aws_, job_);
    reservation_ = std::make_unique<sense::Reservation>(
        *aws_,
        sense::Reservation::Parts{now, [this] { return facts().identity.instance; },
                                  [this](decide::Happening what) { sensed(std::move(what)); },
                                  [this](std::string words) {
                                    observers_.says("capacity_says", std::move(words), now());
                                  },
                                  job_.launch && job_.launch->reservation});
    local_ = std::make_unique<act::Local>(job_, command::own_program(), run_directory_);
    local_->refuse = [this](std::string why) { refuse(std::move(why)); };
    warming_ = std::make_unique<act::Warming>(
        context_, *local_, [this](act::Local::Warmth is) { observers_.volume_warms(is, now()); });
    keys_ = std::make_unique<act::TrainerKeys>(
        act::TrainerKeys::Parts{context_, job_, run_directory_, *aws_,
                                [this] { return !state_->facts.identity.instance.empty(); }});
    keys_->resume();
    observers_.reach_aws(context_, http_, *aws_, *cloud_, job_);
    data_ = std::make_unique<act::DataVolumes>(*aws_, *local_, job_, policy_);
    trainer_ =
        std::make_unique<act::Trainer>(job_,
                                       act::TrainerPaths{command::own_program(), run_directory_,
                                                         environment_.get("SPOTTER_LEASE")},
                                       *aws_, *keys_);

    act::Dependencies dependencies;
    dependencies.deliver = [this](decide::Event event) { deliver(std::move(event)); };
    dependencies.read_identity = [this] { return read_identity(); };
    dependencies.watch_trainer = [this] {
      said_finished_ = false;
      trainer_end_.watch();
      stall_.watch();
    };
    dependencies.gave_up = [this] {
      return state_->facts.exit.surrender != decide::Surrender::None;
    };
    dependencies.exit = [this] { leave(); };
    dependencies.power_off = power_off_machine;
    dependencies.history = [this] { return observers_.history().file().news(); };
    dependencies.history_kept = [this](auto bytes) { observers_.history().file().kept(bytes); };
    dependencies.run_directory = run_directory_;
    dependencies.result = result_path();
    dependencies.job = &job_;
    performer_ = std::make_unique<act::Performer>(context_, *cloud_, *local_, *data_, *trainer_,
                                                  metrics_, std::move(dependencies));
    state_.emplace().incarnation = std::random_device()() | 1U;
    if (!job_.storage.share) return;
    share_watch_ = std::make_unique<act::ShareWatch>(
        context_, *local_, [this] { return state_->facts.holding.mounted; },
        [this](std::string words) { observers_.says("storage_says", std::move(words), now()); });
  }

  // Takes events one at a time, as perform() may deliver, too: one thread, one queue.
  void deliver(decide::Event event) {
    queue_.push_back(std::move(event));
    if (busy_) return;
    busy_ = true;
    for (; !queue_.empty(); queue_.pop_front()) take(queue_.front());
    busy_ = false;
    set_timer();
  }

  void take(const decide::Event& event) {
    const std::size_t before = state_->stage.index();
    decide::step(*state_, event, policy_, effects_);
    if (const char* words = decide::broken_invariant(*state_)) {
      io::note(wire::event("invariant-broken"), spdlog::level::critical,
               "broken invariant: {}. The agent stops and is started again", words);
      std::abort();
    }
    for (const decide::Effect& effect : effects_) {
      observers_.on_effect(effect);
      performer_->perform(effect);
    }
    trace(event, *state_, before);
  }

  // Asio's timer uses the monotonic clock, which stops while the machine is suspended. Any event
  // that wakes the agent reads `now` again, so a deadline is late at most by the step after the
  // resume.
  void set_timer() {
    if (state_->wake_at == timer_at_) return;
    timer_at_ = state_->wake_at;
    if (timer_at_ == decide::kNever) {
      timer_.cancel();
      return;
    }
    timer_.expires_after(std::max(timer_at_ - now(), Duration::zero()));
    timer_.async_wait([this](boost::system::error_code error) {
      if (error) return;
      timer_at_ = decide::kNever;
      deliver({now(), {}, decide::Woke{}});
    });
  }

  // AWS calls need the region, which the metadata service knows for certain; a share makes none.
  asio::awaitable<void> run_session() {
    Region region = act::configured_region(environment_);
    if (region.empty()) {
      for (std::uint32_t tries = 1;; ++tries) {
        auto asking = read_identity();
        const decide::Happening answer = co_await std::move(asking);
        if (const auto* identity = std::get_if<decide::IdentityRead>(&answer)) {
          region = identity->region;
          ::setenv("AWS_REGION", region.str().c_str(), 1);  // for the trainer, too
          break;
        }
        if (job_.storage.share && (policy_.foreground || tries >= policy_.identity_tries)) break;
        if (tries == 1)
          spdlog::warn(
              "the metadata service does not say which instance this is; asking it every "
              "second, and nothing is begun before it answers");
        co_await io::wait_for(std::chrono::seconds(1));
      }
    }
    compose(region);
    deliver({now(), {}, decide::Started{}});
    if (share_watch_) asio::co_spawn(context_, share_watch_->watch(), asio::detached);
    // An experiment's trainer is asked by this agent, and not by the worker that started it.
    if (!policy_.foreground || job_.experiment)
      asio::co_spawn(context_, reservation_->watch(), io::rethrow);
    co_await notices_.watch();
  }

  void trace(const decide::Event& event, const decide::State& state, std::size_t before) {
    observers_.on_event(event, state, before);
    end_.on_stage(state.stage);
    const bool trains = std::holds_alternative<decide::Training>(state.stage);
    const VolumeId& volume = state.facts.holding.volume;
    warming_->follow(trains, trains && cloud_->is_cold(volume) ? volume : VolumeId());
    if (state.stage.index() == before) return;
    // Booting needs much memory (XML of many volumes, a TLS handshake), training little.
    if (trains || std::holds_alternative<decide::Blocked>(state.stage)) io::return_free_memory();
    // The user data has usually ended by now. Only root may read its output; on a share all users
    // of the server might.
    if (trains && !policy_.foreground && !job_.storage.share)
      Journal::remember_boot("/var/log/cloud-init-output.log", run_directory_);
  }

  asio::awaitable<decide::Happening> read_identity() {
    auto asking = notices_.read_identity();
    decide::Happening answer = co_await std::move(asking);
    if (const auto launched = notices_.launched())
      observers_.history().on_launched(
          std::chrono::duration<double>(launched->time_since_epoch()).count());
    co_return answer;
  }

  void await_signal() {
    signals_.async_wait([this](boost::system::error_code error, int signal) {
      if (error) return;
      if (waits_for_machines_end_) return context_.stop();
      const bool release = signal == SIGINT || policy_.foreground || machine_is_stopping();
      if (!release || !state_) return end();
      const Time until = leave_until(signal);
      if (signal != SIGINT && !policy_.foreground) leave_with_the_machine(until);
      sensed(decide::StopRequested{until});
      await_signal();
    });
  }

  // Three times Ctrl-C: whoever presses it waits for nothing any more.
  Time leave_until(int signal) {
    constexpr int hurries = 3;
    if (policy_.foreground && signal == SIGINT && ++interrupts_ >= hurries) {
      spdlog::warn("asked to stop at once: no checkpoint is waited for");
      return now();
    }
    const int left = hurries - interrupts_;
    if (interrupts_ == 0)
      spdlog::info("asked to stop: releasing the job");
    else
      spdlog::info(
          "asked to stop: releasing the job, {} s at most. Ctrl-C {} stops at once, without "
          "a checkpoint",
          policy_.stop_grace.count() / 1000, left == 1 ? "once more" : "twice more");
    return now() + policy_.stop_grace +
           (policy_.foreground ? Duration(0) : policy_.release_reserve);
  }

  // Releases what is in use, as for any stop.
  void refuse(std::string why) {
    end_.refused = std::move(why);
    sensed(decide::StopRequested{now() + policy_.stop_grace});  // what runs here may be another's
  }

  // Removes that of `spotter run` when nothing of the job is left here for the next run.
  void remove_run_directory() {
    const bool own = runs_a_program(policy_) && environment_.get("SPOTTER_RUN").empty();
    std::error_code error;
    if (own && !facts().trainer.running && !facts().holding.mounted)
      fs::remove_all(run_directory_, error);
  }

  // systemd waits as long as a checkpoint may take, and until what is mounted is released. The
  // machine ends with all that is attached: retrying a call that AWS does not answer would only
  // delay that.
  void leave_with_the_machine(Time until) {
    constexpr std::chrono::seconds every(1);
    constexpr std::uint64_t microseconds = 30'000'000;
    const decide::Facts& facts = state_->facts;
    const bool holds = facts.holding.mounted || facts.trainer.running;
    const Time limit =
        holds ? until + policy_.unmount : std::min(until, now() + policy_.release_reserve);
    machine_waits_until_ = holds ? limit : std::min(machine_waits_until_, limit);
    if (now() >= machine_waits_until_) {
      spdlog::warn("the time for releasing the job is over: the machine stops");
      return context_.stop();
    }
    sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu", static_cast<unsigned long long>(microseconds));
    machines_end_.expires_after(every);
    machines_end_.async_wait([this, until](boost::system::error_code error) {
      if (!error) leave_with_the_machine(until);
    });
  }

  // AWS Batch may not know of the notice (ECS drains such a host only where that is enabled), and
  // then starts the next attempt on this same machine, which ends at once, until no attempt is
  // left. So the first attempt that has nothing left to do stays until the machine ends.
  void leave() {
    const bool of_batch = policy_.foreground && !environment_.get("AWS_BATCH_JOB_ID").empty();
    if (!of_batch || !was_interrupted_idle(facts())) return end();
    spdlog::info("nothing was begun; waiting for the machine's end, not to be started here again");
    waits_for_machines_end_ = true;
    machines_end_.expires_after(std::max(Duration(0), facts().exit.notice->deadline - now()));
    machines_end_.async_wait([this](boost::system::error_code) { context_.stop(); });
  }

  // Ends once all observers have finished.
  void end() {
    const Duration rest = for_last_words(facts(), now());
    asio::co_spawn(context_, observers_.finish(rest), [this](std::exception_ptr error) {
      if (error) std::rethrow_exception(error);
      context_.stop();
    });
  }

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
  std::uint64_t reported_ = 0;  // messages
  sense::StallWatch stall_;
  Observers observers_;
  EarlyStop early_stop_;
  act::Metrics metrics_;
  asio::signal_set signals_;
  Service service_;
  asio::steady_timer machines_end_;
  bool waits_for_machines_end_ = false;
  Time machine_waits_until_ = Time::max();
  bool reports_ = false;  // its checkpoints, itself
  bool said_finished_ = false;
  int interrupts_ = 0;  // Ctrl-C
  SessionsEnd end_{.of_worker = !job_.attempt.empty()};

  std::unique_ptr<act::AwsClient> aws_;
  std::unique_ptr<act::Cloud> cloud_;
  std::unique_ptr<sense::Reservation> reservation_;
  std::unique_ptr<act::Local> local_;
  std::unique_ptr<act::Warming> warming_;
  std::unique_ptr<act::TrainerKeys> keys_;
  std::unique_ptr<act::DataVolumes> data_;
  std::unique_ptr<act::Trainer> trainer_;
  std::unique_ptr<act::Performer> performer_;
  std::unique_ptr<act::ShareWatch> share_watch_;

  std::optional<decide::State> state_;
  decide::Effects effects_;
  std::deque<decide::Event> queue_;
  bool busy_ = false;
  asio::steady_timer timer_;
  Time timer_at_ = decide::kNever;
};

int run_sessions(config::Job&& job, const decide::Policy& policy) {
  asio::io_context context(1);
  const auto environment = act::Environment::of_this_process();
  return std::make_unique<Agent>(context, std::move(job), environment, policy)->run();
}

}  // namespace

int run_agent(Result<config::Job, std::vector<config::Problem>> job, const std::string& source,
              bool once) {
  if (!job) {
    std::cerr << config::describe(job.error(), source);
    const bool passing = std::ranges::all_of(job.error(), &config::Problem::passing);
    return passing ? wire::interrupted_exit_code : 2;
  }
  io::set_up_log();
  const bool by_person = once && job->attempt.empty();
  io::set_log_field("SPOTTER_JOB", job->name.view());
  if (job->experiment)
    io::set_log_field("SPOTTER_EXPERIMENT", std::to_string(job->experiment->index));
  io::note(wire::event("agent-started"), spdlog::level::info, "spotter {} for the job {}{}",
           by_person ? "run" : "agent", job->name.view(), of_sweep(*job));
  return run_sessions(std::move(*job), policy_of(*job, once));
}

int fill(config::Job job) {
  io::set_up_log();
  io::set_log_field("SPOTTER_JOB", job.name.view());
  const decide::Policy policy = policy_to_fill(job);
  // Only the caller of `spotter prepare` is informed.
  job.publish.reset();
  job.notify = {};
  job.prometheus = {};
  job.deadline = {};
  return run_sessions(std::move(job), policy);
}

}  // namespace spotter
