#include "agent/service/act/performer.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "agent/decide/describe.hpp"
#include "agent/io/log.hpp"
#include "agent/wire/events.hpp"

namespace spotter::act {
namespace {

using namespace decide;  // the commands' names; act's own classes are Cloud, Local, Trainer

EffectFailed given_up() { return {Failure::Abandoned, true, "given up"}; }

void log_failure(const Command& command, const EffectFailed& failed) {
  const bool expected = failed.detail.view().empty();  // `spotter run` need be on no instance
  if (failed.failure == Failure::Abandoned || expected) return;
  io::note(wire::event("call-failed"), spdlog::level::warn, "{} failed: {}{}", name(command),
           failed.detail.view(),
           failed.unsettled ? " (it may have been carried out all the same)" : "");
}

}  // namespace

Performer::Performer(asio::io_context& context, Cloud& cloud, Local& local, DataVolumes& data,
                     Trainer& trainer, Metrics& metrics, Dependencies dependencies)
    : context_(context),
      cloud_(cloud),
      local_(local),
      data_(data),
      trainer_(trainer),
      metrics_(metrics),
      home_(trainer.home(local)),
      dependencies_(std::move(dependencies)) {}

void Performer::queue(Task task) {
  if (local_busy_) {
    waiting_local_.push_back(std::move(task));
    return;
  }
  local_busy_ = true;
  start(std::move(task));
}

void Performer::start(Task task) {
  auto signal = std::make_shared<asio::cancellation_signal>();
  running_[task.effect.id.number] = signal;
  auto body = [](Performer* self, Task asked) -> asio::awaitable<void> {
    // An effect is answered however its work ends; an exception here is the work's cancellation.
    Happening what = given_up();
    const Duration left = asked.effect.deadline - io::now();
    try {
      what = co_await asked.work(std::max(left, Duration(1)));
    } catch (const boost::system::system_error&) {
      what = given_up();
    }
    if (const auto* failed = std::get_if<EffectFailed>(&what))
      log_failure(asked.effect.what, *failed);
    self->running_.erase(asked.effect.id.number);
    if (asked.local) self->finish_local();
    self->answer(asked.effect.id, std::move(what));
  };
  asio::co_spawn(context_, body(this, std::move(task)),
                 asio::bind_cancellation_slot(signal->slot(), [signal](std::exception_ptr error) {
                   if (error) std::rethrow_exception(error);
                 }));
}

void Performer::finish_local() {
  local_busy_ = false;
  if (waiting_local_.empty()) return;
  Task next = std::move(waiting_local_.front());
  waiting_local_.pop_front();
  local_busy_ = true;
  start(std::move(next));
}

void Performer::abandon(EffectId id) {
  const auto found = running_.find(id.number);
  if (found != running_.end()) {
    data_.abandon();
    asio::co_spawn(context_, end(id.number), asio::detached);
    return;
  }
  const auto queued = std::find_if(waiting_local_.begin(), waiting_local_.end(),
                                   [&](const Task& task) { return task.effect.id == id; });
  if (queued == waiting_local_.end()) return;
  waiting_local_.erase(queued);
  answer(id, given_up());
}

// Between two child processes nothing is reached by a cancellation (io::run() leaves it off): it is
// repeated until the work has ended.
asio::awaitable<void> Performer::end(std::uint32_t number) {
  for (auto found = running_.find(number); found != running_.end(); found = running_.find(number)) {
    found->second->emit(asio::cancellation_type::all);
    co_await io::wait_for(std::chrono::milliseconds(100));
  }
}

void Performer::answer(EffectId id, Happening what) {
  const auto* identity = std::get_if<IdentityRead>(&what);
  if (home_ && identity != nullptr) home_->is_instance(identity->instance);
  dependencies_.deliver({io::now(), id, std::move(what)});
}

// The terms for judging an end of a trainer that no agent has seen.
supervise::Expectation Performer::expectation(std::string result) const {
  const config::Job& job = *dependencies_.job;
  return {dependencies_.run_directory, std::move(result),       false, job.name.str(),
          job.gang.has_value(),        !job.trainer.stop_signal};
}

// Before the sync, not after it: an agent that is killed during the sync, or after one that failed,
// must not find a trainer that ended well, as a second sync does not report what the first one
// lost.
void Performer::forget_end() {
  if (const auto forgotten = supervise::forget(expectation({})); !forgotten) {
    spdlog::debug("{}", forgotten.error().message);  // it runs: there is no end to forget
  }
}

Performer::Answer Performer::on(const Unmount& it, Duration limit) {
  forget_end();
  return local_.on(it, limit);
}

Performer::Answer Performer::on(const SyncStorage& it, Duration limit) {
  forget_end();
  return local_.on(it, limit);
}

// Drops the metrics that it reports meanwhile: they are not of this job's history.
EffectFailed Performer::anothers(const supervise::Record& trainer) {
  (void)metrics_.take();
  return {decide::Failure::Conflict, false,
          Detail("a trainer of job " + trainer.job + " runs here (pid " +
                 std::to_string(trainer.trainer_pid) +
                 "), and its agent is gone: end it, or start that job's agent again")};
}

Performer::Answer Performer::on(LookAtHost, Duration limit) {
  const auto mounted = co_await local_.mounted(limit);
  if (!mounted) co_return mounted.error();
  const auto supervised = supervise::look(dependencies_.run_directory);
  if (!supervised) co_return EffectFailed{.detail = Detail(supervised.error().message)};
  const auto* running = supervised->running();
  const bool named = running != nullptr && !running->job.empty();  // an early version named none
  if (named && running->job != dependencies_.job->name.view()) co_return anothers(*running);
  HostLooked seen = *mounted;
  if (const auto& ended = supervised->ended) {
    const supervise::Verdict verdict =
        supervise::judge(*ended, expectation(seen.share ? std::string() : dependencies_.result));
    seen.trainer = HostLooked::Trainer::Ended;
    seen.ended = {verdict.success, verdict.stopped_as_asked, verdict.unfit_machine,
                  verdict.checkpoint_doubted, verdict.setup_failed};
    if (verdict.success && !dependencies_.result.empty()) {
      const auto there = co_await local_.is_there(dependencies_.result, limit);
      if (!there) co_return there.error();
      seen.ended.success = *there;
    }
  }
  if (supervised->runs()) {
    seen.trainer = HostLooked::Trainer::Running;
    io::note(wire::event("trainer-adopted"), spdlog::level::info,
             "a trainer of an earlier agent is running: it is taken over");
    dependencies_.watch_trainer();
  }
  co_return seen;
}

// A killed trainer may hang in the kernel, and its write may tear a file after the verification.
Performer::Answer Performer::on(VerifyCheckpoints effect, Duration limit) {
  if (const auto before = supervise::look(dependencies_.run_directory); before && before->runs())
    co_return EffectFailed{Failure::TrainerUnstartable, false,
                           "the trainer that was stopped has not ended yet"};
  co_return co_await local_.on(effect, limit);
}

Performer::Answer Performer::on(FetchCode, Duration limit) {
  auto token = co_await trainer_.code_token(limit);
  if (!token) {
    EffectFailed failed = token.error();
    failed.failure = Failure::CodeUnreachable;
    co_return failed;
  }
  co_return co_await local_.fetch_code(std::move(*token), limit);
}

// The metrics and the journal come after the ledger: their failure is no failure of the ledger.
Performer::Answer Performer::on(WriteLedger effect, Duration limit) {
  const Ledger& ledger = effect.ledger;
  const Time until = io::now() + limit;
  Happening what = co_await local_.write_ledger(ledger, dependencies_.gave_up(), limit);
  if (!std::holds_alternative<LedgerWritten>(what)) {
    HomeKept kept;
    kept.outcome = HomeKept::Outcome::Failed;
    if (home_) dependencies_.deliver({io::now(), {}, kept});
    co_return what;
  }
  co_await keep_metrics(until);
  co_await keep_journal(until);
  co_await keep_history(until);
  if (!home_) co_return what;
  co_await local_.keep_log(left_until(until));
  HomeKept kept;
  what = co_await home_->keep(effect.epoch, !ledger.running, left_until(until), kept);
  const s3::Tally requests = home_->take_requests();
  kept.s3_writes = requests.writes;
  kept.s3_reads = requests.reads;
  dependencies_.deliver({io::now(), {}, kept});
  co_return what;
}

Performer::Answer Performer::on(PrepareShare effect, Duration limit) {
  const Time until = io::now() + limit;
  Happening what = co_await local_.on(effect, limit);
  if (!home_ || !std::holds_alternative<Mounted>(what)) co_return what;
  what = co_await home_->bring(left_until(until));
  const auto* made = std::get_if<Mounted>(&what);
  if (made != nullptr && made->cleared) forget_end();  // the next session must not find it either
  co_return what;
}

asio::awaitable<void> Performer::keep_metrics(Time until) {
  if (metrics_.empty()) co_return;
  Metrics::News news = metrics_.take();
  const bool kept =
      co_await local_.keep_metrics(wire::to_lines(news.curve), news.resumed, left_until(until));
  if (!kept) metrics_.put_back(std::move(news));
}

// A failure is not logged: that would add a line to keep.
asio::awaitable<void> Performer::keep_journal(Time until) {
  std::string lines = io::take_log();
  if (lines.empty()) co_return;
  const bool kept = co_await local_.keep_lines("agent.log", lines, left_until(until));
  if (!kept) io::put_log_back(std::move(lines));
}

asio::awaitable<void> Performer::keep_history(Time until) {
  std::string lines = dependencies_.history();
  if (lines.empty()) co_return;
  const std::size_t bytes = lines.size();
  const bool kept =
      co_await local_.keep_lines("history.jsonl", std::move(lines), left_until(until));
  if (kept) dependencies_.history_kept(bytes);
}

// First the trainer's log is kept, then the share unmounted; a server that does not answer delays
// neither beyond its limit.
Performer::Answer Performer::on(ReleaseShare effect, Duration limit) {
  forget_end();
  co_await local_.keep_log(limit / 3);
  co_return co_await local_.on(effect, limit / 2);
}

Performer::Answer Performer::on(StartTrainer effect, Duration limit) {
  if (trainer_.is_on_share()) {
    co_await local_.keep_log(limit / 3);
  }
  co_await local_.make_gpu_nodes(limit / 3);
  Happening what = co_await trainer_.start(effect, limit);
  if (std::holds_alternative<TrainerStarted>(what)) dependencies_.watch_trainer();
  co_return what;
}

// Without any right a machine can still shut down: its template says that EC2 terminates it then,
// and what the fleet starts in its place sees why (FleetRead::shut_down).
Performer::Answer Performer::or_shut_down(Answer asked, bool may) {
  Happening answer = co_await std::move(asked);
  const auto* failed = std::get_if<EffectFailed>(&answer);
  const bool refused = failed != nullptr && failed->failure == Failure::Refused;
  if (may && refused && dependencies_.power_off()) co_return CallAccepted{};
  co_return answer;
}

// Maps each effect to the class that carries it out, and to where: at once, at AWS concurrently, or
// on this machine one after the other. An effect that nobody carries out does not compile.
struct Performer::Dispatch {
  Performer& self;
  const Effect& effect;

