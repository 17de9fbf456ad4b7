// Agents as processes: they start, receive events, have effects carried out, and are killed.
#include "agent/decide/describe.hpp"
#include "agent/decide/step.hpp"
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using decide::EffectFailed;
using std::chrono::milliseconds;
using std::chrono::seconds;

Host* Simulation::agent_of(const InstanceId& id, std::uint64_t run) {
  Host& host = hosts_[id];
  return host.alive && host.agent.alive && host.agent.run == run ? &host : nullptr;
}

void Simulation::start_agent(const InstanceId& id) {
  Host& host = hosts_[id];
  const std::uint64_t run = ++numbers_;
  host.agent = Agent{};
  host.agent.alive = true;
  host.agent.run = run;
  host.agent.started = now_;
  host.agent.state.incarnation = static_cast<std::uint32_t>(random_.below(1'000'000)) + 1;
  say(id.view(), "agent starts");
  take(host, {now_, {}, decide::Started{}});
  look_at_metadata(host, milliseconds(100));
}

void Simulation::kill_agent(Host& host) {
  if (!host.agent.alive) return;
  say(host.id.view(), "agent is killed");
  if (host.agent.state.facts.exit.surrender != decide::Surrender::None) ++killed_giving_up_;
  // Its child may have got as far as doing the work.
  lose_work(host);
  host.agent.alive = false;
  host.agent.working.reset();
  host.agent.waiting.clear();
}

// Stands for the look each second: nothing else would change what it finds. The deadline is read
// as service/sense/notices.cpp reads it: whole seconds of EC2's clock, by the Date of the same
// answer.
void Simulation::look_at_metadata(Host& host, Duration delay) {
  at(delay, [this, id = host.id, run = host.agent.run] {
    Host* its = agent_of(id, run);
    if (!its) return;
    if (now_ < its->paused_until) return look_at_metadata(*its, its->paused_until - now_);
    const Duration blind = metadata_fails_for(id);
    if (blind > Duration{0}) return look_at_metadata(*its, blind + random_.up_to(seconds(1)));
    const world::Instance* instance = world_.cloud().instances.find(id);
    const auto& notice = instance->notice;
    auto& announced = its->agent.announced;
    if (!notice) {
      const bool had = announced.has_value();
      announced.reset();
      if (had) sense(*its, decide::NoticeWithdrawn{});
    } else if (announced != notice->number) {
      announced = notice->number;
      const auto whole = [&](Time time) { return std::chrono::floor<seconds>(world_.wall(time)); };
      const Time deadline = now_ + (whole(notice->deadline) - whole(now_));
      if (deadline <= now_) return;
      expect_release(*its, deadline);
      its->agent.home.noticed = now_;
      sense(*its, decide::NoticeSeen{notice->action, deadline});
    }
  });
}

// The time for which the metadata service gives this instance no answer. A broken answer counts as
// none here; the parsers' own tests have the broken ones.
Duration Simulation::metadata_fails_for(const InstanceId& id) const {
  const auto& faults = world_.cloud().metadata_faults;
  for (const InstanceId& key : {id, InstanceId{}}) {
    const auto found = faults.find(key);
    if (found == faults.end() || now_ >= found->second.until) continue;
    return found->second.mode == "slow" ? Duration{0} : found->second.until - now_;
  }
  return Duration{0};
}

void Simulation::sense(Host& host, decide::Happening what) {
  if (host.alive && host.agent.alive) take(host, {now_, {}, std::move(what)});
}

void Simulation::take(Host& host, const decide::Event& event) {
  if (now_ < host.paused_until) {
    return at_time(host.paused_until, [this, id = host.id, run = host.agent.run, event] {
      if (Host* its = agent_of(id, run)) take(*its, {now_, event.effect, event.what});
    });
  }
  decide::State& state = host.agent.state;
  const Time woken = state.wake_at;
  const bool counts = !std::holds_alternative<decide::TrainerProgressed>(event.what);
  if (counts && !survives(host, Side::BeforeEvent, name(event.what))) return;
  if (record_ && counts) {
    std::string line = "[" + std::string(name(state.stage)) + "] " + std::string(name(event.what));
    if (const auto* failed = std::get_if<EffectFailed>(&event.what)) {
      line += " (" + failed->detail.str() + (failed->unsettled ? ", unsettled)" : ")");
    }
    if (event.effect && event.effect != state.awaited) line += " (ignored)";
    say(host.id.view(), line);
  }
  decide::Effects effects;
  decide::step(state, event, policy_of(host), effects);
  ++verdict_.steps;
  if (const char* words = decide::broken_invariant(state)) return broken(words);
  const bool held = policy_.then == GiveUp::Hold;
  if (held && std::holds_alternative<decide::GaveUp>(state.stage)) judge_surrender(host.id);
  if (record_ && counts) {
    std::string line = "  -> " + std::string(name(state.stage));
    if (const auto* waiting = std::get_if<decide::Waiting>(&state.stage)) {
      line += ": " + std::string(words(waiting->why));
    }
    if (const auto* blocked = std::get_if<decide::Blocked>(&state.stage)) {
      line += ": " + std::string(words(blocked->why)) + " " + blocked->detail.str();
    }
    for (const decide::Effect& effect : effects) line += "; " + std::string(name(effect.what));
    say(host.id.view(), line);
  }
  for (const decide::Effect& effect : effects) {
    const bool counts_start = std::holds_alternative<decide::CountingAttempt>(state.stage) &&
                              std::holds_alternative<decide::WriteLedger>(effect.what);
    if (counts_start) ++starts_counted_;
    if (!survives(host, Side::BeforeEffect, name(effect.what))) return;
    perform(host, effect);
  }
  if (counts && effects.size() == 0 && !survives(host, Side::AfterEvent, name(event.what))) return;
  if (state.wake_at == decide::kNever || state.wake_at == woken) return;
  at_time(std::max(now_, state.wake_at),
          [this, id = host.id, run = host.agent.run, when = state.wake_at] {
            Host* its = agent_of(id, run);
            if (its && its->agent.state.wake_at == when) sense(*its, decide::Woke{});
          });
}

