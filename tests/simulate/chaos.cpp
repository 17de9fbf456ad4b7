// Draws faults and their times by the seed; all are over after three hours of virtual time at most.
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

// These happen one at a time; the others are conditions of the whole run.
constexpr Fault kTimedFaults[] = {Fault::Notice,
                                  Fault::ShortNotice,
                                  Fault::Kill,
                                  Fault::Withdrawal,
                                  Fault::Stop,
                                  Fault::Hibernate,
                                  Fault::FailedTermination,
                                  Fault::Rebalance,
                                  Fault::AgentKill,
                                  Fault::MetadataBroken,
                                  Fault::MetadataSlow,
                                  Fault::ClockStep,
                                  Fault::Throttled,
                                  Fault::Denied,
                                  Fault::DryRun,
                                  Fault::ZoneCloses,
                                  Fault::AllZonesClose,
                                  Fault::AttachHangs,
                                  Fault::AttachBusy,
                                  Fault::DetachHangs,
                                  Fault::DeviceAbsent,
                                  Fault::SlowSnapshots,
                                  Fault::HourSnapshots,
                                  Fault::SnapshotError,
                                  Fault::SnapshotRecoverable,
                                  Fault::VolumeError,
                                  Fault::KeyForbidden,
                                  Fault::Overlap,
                                  Fault::RaisedTarget,
                                  Fault::SecondVolume,
                                  Fault::VolumeDeleted,
                                  Fault::GitUnreachable,
                                  Fault::RevisionGone,
                                  Fault::DiskFull,
                                  Fault::DiskReadOnly,
                                  Fault::Hangs,
                                  Fault::ShareSilent,
                                  Fault::ShareDies,
                                  Fault::ShareDenied,
                                  Fault::ShareHeldOff,
                                  Fault::GpuLost,
                                  Fault::Paused,
                                  Fault::OthersStop};

// In one run of so many: these end the job early, or undo what it did.
constexpr std::pair<Fault, std::uint64_t> kRare[] = {
    {Fault::PermanentCrash, 24}, {Fault::HoursLimit, 24},  {Fault::DollarsLimit, 24},
    {Fault::VolumeDeleted, 6},   {Fault::ForeignDisk, 12}, {Fault::UntaggedBlank, 12},
    {Fault::SecondVolume, 6},    {Fault::RevisionGone, 4}, {Fault::DiskFull, 4}};

template <class Value, std::size_t N>
Value one_of(world::Random& random, const Value (&values)[N]) {
  return values[random.below(N)];
}

bool is_of_operator(Fault fault) {
  return fault == Fault::Overlap || fault == Fault::RaisedTarget || fault == Fault::SecondVolume ||
         fault == Fault::VolumeDeleted;
}

bool is_of_volume(Fault fault) {
  return fault >= Fault::AttachHangs && fault <= Fault::VolumeError;
}

bool is_of_share(Fault fault) {
  const auto number = static_cast<std::size_t>(fault);
  return number >= kFirstShareFault && number < kFirstGpuFault;
}

bool is_of_instance(Fault fault) {
  return fault <= Fault::AgentKill || fault == Fault::Hangs || fault == Fault::GpuLost ||
         fault == Fault::Paused || fault == Fault::OthersStop;
}

}  // namespace

void Simulation::choose_menu() {
  constexpr double call_rates[] = {0, 0, 0.02, 0.1, 0.3};
  constexpr double look_rates[] = {0, 0, 0, 0.02, 0.1};
  constexpr int lags[] = {0, 0, 2, 10, 30};
  constexpr int gaps[] = {30, 90, 240, 600};
  constexpr int storms[] = {20, 40, 60, 180};
  menu_.call_fails = one_of(random_, call_rates);
  menu_.look_fails = one_of(random_, look_rates);
  menu_.lag = seconds(one_of(random_, lags));
  menu_.between = seconds(one_of(random_, gaps));
  calm_ = now_ + minutes(one_of(random_, storms));
  // Few of ten faults are on, a third, most, or all: a pair of faults needs a run in which it is
  // alone.
  constexpr std::uint64_t shares[] = {1, 3, 3, 6, 10};
  const std::uint64_t share = one_of(random_, shares);
  for (std::size_t i = 0; i < kFirstShareFault; ++i) menu_.on[i] = random_.below(10) < share;
  for (const auto& [fault, one_in] : kRare) {
    if (random_.below(one_in) != 0) menu_.set(fault, false);
  }
  // An operator who deletes volumes has no second one: which of them is the job's could not be
  // known.
  if (menu_.has(Fault::SecondVolume)) menu_.set(Fault::VolumeDeleted, false);
  if (menu_.has(Fault::FleetOfMany)) menu_.fleet = 2 + static_cast<int>(random_.below(3));
  choose_work();
  choose_share();
  choose_fence();
  choose_gpus();
  choose_preparer();
  choose_data();
  choose_others();
  choose_fleet_tags();
  choose_left();
}

