// What goes wrong, and when: drawn by the seed, and over after three hours of virtual time.
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::minutes;
using std::chrono::seconds;

void Simulation::choose_menu() {
  const auto coin = [this] { return random_.below(2) == 0; };
  constexpr double call_rates[] = {0, 0, 0.02, 0.1, 0.3};
  constexpr double look_rates[] = {0, 0, 0, 0.02, 0.1};
  constexpr int lags[] = {0, 0, 2, 10, 30};
  menu_.call_fails = call_rates[random_.below(5)];
  menu_.look_fails = look_rates[random_.below(5)];
  menu_.lag = seconds(lags[random_.below(5)]);
  menu_.between = seconds(std::initializer_list<int>{30, 90, 240, 600}.begin()[random_.below(4)]);
  for (bool* fault :
       {&menu_.notices, &menu_.short_notices, &menu_.kills, &menu_.withdrawals, &menu_.stops,
        &menu_.agent_kills, &menu_.zones_close, &menu_.attach_hangs, &menu_.slow_snapshots,
        &menu_.snapshot_errors, &menu_.volume_errors, &menu_.overlaps, &menu_.crashes,
        &menu_.late_devices, &menu_.deaf, &menu_.unaware}) {
    *fault = coin();
  }
  work_.aware = !menu_.unaware;
  work_.steps = 40 + static_cast<std::int64_t>(random_.below(200));
  work_.checkpoint_every = 1 + static_cast<std::int64_t>(random_.below(10));
  work_.step_takes = std::chrono::milliseconds(500 + random_.below(20'000));
  policy_.has_code = coin();
  policy_.attempts_without_progress = 50;  // interruptions before the first checkpoint count, too
}

std::string Simulation::describe_menu() const {
  std::string text = "calls fail " + std::to_string(menu_.call_fails) + ", work fails " +
                     std::to_string(menu_.look_fails) + ", lag " +
                     std::to_string(menu_.lag.count()) + " ms, a blow each " +
                     std::to_string(menu_.between.count() / 1000) + " s:";
  const auto add = [&](bool on, const char* word) { text += on ? std::string(" ") + word : ""; };
  add(menu_.notices, "notices");
  add(menu_.short_notices, "short-notices");
  add(menu_.kills, "kills");
  add(menu_.withdrawals, "withdrawals");
  add(menu_.stops, "stops");
  add(menu_.agent_kills, "agent-kills");
  add(menu_.zones_close, "zones-close");
  add(menu_.attach_hangs, "attach-hangs");
  add(menu_.slow_snapshots, "slow-snapshots");
  add(menu_.snapshot_errors, "snapshot-errors");
  add(menu_.volume_errors, "volume-errors");
  add(menu_.overlaps, "overlaps");
  add(menu_.crashes, "crashes");
  add(menu_.late_devices, "late-devices");
  add(menu_.deaf, "deaf");
  add(menu_.unaware, "unaware");
  return text;
}

Host* Simulation::any_host() {
  std::vector<Host*> living;
  for (auto& [id, host] : hosts_) {
    if (host.alive) living.push_back(&host);
  }
  return living.empty() ? nullptr : living[luck_.below(living.size())];
}

void Simulation::strike() {
  luck_ = world::Random(verdict_.seed * 104'729 + verdict_.blows);
  at(luck_.up_to(2 * menu_.between), [this] {
    if (now_ >= calm_) {
      for (const Zone& zone : world_.settings().zones) {
        world_.set_capacity(zone, std::nullopt, now_);
      }
      (void)world_.fault("clear", {}, now_);
      return;
    }
    luck_ = world::Random(verdict_.seed * 104'729 + ++verdict_.blows);
    const std::uint64_t kind = luck_.below(11);
    if (is_allowed(verdict_.blows, "BLOW")) blow(kind);
    strike();
  });
}

void Simulation::blow(std::uint64_t kind) {
  Host* host = any_host();
  const auto interrupt = [&](InterruptionAction action, Duration lead, const char* words) {
    if (!host || !world_.interrupt(host->id, action, lead, now_)) return;
    say(host->id.str(), words);
    look_at_metadata(*host, luck_.up_to(seconds(1)));
  };
  const auto terminate = InterruptionAction::Terminate;
  if (kind == 0 && menu_.notices) interrupt(terminate, seconds(120), "NOTICE: 120 s");
  if (kind == 1 && menu_.short_notices) interrupt(terminate, seconds(5), "NOTICE: 5 s");
  if (kind == 2 && menu_.kills && host) {
    say(host->id.str(), "KILLED");
    (void)world_.kill(host->id, now_);
  }
  if (kind == 3 && menu_.withdrawals && host) {
    interrupt(terminate, seconds(120), "NOTICE, to be withdrawn");
    at(luck_.up_to(seconds(110)), [this, id = host->id] {
      if (!world_.withdraw(id, now_)) return;
      say(id.str(), "notice withdrawn");
      look_at_metadata(hosts_[id], luck_.up_to(seconds(1)));
    });
  }
  if (kind == 4 && menu_.stops) {
    interrupt(InterruptionAction::Stop, seconds(120), "NOTICE: stop in 120 s");
  }
  if (kind == 5 && menu_.agent_kills && host && host->agent.alive) {
    kill_agent(*host);
    restart_later(*host);
  }
  if (kind == 6 && menu_.zones_close) {
    const auto& zones = world_.settings().zones;
    const Zone zone = zones[luck_.below(zones.size())];
    world_.set_capacity(zone, 0, now_);
    at(luck_.within({minutes(1), minutes(20)}),
       [this, zone] { world_.set_capacity(zone, std::nullopt, now_); });
  }
  if (kind == 7 && menu_.attach_hangs) {
    (void)world_.fault("attach-hangs", {{"for", "20s"}}, now_);
  }
  if (kind == 8 && menu_.slow_snapshots)
    (void)world_.fault("snapshot-takes", {{"time", "300s"}}, now_);
  if (kind == 9 && menu_.snapshot_errors)
    (void)world_.fault("snapshot-fails", {{"count", "1"}}, now_);
  if (kind == 9 && menu_.volume_errors) (void)world_.fault("volume-fails", {{"count", "1"}}, now_);
  if (kind == 10 && menu_.overlaps) {
    (void)world_.fleets(now_).modify({fleet_.id, 2, {}}, fleet_.kind);
    at(luck_.within({seconds(30), minutes(10)}), [this] {
      (void)world_.fleets(now_).modify({fleet_.id, 1, {}}, fleet_.kind);
    });
  }
}

}  // namespace spotter::simulate
