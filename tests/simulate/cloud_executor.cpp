// EC2 as an agent meets it: calls that are late, lost, refused, or carried out though no answer
// came. Each effect does at EC2 what agent/service/act/cloud.cpp and fleet.cpp make it do.
#include <algorithm>

#include "agent/decide/describe.hpp"
#include "tests/simulate/marks.hpp"
#include "tests/simulate/simulation.hpp"
#include "tests/world/tagging.hpp"

namespace spotter::simulate {

using decide::CallAccepted;
using decide::EffectFailed;
using decide::Failure;
using decide::Happening;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

EffectFailed failed(const world::ApiError& error) {
  const auto is = [&](std::initializer_list<const char*> codes) {
    return std::any_of(codes.begin(), codes.end(), [&](auto code) { return error.code == code; });
  };
  EffectFailed result;
  result.detail = decide::Detail(error.code);
  result.failure = Failure::Rejected;
  if (error.code.find("NotFound") != std::string::npos) result.failure = Failure::Missing;
  if (is({"VolumeInUse", "IncorrectState", "IncorrectInstanceState", "InvalidVolume.ZoneMismatch",
          "IdempotentParameterMismatch", "InvalidParameterValue", "InvalidSnapshot.InUse"})) {
    result.failure = Failure::Conflict;
  }
  if (is({"ConcurrentSnapshotLimitExceeded", "SnapshotCreationPerVolumeRateExceeded"})) {
    result.failure = Failure::Unavailable;
  }
  return result;
}

template <class T>
Happening accepted(const world::Expected<T>& result) {
  if (!result) return failed(result.error());
  return CallAccepted{};
}

// The action of the API that an effect comes down to.
std::string action_of(const decide::Command& command) {
  using namespace decide;
  if (std::holds_alternative<ReadFleet>(command)) return "DescribeInstances";
  if (std::holds_alternative<decide::AttachVolume>(command)) return "AttachVolume";
  if (std::holds_alternative<decide::DetachVolume>(command)) return "DetachVolume";
  if (std::holds_alternative<decide::CreateSnapshot>(command)) return "CreateSnapshot";
  if (std::holds_alternative<decide::CreateVolume>(command)) return "CreateVolume";
  if (std::holds_alternative<DeleteVolume>(command)) return "DeleteVolume";
  if (std::holds_alternative<DeleteSnapshot>(command)) return "DeleteSnapshot";
  if (std::holds_alternative<CancelFleet>(command)) return "CancelSpotFleetRequests";
  if (std::holds_alternative<ScaleFleetToZero>(command)) return "ModifySpotFleetRequest";
  if (std::holds_alternative<GiveBackInstance>(command)) return "TerminateInstances";
  return "CreateTags";
}

const char* taken_in_words(decide::Taken taken) {
  if (taken == decide::Taken::InUse) return "true";
  return taken == decide::Taken::Released ? "released" : "";
}

bool may_shut_down(const decide::Command& command) {
  if (const auto* it = std::get_if<decide::CancelFleet>(&command)) return it->or_shut_down;
  const auto* it = std::get_if<decide::ScaleFleetToZero>(&command);
  return it != nullptr && it->or_shut_down;
}

EffectFailed lost(const char* detail, bool unsettled) {
  EffectFailed result;
  result.unsettled = unsettled;
  result.detail = detail;
  return result;
}

}  // namespace

// The refusals by the world's own faults: throttled, or not allowed.
std::optional<EffectFailed> Simulation::refused(const std::string& action) {
  if (world_.cloud().admissions.idle()) return std::nullopt;
  const world::Admission admission = world_.admit(action, now_);
  if (!admission.error) return std::nullopt;
  EffectFailed result = lost("", false);
  const std::string& code = admission.error->code;
  result.detail = decide::Detail(code + " " + action);
  if (code != "RequestLimitExceeded") result.failure = Failure::Refused;
  return result;
}

// It may not end the fleet, which starts another: so it must be for the job's end alone.
void Simulation::shut_down(const InstanceId& id) {
  const decide::Facts::Exit& exit = hosts_[id].agent.state.facts.exit;
  if (!exit.done && exit.surrender == decide::Surrender::None)
    broken("a machine shuts down that could train");
  say(id.view(), "shuts down");
  at(between(seconds(2), seconds(20)), [this, id, boot = hosts_[id].boot] {
    if (hosts_[id].alive && hosts_[id].boot == boot) (void)world_.instances(now_).halted(id);
  });
}

