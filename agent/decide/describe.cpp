#include "agent/decide/describe.hpp"

#include "agent/decide/pace.hpp"
#include "agent/decide/transitions.hpp"

namespace spotter::decide {

std::string numbered(const Facts& facts, std::int64_t checkpoint) {
  return (facts.progress.counts_writes ? "write " : "step ") + std::to_string(checkpoint);
}

namespace {

std::string seconds_text(Duration duration) {
  return std::to_string(std::chrono::duration_cast<seconds>(duration).count()) + " s";
}

std::string storage_name(const Facts& facts, const Policy& policy) {
  if (policy.storage != StorageKind::Volume) return policy.place.str();
  return (facts.holding.purpose == Purpose::Verify ? "the copy " : "") + facts.holding.volume.str();
}

std::string newest(const Facts& facts) {
  if (facts.progress.checkpoint_step < 0) return "no checkpoint yet";
  return "newest checkpoint: " + numbered(facts, facts.progress.checkpoint_step);
}

std::string volumes_of_data(const Policy& policy) {
  return policy.data == 1 ? "volume of data" : std::to_string(policy.data) + " volumes of data";
}

// One overload a stage that has something to say.
std::string sentence(const LookingAround&, const Facts&, const Policy&) {
  return "looking for a trainer and a volume that an earlier agent left here";
}
std::string sentence(const Identifying& stage, const Facts&, const Policy&) {
  return stage.failures == 0 ? "asking the metadata service who I am"
                             : "the metadata service does not answer; asking again";
}
std::string sentence(const ReadingFleet&, const Facts& facts, const Policy&) {
  return "this is " + facts.identity.instance.str() + " in " + facts.identity.zone.str() +
         "; asking for its fleet";
}
std::string sentence(const Waiting& stage, const Facts&, const Policy&) {
  return std::string(words(stage.why));
}
std::string sentence(const Blocked& stage, const Facts&, const Policy& policy) {
  std::string text = "blocked: " + std::string(words(stage.why));
  if (stage.detail) text += " (" + stage.detail.str() + ")";
  if (policy.fills) return text;
  return text + ". Looking again in " + seconds_text(policy.blocked_retry);
}
std::string sentence(const Attaching&, const Facts& facts, const Policy& policy) {
  return "attaching " + storage_name(facts, policy);
}
std::string sentence(const Claiming& stage, const Facts& facts, const Policy&) {
  return "claiming " + facts.holding.volume.str() + " as generation " +
         std::to_string(stage.generation);
}
std::string sentence(const FindingDevice&, const Facts& facts, const Policy& policy) {
  return "finding the device of " + storage_name(facts, policy);
}
std::string sentence(const Inspecting&, const Facts& facts, const Policy&) {
  return "looking at what is on " + facts.holding.device.str();
}
std::string sentence(const Formatting&, const Facts& facts, const Policy&) {
  return facts.holding.volume.str() + " is blank and ours to format: making a file system";
}
std::string sentence(const Mounting&, const Facts& facts, const Policy& policy) {
  return "mounting " + storage_name(facts, policy) +
         (facts.holding.purpose == Purpose::Verify ? " read-only" : "");
}
std::string sentence(const Verifying&, const Facts&, const Policy&) {
  return "verifying the newest checkpoint";
}
std::string sentence(const Preparing&, const Facts&, const Policy& policy) {
  return "preparing " + policy.place.str();
}
std::string sentence(const Releasing&, const Facts&, const Policy& policy) {
  return "releasing " + policy.place.str();
}
std::string sentence(const Snapshotting& stage, const Facts& facts, const Policy&) {
  return stage.volume.str() + " is in another zone than " + facts.identity.zone.str() +
         ": taking a snapshot of it";
}
std::string sentence(const CreatingCandidate& stage, const Facts& facts, const Policy&) {
  return "making a copy in " + facts.identity.zone.str() + " from " + stage.snapshot.str() +
         (stage.rate != 0 ? ", loaded at " + std::to_string(stage.rate) + " MiB/s" : "");
}
std::string sentence(const MarkingVerified& stage, const Facts& facts, const Policy&) {
  return "the copy " + stage.candidate.str() + " is whole, " + newest(facts);
}
std::string sentence(const Committing& stage, const Facts& facts, const Policy&) {
  return "the copy " + facts.holding.volume.str() + " is verified; deleting the original " +
         stage.parent.str();
}
std::string sentence(const Promoting& stage, const Facts&, const Policy&) {
  return stage.candidate.str() + " is the job's volume from now on";
}
std::string sentence(const Discarding&, const Facts&, const Policy&) {
  return "removing what an earlier move left behind";
}
std::string sentence(const WritingEpoch& stage, const Facts& facts, const Policy& policy) {
  const Epoch& epoch = stage.epoch;
  if (policy.storage == StorageKind::Bucket)
    return "writing epoch " + std::to_string(epoch.number) + ": the home is for " +
           epoch.holder.str() + " to use";
  if (epoch.volume == facts.move.verified)
    return "the copy " + epoch.volume.str() + " is verified; writing that it follows " +
           epoch.left.str();
  return "writing epoch " + std::to_string(epoch.number) + ": " + epoch.volume.str() + " is for " +
         epoch.holder.str() + (epoch.state == Epoch::State::Moving ? " to copy" : " to use");
}
std::string sentence(const ReleasingEpoch&, const Facts& facts, const Policy& policy) {
  if (policy.storage == StorageKind::Bucket) return "writing that the home is released";
  return "writing that " + facts.fence.epoch.volume.str() + " is released";
}
std::string sentence(const AwaitingGpus&, const Facts&, const Policy& policy) {
  if (policy.gpus == all_gpus) return "waiting for all GPUs of the machine";
  return "waiting for " + (policy.gpus == 1 ? "a GPU" : std::to_string(policy.gpus) + " GPUs");
}
std::string sentence(const PreparingData&, const Facts& facts, const Policy& policy) {
  return "bringing up the " + volumes_of_data(policy) + " in " + facts.identity.zone.str() +
         ", read-only";
}
std::string sentence(const ReleasingData& stage, const Facts&, const Policy& policy) {
  const bool over = stage.then == ReleaseGoal::Finish || stage.then == ReleaseGoal::GiveUp;
  return (over ? "removing the " : "releasing the ") + volumes_of_data(policy) +
         (stage.failures == 0 ? "" : ", failed; it is tried again");
}
std::string sentence(const GivingBack& stage, const Facts& facts, const Policy& policy) {
  const std::string what =
      "giving back " + facts.identity.instance.str() +
      (facts.exit.hinders_gang ? ", when it is " + seconds_text(policy.replace_after) +
                                     " old: twice its gang stopped because of it, see the "
                                     "trainer's log"
       : facts.trouble.left_since != kNever
           ? ": processes of a trainer do not end there, not even by SIGKILL"
           : ", which lacks GPUs");
  if (stage.refused)
    return what + ", refused: " + stage.refused.str() + "; end it yourself, or permit it";
  return stage.failures == 0 ? what : what + ", failed; it is tried until it succeeds";
}
std::string sentence(const FetchingCode&, const Facts&, const Policy&) {
  return "fetching the code";
}
std::string sentence(const StartingTrainer&, const Facts& facts, const Policy&) {
  return "starting the trainer, attempt " +
         std::to_string(facts.progress.ledger.attempts_without_progress) +
         " without progress so far";
}
std::string sentence(const Filling&, const Facts& facts, const Policy&) {
  return "filling " + facts.holding.volume.str();
}
std::string sentence(const MarkingPrepared&, const Facts& facts, const Policy&) {
  return "all is there: marking " + facts.holding.volume.str() + " as prepared";
}
std::string sentence(const Training&, const Facts& facts, const Policy& policy) {
  return "training on " + storage_name(facts, policy) + ", " + newest(facts);
}
std::string sentence(const Stopping& stage, const Facts& facts, const Policy& policy) {
  const Duration upload = next_upload(facts.home.upload);
  const auto& notice = facts.exit.notice;
  if (policy.storage == StorageKind::Bucket && notice && notice->deadline - stage.kill_at < upload)
    return "another checkpoint would not reach the bucket in time (the last one took " +
           seconds_text(facts.home.upload) + "): the trainer is ended, and goes on from " +
           newest(facts);
  if (stage.kills > 0) return "the trainer did not end in time and is killed";
  if (facts.exit.surrender != Surrender::None)
    return "gave up: " + std::string(words(facts.exit.surrender));
  if (stage.then == ReleaseGoal::Finish)
    return "the sweep ends this experiment early: " + facts.progress.ledger.stopped_early.str();
  return "the trainer is asked to checkpoint and end";
}
std::string sentence(const Unmounting&, const Facts& facts, const Policy& policy) {
  if (!facts.holding.mounted && facts.holding.unproven)
    return "making sure that nothing here uses " + storage_name(facts, policy) +
           ", which an earlier session attached";
  return "syncing and unmounting " + storage_name(facts, policy);
}
std::string sentence(const FinalSnapshot&, const Facts& facts, const Policy&) {
  return "taking a snapshot of " + facts.holding.volume.str() + ", in case it has to move";
}
std::string sentence(const Detaching&, const Facts& facts, const Policy& policy) {
  return "detaching " + storage_name(facts, policy);
}
std::string sentence(const Released&, const Facts& facts, const Policy&) {
  return "released: nothing of the job is held here any more, " + newest(facts);
}
std::string sentence(const MarkingDone&, const Facts& facts, const Policy& policy) {
  return "the result is durable: marking " + storage_name(facts, policy) + " as done";
}
std::string sentence(const Tidying&, const Facts&, const Policy&) {
  return "removing what is left of earlier moves";
}
std::string sentence(const CancellingFleet& stage, const Facts& facts, const Policy&) {
  const Detail& data = facts.tidying.data_left;
  const std::string left = data ? "volumes of data that stay: " + data.str() + "; " : "";
  if (!facts.identity.fleet_known)
    return left + "asking EC2 which fleet to cancel, until two minutes have shown that it is none";
  const std::string what = left + "cancelling the fleet " + facts.identity.fleet.id.str();
  return stage.failures == 0 ? what : what + " failed; it is tried until it succeeds";
}
std::string sentence(const ScalingToZero&, const Facts& facts, const Policy& policy) {
  if (!facts.identity.fleet_known)
    return "asking EC2 which fleet to scale to 0, until two minutes have shown that it is none";
  if (leaves_gang_alone(facts, policy))
    return "this instance ends, and the target capacity of " + facts.identity.fleet.id.str() +
           " goes down by one: the others of the gang train on";
  return "setting the target capacity of " + facts.identity.fleet.id.str() +
         " to 0: nothing is cancelled, nothing deleted";
}
std::string sentence(const Securing&, const Facts&, const Policy&) {
  return "the trainer is done: syncing the result";
}
std::string sentence(const SendingResult&, const Facts&, const Policy&) {
  return "sending the result to where the job is published";
}
std::string sentence(const Finished&, const Facts& facts, const Policy&) {
  if (facts.identity.fleet.kind == FleetKind::None)
    return "finished: the result is durable. No fleet is known: end this instance yourself";
  return "finished: the result is durable";
}
std::string sentence(const GaveUp&, const Facts& facts, const Policy& policy) {
  std::string why = "gave up: " + std::string(words(facts.exit.surrender));
  if (policy.then != GiveUp::Hold || policy.foreground) return why;
  return why + "; this machine stays " + std::to_string(policy.hold_limit / minutes(1)) +
         " min for a person to look at, and costs; then its fleet ends";
}
template <class QuietStage>
std::string sentence(const QuietStage&, const Facts&, const Policy&) {
  return {};
}

// "AttachVolume" -> "attach-volume": a struct's name is that of the stage, event or effect.
template <class T>
struct Name {
  static constexpr std::string_view written() {
    std::string_view text = __PRETTY_FUNCTION__;  // ... [with T = spotter::decide::Mounting; ...]
    text = text.substr(text.find("T = "));
    text = text.substr(0, text.find_first_of(";]"));
    return text.substr(text.rfind(':') + 1);
  }
  struct Letters {
    std::array<char, 40> text{};
    std::size_t size = 0;
  };
  static constexpr Letters letters = [] {
    Letters all;
    for (const char each : written()) {
      const bool upper = each >= 'A' && each <= 'Z';
      if (upper && all.size > 0) all.text[all.size++] = '-';
      all.text[all.size++] = upper ? static_cast<char>(each - 'A' + 'a') : each;
    }
    return all;
  }();
};

template <class Variant>
std::string_view name_in(const Variant& it) {
  return std::visit(
      []<class T>(const T&) {
        return std::string_view(Name<T>::letters.text.data(), Name<T>::letters.size);
      },
      it);
}

}  // namespace

std::string describe(const State& state, const Policy& policy) {
  return std::visit([&](const auto& stage) { return sentence(stage, state.facts, policy); },
                    state.stage);
}

std::string_view name(const Stage& stage) { return name_in(stage); }
std::string_view name(const Happening& happening) { return name_in(happening); }
std::string_view name(const Command& command) { return name_in(command); }

}  // namespace spotter::decide