  void operator()(const Abandon& c) const { self.abandon(c.effect); }
  void operator()(const Exit&) const { self.dependencies_.exit(); }
  void operator()(const StopTrainer& c) const { self.answer(effect.id, self.trainer_.stop(c)); }
  void operator()(const PaceTrainer& c) const { self.answer(effect.id, self.trainer_.pace(c)); }
  void operator()(const KillTrainer&) const { self.answer(effect.id, self.trainer_.kill()); }
  void operator()(const ReadIdentity& c) const { start(self, c); }
  void operator()(const MarkDone& c) const {  // on a share a file
    c.volume.empty() ? queue(self.local_, c) : start(self.cloud_, c);
  }
  template <class Command>
  void operator()(const Command& c) const {
    constexpr bool at_aws = requires { self.cloud_.on(c, Duration()); };
    if constexpr (requires { self.on(c, Duration()); })
      at_aws ? start(self, c) : queue(self, c);
    else if constexpr (at_aws)
      start(self.cloud_, c);
    else
      queue(self.local_, c);
  }

  // The command is copied into the work, which may outlive the effects of its step.
  template <class Place, class Command>
  void start(Place& place, const Command& c) const {
    self.start({effect, [&place, c](Duration limit) { return place.on(c, limit); }, false});
  }
  template <class Place, class Command>
  void queue(Place& place, const Command& c) const {
    self.queue({effect, [&place, c](Duration limit) { return place.on(c, limit); }, true});
  }
};

void Performer::perform(const Effect& effect) { std::visit(Dispatch{*this, effect}, effect.what); }

}  // namespace spotter::act
