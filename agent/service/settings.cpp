#include "agent/service/settings.hpp"

#include <algorithm>

#include "agent/config/parameters.hpp"
#include "agent/units/manager.hpp"

namespace spotter {
namespace {

// Between SIGTERM and SIGKILL of an engine (Batch, Slurm and Kubernetes wait 30 s by default).
constexpr Duration kEnginesPatience{30'000};

}  // namespace

decide::Policy policy_of(const config::Job& job, bool once) {
  decide::Policy policy;
  policy.foreground = once;
  if (once && job.attempt.empty()) policy.stop_grace = kEnginesPatience;
  if (job.storage.share) {
    policy.storage =
        job.storage.in_bucket() ? decide::StorageKind::Bucket : decide::StorageKind::Share;
    policy.place = ShortText<200>(config::describe(*job.storage.share));
  }
  policy.attempts_without_progress =
      static_cast<std::uint32_t>(job.on_failure.attempts_without_progress);
  policy.starts_per_attempt = static_cast<std::uint32_t>(job.on_failure.starts_per_attempt);
  policy.blocked_limit = job.on_failure.blocked;
  switch (job.on_failure.then) {
    case config::GiveUp::ScaleToZero:
      policy.then = decide::FailurePolicy::ScaleToZero;
      break;
    case config::GiveUp::Hold:
      policy.then = decide::FailurePolicy::Hold;
      break;
    case config::GiveUp::Cancel:
      policy.then = decide::FailurePolicy::Cancel;
      break;
  }
  policy.hours_limit = job.limits.hours.value_or(0);
  policy.dollars_limit = job.limits.dollars.value_or(0);
  policy.fence = job.fence.has_value();
  // When a gang's process ends its record has counted rounds without a new checkpoint, however long
  // each of them took: ten minutes pass until a hang is seen.
  if (job.gang) policy.settled = Duration::max();
  policy.gang = job.gang && job.gang->min < job.gang->size;
  policy.has_code = job.code.has_value();
  policy.sends_result = job.publish.has_value();
  policy.data = static_cast<std::uint32_t>(job.storage.data.size());
  const bool all = job.trainer.gpus == config::all_gpus;
  policy.gpus = all ? decide::all_gpus : static_cast<std::uint32_t>(job.trainer.gpus);
  if (job.fleet) policy.fleet = *job.fleet;
  if (job.trainer.stop_grace) policy.stop_grace = *job.trainer.stop_grace;
  if (job.storage.ebs.consistency_bound) {
    policy.consistency_bound = *job.storage.ebs.consistency_bound;
    policy.commit_call =
        std::clamp(policy.consistency_bound, policy.commit_call_least, policy.commit_call);
  }
  return policy;
}

decide::Policy policy_to_fill(const config::Job& job) {
  decide::Policy policy = policy_of(job, true);
  policy.fills = true;
  policy.sends_result = job.sending.has_value();
  policy.data = policy.gpus = 0;
  policy.blocked_retry = Duration(0);  // does not wait for a person
  return policy;
}

std::string of_sweep(const config::Job& job) {
  if (!job.experiment) return {};
  return ", experiment " + std::to_string(job.experiment->index) + ": " +
         sweep::to_json(job.experiment->set);
}

bool machine_is_stopping() {
  const auto manager = units::Manager::connect();
  return manager && (*manager)->system_state() == "stopping";
}

}  // namespace spotter
