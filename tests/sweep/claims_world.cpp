#include "tests/sweep/claims_world.hpp"

#include <algorithm>
#include <cmath>

namespace spotter::sweep {
World::World(WorldSettings settings, std::uint64_t seed)
    : settings_(settings), random_(seed), experiments_(settings.experiments) {
  if (settings_.at_most == 0) {
    settings_.at_most =
        1000 * settings_.work +
        50 * settings_.work * static_cast<Moment>(settings_.experiments / settings_.hosts + 1);
  }
}

World::~World() = default;

void World::at(Moment when, std::function<void()> what) {
  events_.push({std::max(when, now_), ++order_, std::move(what)});
}

bool World::chance(double share) {
  return share > 0 && static_cast<double>(random_() >> 11U) * 0x1p-53 < share;
}

Moment World::uniform(Moment low, Moment high) {
  return low + static_cast<Moment>(random_() % static_cast<std::uint64_t>(high - low + 1));
}

Moment World::exponential(Moment mean) {
  const double share = (static_cast<double>(random_() >> 11U) + 0.5) * 0x1p-53;
  return 1 + static_cast<Moment>(-std::log(share) * static_cast<double>(mean));
}

void World::break_promise(const std::string& what) {
  if (broken_.empty()) broken_ = "at " + std::to_string(now_) + " ms: " + what;
}

std::string World::live() {
  for (std::size_t place = 0; place < settings_.hosts; ++place) start_machine(place);
  if (settings_.troubles.outages_every > 0) plan_outage();
  while (!events_.empty() && broken_.empty() && ended_ < experiments_.size()) {
    now_ = events_.top().when;
    if (now_ > settings_.at_most) {
      break_promise(std::to_string(experiments_.size() - ended_) + " experiments never ended");
      break;
    }
    const auto what = events_.top().what;
    events_.pop();
    what();
  }
  figures_.makespan = now_;
  for (const auto& machine : machines_) {
    if (machine->alive) figures_.machine_time += now_ - machine->born;
  }
  return broken_;
}

Moment World::bound() const {
  const Moment needed = settings_.work * static_cast<Moment>(settings_.experiments);
  Moment gone = 0;
  Moment since = 0;
  int up = 0;
  for (const auto& [when, change] : machines_up_) {
    const Moment more = (when - since) * up;
    if (gone + more >= needed) break;
    gone += more;
    since = when;
    up += change;
  }
  return since + (needed - gone) / std::max(1, up);
}

// --- machines

void World::start_machine(std::size_t place) {
  auto machine = std::make_unique<Machine>();
  machine->place = place;
  machine->born = now_;
  machine->rate = 1 + static_cast<double>(uniform(-100, 100)) * 1e-5;  // a thousandth: a bad one
  ClaimSettings claims;
  claims.experiments = settings_.experiments;
  claims.holder = "i-" + std::to_string(machines_.size());
  claims.nonce = claims.holder;
  claims.seed = random_();
  claims.lease = settings_.lease;
  machine->claimant = std::make_unique<Claimant>(claims);
  machines_.push_back(std::move(machine));
  machines_up_.emplace_back(now_, 1);
  Machine& it = *machines_.back();
  if (settings_.reclaims > 0) plan_end(it);
  plan_troubles(it);
  hear(it, Tick{});
}

void World::plan_end(Machine& machine) {
  const Moment end = now_ + settings_.notice + exponential(settings_.reclaims);
  at(end, [this, &machine] { end_machine(machine); });
  if (chance(settings_.troubles.silent_ends)) return;
  // The trainer goes on for as long as there is time to save.
  at(end - 20'000, [this, &machine] {
    if (machine.alive) hear(machine, Leave{});
  });
}

void World::end_machine(Machine& machine) {
  if (!machine.alive) return;
  if (machine.training) stop_trainer(machine);
  machine.alive = false;
  machine.claimant.reset();
  figures_.machine_time += now_ - machine.born;
  machines_up_.emplace_back(now_, -1);
  at(now_ + settings_.boot, [this, place = machine.place] { start_machine(place); });
}

