#include "agent/service/observe/journal.hpp"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "agent/decide/describe.hpp"
#include "agent/io/log.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/wire/events.hpp"

namespace spotter {

namespace fs = std::filesystem;

namespace {

using decide::Block;
using decide::Surrender;
using decide::Wait;
using spdlog::level::level_enum;
using wire::event;
using wire::EventKind;
using Kind = std::optional<EventKind>;

EventKind kind_of(Block why) {
  switch (why) {
    case Block::NoVolume:
      return event("no-volume");
    case Block::TwoVolumes:
      return event("two-volumes");
    case Block::VolumeBroken:
      return event("volume-broken");
    case Block::CopyDamaged:
      return event("copy-damaged");
    case Block::BlankNotOurs:
      return event("blank-not-ours");
    case Block::DiskForeign:
      return event("disk-foreign");
    case Block::FilesystemDamaged:
      return event("file-system-damaged");
    case Block::MountFailed:
      return event("mount-failed");
    case Block::HomeGone:
    case Block::ShareUnusable:
      return event("share-unusable");
    case Block::ShareSilent:
      return event("share-silent");
    case Block::ManyInstances:
      return event("many-instances");
    case Block::FenceOther:
    case Block::FenceGone:
      return event("fence-unusable");
    case Block::DataUnusable:
      return event("data-unusable");
    case Block::DeviceAbsent:
      return event("device-absent");
    case Block::VolumeStuck:
      return event("volume-stuck");
    case Block::CodeUnreachable:
      return event("code-unreachable");
    case Block::CodeMissing:
      return event("code-missing");
    case Block::TrainerUnstartable:
      return event("trainer-unstartable");
    case Block::NotPermitted:
      return event("not-permitted");
    case Block::Rejected:
      return event("call-rejected");
    case Block::CopyVanished:
      return event("copy-vanished");
    case Block::ChangeInVain:
      return event("change-in-vain");
    case Block::GpusAbsent:
      return event("gpus-absent");
    case Block::NotFree:
      return event("volume-not-free");
    case Block::NotFilled:
      return event("volume-not-filled");
  }
  return event("call-rejected");
}

Kind kind_of(Surrender why) {
  switch (why) {
    case Surrender::None:
      return {};
    case Surrender::NoProgress:
      return event("gave-up-no-progress");
    case Surrender::StartsInVain:
      return event("gave-up-starts-in-vain");
    case Surrender::HoursSpent:
      return event("gave-up-hours-spent");
    case Surrender::DollarsSpent:
      return event("gave-up-dollars-spent");
    case Surrender::BlockedTooLong:
      return event("gave-up-blocked");
    case Surrender::GpusAbsent:
      return event("gave-up-gpus-absent");
  }
  return {};
}

// One overload for each stage that has an explanation.
Kind kind_of(const decide::Blocked& stage, const decide::Facts&) { return kind_of(stage.why); }
Kind kind_of(const decide::Training&, const decide::Facts&) { return event("training"); }
Kind kind_of(const decide::Released&, const decide::Facts&) { return event("released"); }
Kind kind_of(const decide::Finished&, const decide::Facts&) { return event("finished"); }
Kind kind_of(const decide::Snapshotting&, const decide::Facts&) { return event("volume-moving"); }
Kind kind_of(const decide::GivingBack&, const decide::Facts&) {
  return event("instance-given-back");
}
Kind kind_of(const decide::Promoting&, const decide::Facts&) { return event("volume-moved"); }
Kind kind_of(const decide::Stopping& stage, const decide::Facts&) {
  return stage.kills > 0 ? Kind(event("trainer-killed")) : Kind();
}
Kind kind_of(const decide::Waiting& stage, const decide::Facts&) {
  if (stage.why == Wait::VolumeHeld) return event("volume-held");
  return stage.why == Wait::ShareHeld ? Kind(event("share-held")) : Kind();
}
Kind kind_of(const decide::CancellingFleet&, const decide::Facts& facts) {
  return facts.tidying.data_left ? Kind(event("data-left")) : Kind();
}
template <class OtherStage>
Kind kind_of(const OtherStage&, const decide::Facts&) {
  return {};
}

void say(const Kind& kind, level_enum level, const std::string& words) {
  if (kind)
    io::note(*kind, level, "{}", words);
  else
    spdlog::log(level, "{}", words);
}

void record_happening(const decide::Event& happened) {
  if (const auto* notice = std::get_if<decide::NoticeSeen>(&happened.what)) {
    const double left = std::chrono::duration<double>(notice->deadline - happened.at).count();
    io::note(event("interruption-notice"), level_enum::warn, "{}: the instance ends in {:.1f} s",
             notice->held ? "its Auto Scaling group takes it out" : "interruption notice", left);
  } else if (std::holds_alternative<decide::NoticeWithdrawn>(happened.what)) {
    io::note(event("notice-withdrawn"), level_enum::info, "the interruption notice was withdrawn");
  } else if (std::holds_alternative<decide::RebalanceRecommended>(happened.what)) {
    io::note(event("rebalance-recommendation"), level_enum::info,
             "a rebalance recommendation: mostly they lead to nothing; training goes on");
  } else if (const auto* resumed = std::get_if<decide::TrainerResumed>(&happened.what)) {
    io::note(event("trainer-resumed"), level_enum::info, "the trainer goes on from step {}",
             resumed->step);
  } else if (const auto* made = std::get_if<decide::CheckpointMade>(&happened.what)) {
    io::note(event("checkpoint-durable"), level_enum::info, "checkpoint of step {} is durable",
             made->step);
  }
}

void set_fields(const decide::State& state) {
  const decide::Facts& facts = state.facts;
  io::set_log_field("SPOTTER_STAGE", decide::name(state.stage));
  io::set_log_field("SPOTTER_STEP",
                    facts.trainer.step < 0 ? "" : std::to_string(facts.trainer.step));
  io::set_log_field("INSTANCE_ID", facts.identity.instance.view());
  io::set_log_field("VOLUME_ID", facts.holding.volume.view());
  io::set_log_field("SPOTTER_ZONE", facts.identity.zone.view());
}

}  // namespace

void Journal::remember_boot(const fs::path& printed, const fs::path& run_directory) {
  constexpr std::streamoff most = 64 << 10;
  const auto remembered = run_directory / "boot-remembered";
  std::ifstream file(printed, std::ios::binary | std::ios::ate);
  if (!file || fs::exists(remembered)) return;
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - most));
  std::string line, lines;
  if (size > most) std::getline(file, line);  // the rest of a line
  while (std::getline(file, line)) lines += "boot: " + line + "\n";
  io::put_log_back(std::move(lines));
  (void)supervise::RunDirectory(run_directory).replace("boot-remembered", "");
}

