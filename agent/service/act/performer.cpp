#include "agent/service/act/performer.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "agent/decide/describe.hpp"
#include "agent/io/log.hpp"
#include "agent/supervise/verdict.hpp"
#include "agent/wire/events.hpp"

namespace spotter::act {
namespace {

using namespace decide;  // the commands' names; act's own classes are Cloud, Local, Trainer

template <class... Commands>
bool is(const Command& command) {
  return (std::holds_alternative<Commands>(command) || ...);
}

bool is_local(const Command& command) {
  const auto* done = std::get_if<MarkDone>(&command);
  if (done && done->volume.empty()) return true;  // a file on the share
  return is<LookAtHost, FindDevice, InspectDisk, MakeFilesystem, Mount, Unmount, PrepareShare,
            ReleaseShare, PrepareData, ReleaseData, ReadLedger, WriteLedger, SyncStorage,
            VerifyCheckpoints, AwaitGpus, FetchCode, FillVolume, StartTrainer>(command);
}

EffectFailed given_up() {
  EffectFailed failed;
  failed.failure = Failure::Abandoned;
  failed.unsettled = true;
  failed.detail = "given up";
  return failed;
}

bool runs(const supervise::Supervised& it) {
  return std::holds_alternative<supervise::Running>(it) ||
         std::holds_alternative<supervise::Starting>(it);
}

void log_failure(const Command& command, const EffectFailed& failed) {
  if (failed.failure == Failure::Abandoned) return;
  io::note(wire::event("call-failed"), spdlog::level::warn, "{} failed: {}{}", name(command),
           failed.detail.view(),
           failed.unsettled ? " (it may have been carried out all the same)" : "");
}

}  // namespace

Performer::Performer(asio::io_context& context, Cloud& cloud, Local& local, DataVolumes& data,
                     Trainer& trainer, Metrics& metrics, Surroundings surroundings)
    : context_(context),
      cloud_(cloud),
      local_(local),
      data_(data),
      trainer_(trainer),
      metrics_(metrics),
      surroundings_(std::move(surroundings)) {}

void Performer::perform(const Effect& effect) {
  if (const auto* abandoned = std::get_if<Abandon>(&effect.what)) return abandon(abandoned->effect);
  if (is<Exit>(effect.what)) return surroundings_.exit();
  if (const auto* stop = std::get_if<StopTrainer>(&effect.what)) {
    return answer(effect.id, trainer_.stop(*stop));
  }
  if (const auto* pace = std::get_if<PaceTrainer>(&effect.what)) {
    return answer(effect.id, trainer_.pace(*pace));
  }
  if (is<KillTrainer>(effect.what)) return answer(effect.id, trainer_.kill());
  if (!is_local(effect.what)) return start(effect);
  if (local_busy_) {
    waiting_local_.push_back(effect);
    return;
  }
  local_busy_ = true;
  start(effect);
}

void Performer::start(const Effect& effect) {
  auto signal = std::make_shared<asio::cancellation_signal>();
  running_[effect.id.number] = signal;
  auto body = [](Performer* self, Effect asked) -> asio::awaitable<void> {
    // Whatever ends the work, an answer is owed; an exception here is the work's cancellation.
    Happening what = given_up();
    const Duration left = asked.deadline - self->surroundings_.now();
    try {
      auto working = self->work(asked.what, std::max(left, Duration(1)));
      what = co_await std::move(working);
    } catch (const boost::system::system_error&) {
      what = given_up();
    }
    if (const auto* failed = std::get_if<EffectFailed>(&what)) log_failure(asked.what, *failed);
    self->running_.erase(asked.id.number);
    if (is_local(asked.what)) self->finish_local();
    self->answer(asked.id, std::move(what));
  };
  asio::co_spawn(context_, body(this, effect),
                 asio::bind_cancellation_slot(signal->slot(), [signal](std::exception_ptr error) {
                   if (error) std::rethrow_exception(error);
                 }));
}

void Performer::finish_local() {
  local_busy_ = false;
  if (waiting_local_.empty()) return;
  const Effect next = waiting_local_.front();
  waiting_local_.pop_front();
  local_busy_ = true;
  start(next);
}

void Performer::abandon(EffectId id) {
  const auto found = running_.find(id.number);
  if (found != running_.end()) {
    found->second->emit(asio::cancellation_type::all);
    data_.abandon();
    return;
  }
  const auto queued = std::find_if(waiting_local_.begin(), waiting_local_.end(),
                                   [&](const Effect& effect) { return effect.id == id; });
  if (queued == waiting_local_.end()) return;
  waiting_local_.erase(queued);
  answer(id, given_up());
}

void Performer::answer(EffectId id, Happening what) {
  surroundings_.deliver({surroundings_.now(), id, std::move(what)});
}

Performer::Answer Performer::work(const Command& command, Duration limit) {
  return is_local(command) ? local_work(command, limit) : cloud_work(command, limit);
}

Performer::Answer Performer::cloud_work(const Command& command, Duration limit) {
  if (is<ReadIdentity>(command)) return surroundings_.read_identity();
  if (const auto* c = std::get_if<ReadFleet>(&command)) {
    return cloud_.read_fleet(c->instance, limit);
  }
  if (const auto* c = std::get_if<AttachVolume>(&command)) return cloud_.attach(*c, limit);
  if (const auto* c = std::get_if<DetachVolume>(&command)) return cloud_.detach(*c, limit);
  if (const auto* c = std::get_if<ClaimVolume>(&command)) return cloud_.claim(*c, limit);
  if (const auto* c = std::get_if<CreateSnapshot>(&command)) {
    return cloud_.create_snapshot(*c, limit);
  }
  if (const auto* c = std::get_if<CreateVolume>(&command)) return cloud_.create_volume(*c, limit);
  if (const auto* c = std::get_if<MarkVerified>(&command)) {
    return cloud_.mark_verified(c->volume, limit);
  }
  if (const auto* c = std::get_if<PromoteVolume>(&command)) return cloud_.promote(c->volume, limit);
  if (const auto* c = std::get_if<MarkDone>(&command)) return cloud_.mark_done(c->volume, limit);
  if (const auto* c = std::get_if<MarkPrepared>(&command)) {
    return cloud_.mark_prepared(c->volume, limit);
  }
  if (const auto* c = std::get_if<DeleteVolume>(&command)) {
    return cloud_.delete_volume(c->volume, limit);
  }
  if (const auto* c = std::get_if<DeleteSnapshot>(&command)) {
    return cloud_.delete_snapshot(c->snapshot, limit);
  }
  if (const auto* c = std::get_if<CancelFleet>(&command)) {
    return cloud_.cancel_fleet(c->fleet, limit);
  }
  if (const auto* c = std::get_if<ScaleFleetToZero>(&command)) {
    return cloud_.scale_to_zero(c->fleet, limit);
  }
  if (const auto* c = std::get_if<GiveBackInstance>(&command)) {
    return cloud_.leave_fleet({}, c->instance, std::nullopt, limit);
  }
  if (const auto* c = std::get_if<CompleteLifecycle>(&command)) {
    return cloud_.complete_lifecycle(c->fleet, c->instance, limit);
  }
  return cloud_.survey(limit);
}

Performer::Answer Performer::local_work(const Command& command, Duration limit) {
  if (const auto* c = std::get_if<FindDevice>(&command)) {
    return local_.find_device(*c, limit);
  }
  if (const auto* c = std::get_if<InspectDisk>(&command)) return local_.inspect(c->device, limit);
  if (const auto* c = std::get_if<MakeFilesystem>(&command)) {
    return local_.make_filesystem(c->device, limit);
  }
  if (const auto* c = std::get_if<Mount>(&command)) return local_.mount(*c, limit);
  if (is<Unmount, SyncStorage>(command)) forget_end();
  if (is<PrepareShare>(command)) return local_.prepare_share(limit);
  if (is<ReleaseShare>(command)) return release_share(limit);
  if (const auto* c = std::get_if<PrepareData>(&command)) return data_.prepare(*c, limit);
  if (const auto* c = std::get_if<ReleaseData>(&command)) return data_.release(*c, limit);
  if (is<MarkDone>(command)) return local_.mark_done(limit);
  if (is<Unmount>(command)) return local_.unmount(limit);
  if (is<ReadLedger>(command)) return local_.read_ledger(limit);
  if (is<SyncStorage>(command)) return local_.sync(limit);
  if (const auto* c = std::get_if<WriteLedger>(&command)) {
    return write_account(c->ledger, limit);
  }
  if (const auto* c = std::get_if<VerifyCheckpoints>(&command)) {
    return verify(*c, limit);
  }
  if (is<AwaitGpus>(command)) return local_.await_gpus(limit);
  if (is<FetchCode>(command)) return fetch_code(limit);
  if (const auto* c = std::get_if<FillVolume>(&command)) return local_.fill(c->volume, limit);
  if (const auto* c = std::get_if<StartTrainer>(&command)) return start_trainer(*c, limit);
  return look_at_host(limit);
}

// Before, not after: an agent that is killed in the sync, or after one that failed, must not find a
// trainer that ended well, for a second sync says nothing of what the first one lost.
void Performer::forget_end() {
  if (const auto forgotten = supervise::collect(surroundings_.run_directory); !forgotten) {
    spdlog::debug("{}", forgotten.error().message);  // it runs: there is no end to forget
  }
}

Performer::Answer Performer::look_at_host(Duration limit) {
  auto looking = local_.mounted(limit);
  const auto mounted = co_await std::move(looking);
  if (!mounted) co_return mounted.error();
  const auto supervised = supervise::look(surroundings_.run_directory);
  if (!supervised) {
    EffectFailed failed;
    failed.detail = Detail(supervised.error().message);
    co_return failed;
  }
  HostLooked seen = *mounted;
  if (const auto* ended = std::get_if<supervise::Ended>(&*supervised)) {
    const supervise::Verdict verdict = supervise::judge(
        *ended,
        {surroundings_.run_directory, seen.share ? std::string() : surroundings_.result, false});
    seen.trainer = HostLooked::Trainer::Ended;
    seen.ended = {verdict.success, verdict.stopped_as_asked};
    if (verdict.success && !surroundings_.result.empty()) {
      auto asking = local_.is_there(surroundings_.result, limit);
      const auto there = co_await std::move(asking);
      if (!there) co_return there.error();
      seen.ended.success = *there;
    }
  }
  if (runs(*supervised)) {
    seen.trainer = HostLooked::Trainer::Running;
    io::note(wire::event("trainer-adopted"), spdlog::level::info,
             "a trainer of an earlier agent is running: it is taken over");
    surroundings_.watch_trainer();
  }
  co_return seen;
}

// A trainer that was killed may hang in the kernel, and what it writes there be torn after the
// look.
Performer::Answer Performer::verify(VerifyCheckpoints effect, Duration limit) {
  if (const auto before = supervise::look(surroundings_.run_directory); before && runs(*before)) {
    EffectFailed failed;
    failed.failure = Failure::TrainerUnstartable;
    failed.detail = "the trainer that was stopped has not ended yet";
    co_return failed;
  }
  auto verifying = local_.verify(effect.read_only, limit);
  co_return co_await std::move(verifying);
}

Performer::Answer Performer::fetch_code(Duration limit) {
  auto reading = trainer_.code_token(limit);
  auto token = co_await std::move(reading);
  if (!token) {
    EffectFailed failed = token.error();
    failed.failure = Failure::CodeUnreachable;
    co_return failed;
  }
  auto fetching = local_.fetch_code(std::move(*token), limit);
  co_return co_await std::move(fetching);
}

// The metrics and the journal come second: what they cost or lack is no matter of the account's.
Performer::Answer Performer::write_account(Ledger ledger, Duration limit) {
  const Time until = surroundings_.now() + limit;
  auto writing = local_.write_ledger(ledger, surroundings_.gave_up(), limit);
  Happening what = co_await std::move(writing);
  if (!std::holds_alternative<LedgerWritten>(what)) co_return what;
  auto metrics = keep_metrics(until);
  co_await std::move(metrics);
  auto journal = keep_journal(until);
  co_await std::move(journal);
  auto history = keep_history(until);
  co_await std::move(history);
  co_return what;
}

asio::awaitable<void> Performer::keep_metrics(Time until) {
  if (metrics_.empty()) co_return;
  Metrics::News news = metrics_.take();
  auto keeping = local_.keep_metrics(wire::to_lines(news.curve), news.resumed,
                                     std::max(until - surroundings_.now(), Duration(1)));
  const bool kept = co_await std::move(keeping);
  if (!kept) metrics_.put_back(std::move(news));
}

// In vain, nothing is said of it: that would be one more line to keep.
asio::awaitable<void> Performer::keep_journal(Time until) {
  std::string lines = io::take_log();
  if (lines.empty()) co_return;
  auto keeping =
      local_.keep_lines("agent.log", lines, std::max(until - surroundings_.now(), Duration(1)));
  const bool kept = co_await std::move(keeping);
  if (!kept) io::put_log_back(std::move(lines));
}

asio::awaitable<void> Performer::keep_history(Time until) {
  std::string lines = surroundings_.history();
  if (lines.empty()) co_return;
  const std::size_t bytes = lines.size();
  auto keeping = local_.keep_lines("history.jsonl", std::move(lines),
                                   std::max(until - surroundings_.now(), Duration(1)));
  const bool kept = co_await std::move(keeping);
  if (kept) surroundings_.history_kept(bytes);
}

// First what the trainer said, then the mount: a server that takes neither holds nothing up.
Performer::Answer Performer::release_share(Duration limit) {
  forget_end();
  auto keeping = local_.keep_log(limit / 3);
  co_await std::move(keeping);
  auto releasing = local_.release_share(limit / 2);
  co_return co_await std::move(releasing);
}

Performer::Answer Performer::start_trainer(StartTrainer effect, Duration limit) {
  if (trainer_.is_on_share()) {
    auto keeping = local_.keep_log(limit / 3);
    co_await std::move(keeping);
  }
  auto making = local_.make_gpu_nodes(limit / 3);
  co_await std::move(making);
  auto starting = trainer_.start(effect, limit);
  Happening what = co_await std::move(starting);
  if (std::holds_alternative<TrainerStarted>(what)) surroundings_.watch_trainer();
  co_return what;
}

}  // namespace spotter::act