void Simulation::call(Host& host, const decide::Effect& effect) {
  if (const auto error = refused(action_of(effect.what))) {  // after the client's own retries
    if (error->failure == Failure::Refused && may_shut_down(effect.what)) {
      shut_down(host.id);
      return answer_later(host, effect.id, milliseconds(400), CallAccepted{});
    }
    const Duration most = error->failure == Failure::Refused ? milliseconds(400) : seconds(15);
    return answer_later(host, effect.id, between(milliseconds(100), most), *error);
  }
  const Duration limit = effect.deadline - now_;
  const std::uint64_t kind = fires(menu_.call_fails) ? dice_.below(3) : 3;
  if (kind == 0) {
    return answer_later(host, effect.id, between(milliseconds(200), seconds(15)),
                        lost("RequestLimitExceeded", false));
  }
  if (kind == 1) return answer_later(host, effect.id, limit, lost("timed out", true));
  const bool answered = kind == 3;
  const Duration there =
      answered || chance(0.5) ? between(milliseconds(20), milliseconds(400)) : random_.up_to(limit);
  at(there, [this, id = host.id, boot = host.boot, run = host.agent.run, effect, answered] {
    const Host& now = hosts_[id];
    if (!now.alive || now.boot != boot) return;  // it went down with the request
    judge_call(id, effect.what, agent_of(id, run) != nullptr);
    const Happening outcome = carry_out(effect.what);
    const auto* refused = std::get_if<EffectFailed>(&outcome);
    say(id.view(), "      EC2: ", name(effect.what), refused ? " refused: " : " carried out",
        refused ? refused->detail.view() : "", answered ? "" : ", the answer is lost");
    Host* asker = agent_of(id, run);
    if (!asker || !survives(*asker, Side::AfterEffect, name(effect.what))) return;
    if (answered && !std::exchange(lose_answer_, false)) {
      answer_later(*asker, effect.id, between(milliseconds(20), milliseconds(400)), outcome);
    } else {
      answer_later(*asker, effect.id, effect.deadline - now_, lost("timed out", true));
    }
  });
}

Happening Simulation::tag(const std::string& id, const world::Tags& tags) {
  // create_tags takes the whole cloud; World lends it only for reading.
  return accepted(world::create_tags(const_cast<world::Cloud&>(world_.cloud()), {id}, tags));
}

Happening Simulation::carry_out(const decide::Command& command) {
  using namespace decide;
  if (const auto* it = std::get_if<ReadFleet>(&command)) return read_fleet(it->instance);
  if (const auto* it = std::get_if<decide::AttachVolume>(&command)) {
    const std::string device = std::string("/dev/sd") + static_cast<char>('f' + it->attempt % 11);
    return accepted(world_.volumes(now_).attach({it->volume, it->instance, device}));
  }
  if (const auto* it = std::get_if<decide::DetachVolume>(&command)) {
    return accepted(world_.volumes(now_).detach({it->volume, it->instance, {}, false}));
  }
  if (const auto* it = std::get_if<ClaimVolume>(&command)) {
    return tag(it->volume.str(), {{"spotter:job", kJob},
                                  {"spotter:role", "state"},
                                  {"spotter:generation", std::to_string(it->generation)}});
  }
  if (const auto* it = std::get_if<MarkVerified>(&command)) {
    return tag(it->volume.str(), {{"spotter:role", "verified"}});
  }
  if (const auto* it = std::get_if<PromoteVolume>(&command)) {
    world::Tags tags{{kDiscoveryKey, kDiscoveryValue}, {"spotter:role", "state"}};
    if (it->generation != 0) {
      tags["spotter:job"] = kJob;
      tags["spotter:generation"] = std::to_string(it->generation);
    }
    return tag(it->volume.str(), tags);
  }
  if (const auto* it = std::get_if<MarkDone>(&command)) {
    return tag(it->volume.str(), {{"spotter:done", "true"}});
  }
  if (const auto* it = std::get_if<MarkPrepared>(&command)) {
    judge_prepared(it->volume);
    return tag(it->volume.str(), {{"spotter:prepared", "0123456789abcdef 1"}});
  }
  if (const auto* it = std::get_if<decide::CreateSnapshot>(&command)) return snapshot(*it);
  if (const auto* it = std::get_if<decide::CreateVolume>(&command)) return create_volume(*it);
  if (const auto* it = std::get_if<DeleteVolume>(&command)) {
    return accepted(world_.volumes(now_).remove(it->volume));
  }
  if (const auto* it = std::get_if<DeleteSnapshot>(&command)) {
    return accepted(world_.snapshots(now_).remove(it->snapshot));
  }
  if (const auto* it = std::get_if<ScaleFleetToZero>(&command)) {
    return accepted(world_.fleets(now_).modify({it->fleet.id, 0, {}}, it->fleet.kind));
  }
  if (const auto* it = std::get_if<GiveBackInstance>(&command)) {
    return accepted(world_.instances(now_).terminate(it->instance, "Client.UserInitiatedShutdown"));
  }
  if (const auto* it = std::get_if<CancelFleet>(&command)) return cancel_fleet(it->fleet);
  return CallAccepted{};
}