// Before the storage is released, so that the history on it has the reason, too.
void Journal::record_surrender(Surrender why) {
  if (why == surrender_) return;
  surrender_ = why;
  if (why == Surrender::None) return;
  said_ = "gave up: " + std::string(decide::words(why));
  say(kind_of(why), level_enum::err, said_);
  sd_notifyf(0, "STATUS=%s", said_.c_str());
}

void Journal::on_event(const decide::Event& event, const decide::State& state,
                       const decide::Policy& policy, bool moved) {
  set_fields(state);
  record_happening(event);
  record_surrender(state.facts.exit.surrender);
  const std::string words = decide::describe(state, policy);
  // A wait repeats the same look every second: not logged again.
  if (words.empty() || words == said_) return;
  const bool blocked = std::holds_alternative<decide::Blocked>(state.stage);
  // Checkpoints have lines of their own: this text is for the status only.
  const bool trains_on = !moved && std::holds_alternative<decide::Training>(state.stage);
  const auto kind =
      std::visit([&](const auto& stage) { return kind_of(stage, state.facts); }, state.stage);
  if (!trains_on) say(kind, blocked ? level_enum::err : level_enum::info, words);
  sd_notifyf(0, "STATUS=%s", words.c_str());
  said_ = words;
}

}  // namespace spotter