void World::plan_troubles(Machine& machine) {
  const auto every = [this, &machine](Moment mean, auto begins, auto ends) {
    if (mean == 0) return;
    const Moment begin = now_ + exponential(mean);
    const Moment end = begin + uniform(1000, longest_trouble);
    at(begin, [&machine, begins, end] {
      if (machine.alive) begins(end);
    });
    at(end, [this, &machine, ends] {
      if (!machine.alive) return;
      ends();
      wake(machine);
    });
  };
  const auto& troubles = settings_.troubles;
  every(
      troubles.process_pauses_every, [&machine](Moment end) { machine.process_until = end; },
      [] {});
  every(
      troubles.machine_pauses_every,
      [this, &machine](Moment end) {
        train(machine);
        machine.machine_until = end;
      },
      [this, &machine] {
        machine.since = now_;
        train(machine);
      });
  every(
      troubles.clock_stops_every,
      [this, &machine](Moment) {
        machine.clock_stopped_at = now_;
        machine.bad_clock = true;
      },
      [this, &machine] {
        machine.clock_lost += now_ - machine.clock_stopped_at;
        machine.clock_stopped_at = -1;
      });
}

void World::plan_outage() {
  at(now_ + exponential(settings_.troubles.outages_every), [this] {
    outage_until_ = now_ + uniform(1000, longest_trouble);
    plan_outage();
  });
}

Time World::clock(const Machine& machine) const {
  const Moment until = machine.clock_stopped_at >= 0 ? machine.clock_stopped_at : now_;
  const auto gone = static_cast<double>(until - machine.born - machine.clock_lost);
  return Time(Duration(static_cast<Moment>(gone * machine.rate)));
}

bool World::good_clock(const Machine& machine) const { return !machine.bad_clock; }

// --- the agent's process

void World::hear(Machine& machine, const News& news) {
  if (!machine.alive) return;
  const Moment paused = std::max(machine.process_until, machine.machine_until);
  if (paused > now_) {
    at(paused, [this, &machine, news] { hear(machine, news); });
    return;
  }
  if (std::holds_alternative<Leave>(news) && machine.training) {
    save(machine);
    stop_trainer(machine);
  }
  obey(machine, machine.claimant->on(clock(machine), news));
}

void World::wake(Machine& machine) {
  const Time wake = machine.claimant->wake_at();
  if (wake == Time::max()) return;
  const auto left = static_cast<double>((wake - clock(machine)).count()) / machine.rate;
  const Moment when = now_ + std::max<Moment>(0, static_cast<Moment>(left) + 1);
  at(when, [this, &machine, number = ++machine.wakes] {
    if (!machine.alive || number != machine.wakes || machine.clock_stopped_at >= 0) return;
    hear(machine, Tick{});
  });
}

void World::obey(Machine& machine, Claimant::Orders orders) {
  for (auto& order : orders) {
    if (const auto* request = std::get_if<Request>(&order)) {
      judge_giving(machine, *request);
      carry(machine, *request);
    } else if (const auto* hint = std::get_if<Mark>(&order)) {
      ++figures_.requests;
      if (!chance(settings_.troubles.lost_requests) && !outage())
        at(now_ + uniform(10, 200), [this, hint = *hint] { mark(hint); });
    } else if (const auto* start = std::get_if<Begin>(&order)) {
      begin(machine, *start);
    } else if (const auto* more = std::get_if<Extend>(&order)) {
      machine.usable_until = more->usable_until;
    } else if (const auto* end = std::get_if<Published>(&order)) {
      // Whoever should mark it may die before: then others find it out.
      const Mark ended{end->index, Hint::Ended, true};
      if (!chance(settings_.troubles.lost_requests) && !outage())
        at(now_ + uniform(10, 2000), [this, ended] { mark(ended); });
    } else if (std::holds_alternative<End>(order)) {
      if (machine.training) stop_trainer(machine);
      bring(machine);
    } else if (const auto* complaint = std::get_if<Complaint>(&order)) {
      break_promise(complaint->text);
    }
  }
  wake(machine);
}