void Simulation::answer_later(Host& host, decide::EffectId id, Duration later,
                              decide::Happening what) {
  at(later, [this, instance = host.id, run = host.agent.run, id, what = std::move(what)] {
    if (Host* its = agent_of(instance, run)) take(*its, {now_, id, what});
  });
}

void Simulation::perform(Host& host, const decide::Effect& effect) {
  using namespace decide;
  const Command& command = effect.what;
  if (const auto* it = std::get_if<decide::Abandon>(&command)) return abandon(host, it->effect);
  if (std::holds_alternative<Exit>(command)) {
    host.agent.alive = false;
    say(host.id.view(), "agent leaves");
    const bool says_done = in_bucket() && host.agent.state.facts.exit.done;
    if (says_done && !is_result_there()) broken("a session says done, and the head does not");
    if (share_.once) run_ended(host);
    preparer_left(host);
    return;
  }
  judge_effect(host, command);
  if (const auto* it = std::get_if<PaceTrainer>(&command)) return pace_trainer(host, *it);
  if (const auto* it = std::get_if<StopTrainer>(&command)) return stop_trainer(host, *it);
  if (std::holds_alternative<KillTrainer>(command)) {
    if (host.trainer.state != Trainer::State::Running) return;
    if (host.trainer.stuck) {
      host.trainer.killed = true;
      return say(host.id.view(), "trainer is killed, and stays in the kernel");
    }
    at(milliseconds(100), [this, id = host.id, run = host.trainer.run] {
      if (Host* its = trainer_of(id, run)) {
        trainer_dies(*its);
        end_trainer(*its, false, false);
      }
    });
    return;
  }
  if (std::holds_alternative<ReadIdentity>(command)) {
    if (metadata_fails_for(host.id) > Duration{0} || fires(menu_.look_fails)) {
      return answer_later(host, effect.id, seconds(3), EffectFailed{});
    }
    return answer_later(host, effect.id, between(milliseconds(20), milliseconds(40)),
                        IdentityRead{host.id, host.type, host.zone, "us-west-2"});
  }
  if (std::holds_alternative<SurveyStorage>(command))
    return in_bucket() ? survey_home(host, effect) : survey(host, effect);
  if (std::holds_alternative<WriteEpoch>(command))
    return in_bucket() ? write_home_epoch(host, effect) : write_epoch(host, effect);
  const bool local =
      std::holds_alternative<PrepareShare>(command) ||
      std::holds_alternative<ReleaseShare>(command) ||
      std::holds_alternative<PrepareData>(command) ||
      std::holds_alternative<ReleaseData>(command) ||
      (on_share() && std::holds_alternative<MarkDone>(command)) ||
      std::holds_alternative<LookAtHost>(command) || std::holds_alternative<FindDevice>(command) ||
      std::holds_alternative<InspectDisk>(command) ||
      std::holds_alternative<MakeFilesystem>(command) || std::holds_alternative<Mount>(command) ||
      std::holds_alternative<Unmount>(command) || std::holds_alternative<ReadLedger>(command) ||
      std::holds_alternative<WriteLedger>(command) ||
      std::holds_alternative<SyncStorage>(command) || std::holds_alternative<SendResult>(command) ||
      std::holds_alternative<VerifyCheckpoints>(command) ||
      std::holds_alternative<AwaitGpus>(command) || std::holds_alternative<FetchCode>(command) ||
      std::holds_alternative<FillVolume>(command) || std::holds_alternative<StartTrainer>(command);
  if (local) return do_locally(host, effect);
  call(host, effect);
}

}  // namespace spotter::simulate
