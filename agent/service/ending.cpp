#include "agent/service/ending.hpp"

#include <sysexits.h>

#include <algorithm>

#include "agent/aws/formats/batch.hpp"
#include "agent/decide/describe.hpp"

namespace spotter {

namespace {

using decide::Facts;
using decide::Policy;
using decide::Surrender;

bool is_failing(Surrender why) {
  return why == Surrender::NoProgress || why == Surrender::StartsInVain;
}

std::string newest(const Facts& facts) {
  const std::int64_t step =
      std::max(facts.progress.checkpoint_step, facts.progress.ledger.newest_step);
  if (step < 0) return "from its newest checkpoint, if it has one";
  return "from the checkpoint of " + decide::numbered(facts, step);
}

std::string times(std::uint64_t count) {
  return count == 1 ? "once" : std::to_string(count) + " times";
}

std::string how_it_ended(const SessionsEnd& end) {
  if (end.signal) return "; it ended by signal " + std::to_string(*end.signal);
  if (!end.exit_code) return {};  // in an earlier session, or not at all
  const std::string status = "; it ended with exit status " + std::to_string(*end.exit_code);
  if (*end.exit_code != 0) return status;
  return status + ", but without trainer.result below $SPOTTER_STORAGE";
}

// A checkpoint may have come before the first of these attempts.
std::string in_vain(std::uint64_t attempts) {
  return times(attempts) + (attempts == 1 ? "" : " without a new checkpoint between them");
}

// With the job's own numbers, and the keys of job.yaml that have them.
std::string reason(const Policy& policy, const Facts& facts, const SessionsEnd& end) {
  const std::uint64_t attempts = policy.attempts_without_progress;
  switch (facts.exit.surrender) {
    case Surrender::NoProgress:
      return "the trainer failed, or could not run, " + in_vain(attempts) + how_it_ended(end) +
             " (on_failure.attempts_without_progress: " + std::to_string(attempts) +
             "); see what it printed";
    case Surrender::StartsInVain:
      return "the trainer was started " + times(attempts * policy.starts_per_attempt) +
             " without a new checkpoint (on_failure: {attempts_without_progress: " +
             std::to_string(attempts) +
             ", starts_per_attempt: " + std::to_string(policy.starts_per_attempt) +
             "}); let it make one sooner, or raise these limits in job.yaml";
    case Surrender::HoursSpent:
    case Surrender::DollarsSpent:
      return std::string(words(facts.exit.surrender)) + "; raise it in job.yaml";
    case Surrender::BlockedTooLong:
      return "nobody acted for too long" + (end.blocked.empty() ? "" : "; " + end.blocked);
    case Surrender::GpusAbsent:
    case Surrender::None:
      break;
  }
  return std::string(words(facts.exit.surrender));
}

std::string of_filling(const Policy& policy, const Facts& facts, const SessionsEnd& end) {
  if (policy.sends_result && facts.exit.filled) return "the files are in S3";
  if (facts.exit.filled) return "the volume is filled, and marked as prepared";
  if (facts.exit.leave || facts.exit.notice)
    return policy.sends_result
               ? "interrupted before the files were sent: fetch them again"
               : "interrupted before the volume was filled; what has come stays: prepare it again";
  const std::string why =
      end.blocked.empty() ? std::string(words(facts.exit.surrender)) : end.blocked;
  return (policy.sends_result ? "nothing is sent: " : "the volume is not filled: ") +
         (why.empty() ? "see the lines above" : why);
}

std::string of_run(const Policy& policy, const Facts& facts, const SessionsEnd& end) {
  if (!end.refused.empty()) return end.refused;
  const std::string again = "run it again, and it goes on " + newest(facts);
  if (facts.exit.done) {
    const decide::Detail& early = facts.progress.ledger.stopped_early;
    return early ? "the sweep has ended this experiment early: " + early.str()
                 : "finished: the result is durable";
  }
  if (facts.exit.surrender != Surrender::None)
    return "gave up: " + reason(policy, facts, end) +
           (end.of_worker ? "" : ". Then " + again + "; all counts begin at 0");
  if (facts.exit.unfit && facts.trouble.left_since != decide::kNever)
    return "processes of a trainer do not end here, not even by SIGKILL: " +
           std::string(end.of_worker ? "another machine is to train this"
                                     : "run it on another machine, or restart this one");
  if (facts.exit.unfit)
    return "this machine lacks the GPUs that trainer.gpus names, see `nvidia-smi -L`: " +
           std::string(end.of_worker ? "another one is to train this" : "run it on another one");
  const bool lost = policy.storage == decide::StorageKind::Bucket && !facts.exit.leave;
  const char* why = facts.exit.notice ? "the machine is about to end: "
                    : lost            ? "another machine has taken the job's home: "
                                      : "stopped as asked: ";
  return why + (end.of_worker ? "the next attempt goes on " + newest(facts) : again);
}

std::string of_service(const Policy& policy, const Facts& facts, const SessionsEnd& end) {
  if (facts.trainer.running)
    return "the agent leaves; the trainer goes on, and the next agent takes it over";
  if (facts.exit.done) return "the agent leaves: the job is finished";
  if (facts.exit.surrender != Surrender::None)
    return "the agent leaves; the job is given up: " + reason(policy, facts, end) +
           ". Then launch it again, and it goes on " + newest(facts);
  if (facts.holding.mounted || facts.holding.attached)
    return "the agent leaves while the storage is in use here; the next agent takes it over";
  return "the agent leaves, as it was asked to: nothing of the job is in use here, and the next "
         "agent goes on " +
         newest(facts);
}

}  // namespace

int exit_status(const Policy& policy, const Facts& facts, const SessionsEnd& end) {
  if (!policy.foreground) return 0;
  if (policy.fills) {
    if (facts.exit.filled) return 0;
    return facts.exit.leave || facts.exit.notice ? wire::interrupted_exit_code : 1;
  }
  constexpr int wrong_input = 2;
  if (!end.refused.empty()) return wrong_input;
  if (facts.exit.done) return 0;
  if (facts.exit.unfit && end.of_worker) return EX_UNAVAILABLE;
  if (facts.exit.surrender == Surrender::None) return wire::interrupted_exit_code;
  // Exit status 0 without the result is a failure. A worker would misread 2 and 75.
  const bool failed = is_failing(facts.exit.surrender) && !end.of_worker;
  constexpr int of_signal = 128;  // as shells say it
  const int status = end.signal ? of_signal + *end.signal : end.exit_code.value_or(1);
  return failed && status != 0 ? status : 1;
}

std::string last_words(const Policy& policy, const Facts& facts, const SessionsEnd& end) {
  if (policy.fills) return of_filling(policy, facts, end);
  return policy.foreground ? of_run(policy, facts, end) : of_service(policy, facts, end);
}

void SessionsEnd::on_stage(const decide::Stage& stage) {
  const auto* it = std::get_if<decide::Blocked>(&stage);
  if (it == nullptr) return;
  blocked = words(it->why);
  if (it->detail) blocked += " (" + it->detail.str() + ")";
}

Duration for_last_words(const decide::Facts& facts, Time now) {
  constexpr Duration most{5'000}, least{1'000};
  if (!facts.exit.notice) return most;
  return std::clamp(facts.exit.notice->deadline - now - least, least, most);
}

bool was_interrupted_idle(const decide::Facts& facts) {
  const bool began = facts.trainer.started_at != decide::kNever;
  return facts.exit.notice && !began && !facts.exit.leave && !facts.exit.done;
}

}  // namespace spotter