// The trainer's files go to its storage, which may take as long as its agent may live on.
void World::bring(Machine& machine) {
  const TrainerGone gone{machine.index, machine.token};
  machine.brings = gone;
  at(now_ + uniform(0, 40'000), [this, &machine, gone] {
    if (!machine.alive) return;
    machine.brings.reset();
    hear(machine, gone);
  });
}

void World::judge_giving(const Machine& machine, const Request& request) {
  const auto* write = std::get_if<WriteClaim>(&request.ask);
  if (write == nullptr || write->claim.state != Claim::State::Given) return;
  const auto& brings = machine.brings;
  if (brings && brings->token == write->claim.token && brings->index == write->index)
    break_promise("experiment " + std::to_string(write->index) +
                  " is given back while what it made is on its way");
}

// --- the trainer and its supervisor

void World::begin(Machine& machine, const Begin& begin) {
  ++figures_.attempts;
  for (const auto& other : machines_) {
    const bool stands_still = other->machine_until > now_;  // and wakes up dead
    if (!other->training || other->index != begin.index || stands_still) continue;
    ++figures_.overlaps;
    if (good_clock(*other) && good_clock(machine))
      break_promise("two trainers of experiment " + std::to_string(begin.index));
  }
  machine.training = true;
  ++machine.generation;
  machine.index = begin.index;
  machine.token = begin.token;
  machine.usable_until = begin.usable_until;
  machine.since = now_;
  machine.gained = false;
  machine.progress = 0;
  if (!begin.parent.empty())
    machine.progress = static_cast<std::int64_t>(attempt_token(begin.parent).value() &
                                                 ((1ULL << progress_bits) - 1));
  machine.judged = 0;
  if (!settings_.curves.empty())
    machine.reports = static_cast<std::size_t>(machine.progress / report_every());
  machine.fails = chance(settings_.troubles.failing_trainers);
  machine.fails_at = now_ + uniform(0, settings_.work);
  train(machine);
}

// Again at its next checkpoint, end or failure. Its supervisor ends it when the
// lease has run out, whether the agent's process runs or not.
void World::train(Machine& machine) {
  if (!machine.alive || !machine.training || machine.machine_until > now_) return;
  if (clock(machine) >= machine.usable_until) {
    stop_trainer(machine);
    return hear(machine, Tick{});
  }
  if (machine.fails && now_ >= machine.fails_at) {
    stop_trainer(machine);
    return hear(machine, TrainerFailed{machine.gained});
  }
  if (settings_.stop && ends_early(machine)) {
    save(machine);
    experiments_[machine.index].stopped_by = machine.token;
    stop_trainer(machine);
    return hear(machine, TrainerDone{});
  }
  const Moment since = now_ - machine.since;
  if (since >= settings_.checkpoints || machine.progress + since >= settings_.work) save(machine);
  if (machine.progress >= settings_.work) {
    stop_trainer(machine);
    return hear(machine, TrainerDone{});
  }
  const auto lease = static_cast<Moment>(
      static_cast<double>((machine.usable_until - clock(machine)).count()) / machine.rate);
  const Moment saved = now_ - machine.since;
  Moment next = std::min(settings_.checkpoints, settings_.work - machine.progress) - saved;
  next = std::min(next, std::max<Moment>(1, lease + 1));
  if (settings_.stop) {
    const Moment reached = machine.progress + saved;
    const auto report = static_cast<Moment>(machine.reports + 1) * report_every();
    next = std::min(next, std::max<Moment>(1, report - reached));
  }
  if (machine.fails) next = std::min(next, std::max<Moment>(1, machine.fails_at - now_));
  at(now_ + next, [this, &machine, generation = machine.generation] {
    if (machine.generation == generation) train(machine);
  });
}

void World::save(Machine& machine) {
  const Moment gained = now_ - machine.since;
  machine.progress += gained;
  machine.since = now_;
  machine.gained = machine.gained || gained > 0;
  figures_.trained += gained;
  experiments_[machine.index].saved.push_back({machine.token, machine.progress});
}

void World::stop_trainer(Machine& machine) {
  machine.training = false;
  ++machine.generation;
}

}  // namespace spotter::sweep