Happening Simulation::snapshot(const decide::CreateSnapshot& command) {
  before_snapshot(command.volume);
  const world::Tags tags = {{"spotter:job", kJob},
                            {"spotter:role", "snapshot"},
                            {"spotter:parent", command.volume.str()},
                            {"spotter:lineage", command.lineage.str()},
                            {"spotter:moves", std::to_string(command.moves)},
                            {"spotter:storage", kStorage},
                            {"spotter:generation", std::to_string(command.generation)},
                            {"spotter:ahead", taken_in_words(command.taken)}};
  const auto made = world_.snapshots(now_).create({command.volume, "", tags});
  return made ? Happening(decide::SnapshotStarted{made->id}) : failed(made.error());
}

Happening Simulation::create_volume(const decide::CreateVolume& command) {
  world::CreateVolume request;
  request.zone = command.zone;
  request.snapshot = command.snapshot;
  if (command.rate != 0) request.initialization_rate = static_cast<int>(command.rate);
  if (const world::Volume* parent = world_.volumes(now_).seen(command.parent)) {
    request.type = parent->type;
    request.gibibytes = parent->gibibytes;
    request.encrypted = parent->encrypted;
    const std::string_view format = marks_of(parent->tags).format;
    if (!format.empty()) request.tags["spotter:format"] = format;
  }
  request.tags["spotter:job"] = kJob;
  request.tags["spotter:role"] = "candidate";
  request.tags["spotter:parent"] = command.parent.str();
  request.tags["spotter:lineage"] = command.lineage.str();
  request.tags["spotter:moves"] = std::to_string(command.moves);
  request.tags["spotter:storage"] = kStorage;
  request.tags["spotter:generation"] = std::to_string(command.generation);
  request.client_token = "spotter-" + command.snapshot.str() + "-" + command.zone.str() + "-" +
                         std::to_string(command.attempt);
  const auto made = world_.volumes(now_).create(request);
  if (!made) return failed(made.error());
  judge_copy(command, made->id);
  return decide::VolumeCreated{made->id};
}

Happening Simulation::cancel_fleet(const Fleet& fleet) {
  for (const auto& result : world_.fleets(now_).cancel({fleet.id}, fleet.kind, true)) {
    if (!result.error) continue;
    const std::string& code = result.error->code;
    if (code.find("DoesNotExist") != std::string::npos || code.find("NotIn") != std::string::npos) {
      continue;
    }
    return lost("unexpectedError", false);
  }
  return CallAccepted{};
}

Happening Simulation::read_fleet(const InstanceId& instance) {
  const world::Instance* seen = world_.instances(now_).seen(instance);
  if (!seen) return failed({"InvalidInstanceID.NotFound", ""});
  decide::FleetRead read{world::fleet_shown(*seen), dollars_};
  if (read.fleet.kind == FleetKind::None) return read;  // its tags are not written yet
  const world::Instance* last = nullptr;
  world_.cloud().instances.each([&](const world::Instance& it) {
    if (it.fleet.id == seen->fleet.id && it.id != seen->id && it.launched <= seen->launched &&
        (last == nullptr || it.launched > last->launched))
      last = &it;
  });
  read.shut_down = last != nullptr && last->reason == world::halted_reason;
  const world::FleetRequest* fleet = world_.fleets(now_).seen(seen->fleet.id);
  const bool unseen = !fleet || seen->state == world::InstanceState::Stopped;
  if (!on_volume() && unseen) return lost("not to be seen yet", false);
  if (!on_volume()) count_writers(*seen, *fleet, read);
  return read;
}

}  // namespace spotter::simulate