void Simulation::choose_work() {
  work_.aware = !menu_.has(Fault::Unaware);
  work_.mute = menu_.has(Fault::Mute);
  work_.doomed = menu_.has(Fault::PermanentCrash);
  work_.steps = 40 + static_cast<std::int64_t>(random_.below(160));
  work_.checkpoint_every = 1 + static_cast<std::int64_t>(random_.below(10));
  work_.step_takes = milliseconds(500 + random_.below(20'000));
  policy_.has_code = random_.below(2) == 0;
  policy_.sends_result = verdict_.seed % 3 == 0;
  policy_.attempts_without_progress = 50;  // interruptions before the first checkpoint count, too
  if (work_.doomed) {
    constexpr GiveUp policies[] = {GiveUp::ScaleToZero, GiveUp::Hold, GiveUp::Cancel};
    policy_.then = one_of(random_, policies);
    policy_.attempts_without_progress = 2 + static_cast<std::uint32_t>(random_.below(4));
  }
  if (menu_.has(Fault::HoursLimit)) policy_.hours_limit = 0.1 + 0.1 * random_.below(10);
  if (menu_.has(Fault::DollarsLimit)) policy_.dollars_limit = 0.1 + 0.1 * random_.below(10);
}

std::string Simulation::describe_menu() const {
  std::string text = "calls fail " + std::to_string(menu_.call_fails) + ", work fails " +
                     std::to_string(menu_.look_fails) + ", lag " +
                     std::to_string(menu_.lag.count()) + " ms, a fault each " +
                     std::to_string(menu_.between.count() / 1000) + " s, fleet of " +
                     std::to_string(menu_.fleet) + ":";
  for (std::size_t i = 0; i < kFaults; ++i) {
    if (menu_.on[i]) text += " " + std::string(name(static_cast<Fault>(i)));
  }
  return text;
}

Host* Simulation::any_host() {
  std::vector<Host*> running;
  for (auto& [id, host] : hosts_) {
    if (host.alive) running.push_back(&host);
  }
  return running.empty() ? nullptr : running[luck_.below(running.size())];
}

void Simulation::inject_in_world(const char* name,
                                 const std::map<std::string, std::string>& arguments) {
  say("chance", "fault ", std::string_view(name));
  if (!world_.fault(name, arguments, now_)) broken(std::string("no such fault: ") + name);
}

void Simulation::inject_later() {
  luck_ = world::Random(verdict_.seed * 104'729 + verdict_.faults);
  at(luck_.up_to(2 * menu_.between), [this] {
    if (now_ >= calm_) return;
    luck_ = world::Random(verdict_.seed * 104'729 + ++verdict_.faults);
    std::array<Fault, std::size(kTimedFaults)> wanted{};
    std::size_t count = 0;
    for (const Fault it : kTimedFaults) {
      if (menu_.has(it) && (on_volume() || !is_of_volume(it))) wanted[count++] = it;
    }
    if (count > 0) {
      const Fault fault = wanted[luck_.below(count)];
      if (is_allowed(verdict_.faults)) inject(fault);
    }
    inject_later();
  });
}

void Simulation::inject(Fault fault) {
  if (is_of_operator(fault)) return inject_operator_fault(fault);
  if (is_of_share(fault)) return inject_share_fault(fault);
  if (is_of_instance(fault)) {
    if (Host* host = any_host()) inject_instance_fault(fault, *host);
    return;
  }
  if (fault == Fault::DiskFull || fault == Fault::DiskReadOnly) return inject_disk_fault(fault);
  inject_cloud_fault(fault);
}

void Simulation::calm() {
  say("chance", "nothing breaks any more");
  for (const Zone& zone : world_.settings().zones) world_.set_capacity(zone, std::nullopt, now_);
  (void)world_.fault("clear", {}, now_);
  mend();
}

}  // namespace spotter::simulate
