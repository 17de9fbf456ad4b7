// Deals faults to the machines of a life.
#include <algorithm>

#include "tests/gang/simulator/world.hpp"

namespace spotter::gang {
namespace {

using Does = SimMachine::Does;

constexpr Duration shortest_notice{25'000}, longest_notice{120'000};
constexpr Duration longest_outage{100'000}, longest_cut{300'000};
constexpr Duration longest_partition{120'000}, longest_pause{200'000};
constexpr Duration longest_deafness{60'000}, more_to_wear_out{12 * 60'000};

std::string in_seconds(Duration duration) {
  return std::to_string((duration.count() + 500) / 1000) + " s";
}

}  // namespace

// Most lives have none of any one kind, so that two that meet are seen by themselves, too.
void SimWorld::draw_trouble() {
  const auto some = [&](double most) {
    return chance_() % 3 != 0 ? 0 : most * static_cast<double>(1 + chance_() % 1000) / 1000;
  };
  lock_lease_ = up_to(Duration(90'000));
  trouble_ = {.lasts = Duration(60'000) + up_to(Duration(6 * 60'000)),
              .notices = some(2),
              .kills = some(1.5),
              .pairs = some(1),
              .leaders = some(1),
              .saving = some(20),
              .meeting = some(20),
              .outages = some(0.7),
              .cuts = some(1),
              .partitions = some(1.5),
              .pauses = some(1.5),
              .crashes = some(4),
              .hangs = some(2),
              .relaunches = some(10),
              .deaf = some(6),
              .lost_requests = some(0.2),
              .lost_answers = some(0.2),
              .slow = some(0.3),
              .late = some(0.1),
              .arrivals = some(8),
              .spare = chance_() % 4 == 0 ? 1U : 0U,
              .on_fleet = chance_() % 2 == 0,
              .on_gpus = chance_() % 3 == 0,
              .wears_out = chance_() % 12 == 0};
  if (!trouble_.wears_out) return;
  trouble_.lasts += more_to_wear_out;
  trouble_.arrivals = 8;
  trouble_.on_fleet = true;
  trouble_.kills = trouble_.pairs = trouble_.leaders = trouble_.saving = trouble_.meeting = 0;
}

bool SimWorld::in_this_turn(double a_minute) {
  return a_minute > 0 && likely(a_minute * std::chrono::duration<double>(tick_).count() / 60);
}

bool SimWorld::is_leader(const SimMachine& machine) const { return machine.self->leads(); }

bool SimWorld::is_saving(const SimMachine& machine) const {
  return machine.does >= Does::Saves && machine.does <= Does::Commits;
}

bool SimWorld::is_meeting(const SimMachine& machine) const {
  return machine.does == Does::Meets || machine.does == Does::Asks;
}

void SimWorld::hit(SimMachine& machine, const char* why) {
  if (now_ >= machine.dies) return;
  say(machine.id + " is killed: " + why);
  if (machine.works()) truth_.lost.insert(machine.place->round);
  machine.dies = now_;
  count("kills");
}

void SimWorld::notice(SimMachine& machine) {
  if (std::exchange(machine.noticed, true)) return;
  const Duration lead = shortest_notice + up_to(longest_notice - shortest_notice);
  count("notices");
  say(machine.id + " is noticed, " + in_seconds(lead) + " before its end");
  machine.self->leave(now_ + lead - Duration(5'000));
  machine.dies = std::min(machine.dies, now_ + lead);
}

void SimWorld::draw_kill(double a_minute, const char* why,
                         bool (SimWorld::*fits)(const SimMachine&) const) {
  if (!in_this_turn(a_minute)) return;
  std::vector<SimMachine*> those;
  for (const auto& each : machines_)
    if (now_ < each->dies && (this->*fits)(*each)) those.push_back(each.get());
  if (!those.empty()) hit(*those[chance_() % those.size()], why);
}

void SimWorld::happen() {
  draw_kill(trouble_.kills, "by itself", &SimWorld::is_any);
  draw_kill(trouble_.leaders, "it leads", &SimWorld::is_leader);
  draw_kill(trouble_.saving, "while it saves", &SimWorld::is_saving);
  draw_kill(trouble_.meeting, "while a round forms", &SimWorld::is_meeting);
  refill();
  if (machines_.empty()) return;
  const auto one = [&]() -> SimMachine& { return *machines_[chance_() % machines_.size()]; };
  if (in_this_turn(trouble_.pairs)) {
    hit(one(), "with another");
    likely(0.5) ? hit(one(), "with another") : notice(one());
  }
  if (in_this_turn(trouble_.notices)) notice(one());
  // Machines that wait for a round: a new torchrun asks again, or one does not see the round begin.
  SimMachine& waits = one();
  if (waits.does == Does::Asks && in_this_turn(trouble_.relaunches)) {
    say(waits.id + ": its torchrun ends, and is started again");
    waits.self->idle();
    waits.does = Does::Starts;
    waits.next = now_ + up_to(Duration(1'500));
    count("torchruns started again");
  }
  if (waits.does == Does::Asks && in_this_turn(trouble_.deaf)) {
    waits.cut_until = now_ + up_to(longest_deafness);
    say(waits.id + " does not reach S3 while it waits, for " + in_seconds(waits.cut_until - now_));
    count("machines that see a round late");
  }
  if (in_this_turn(trouble_.outages)) {
    down_until_ = now_ + up_to(longest_outage);
    count("outages");
    say("S3 is silent for " + in_seconds(down_until_ - now_));
  }
  if (in_this_turn(trouble_.cuts)) {
    SimMachine& machine = one();
    machine.cut_until = now_ + up_to(longest_cut);
    count("cuts");
    say(machine.id + " does not reach S3 for " + in_seconds(machine.cut_until - now_));
  }
  if (in_this_turn(trouble_.pauses)) {
    SimMachine& machine = one();
    machine.paused_at = now_;
    machine.paused_until = now_ + up_to(longest_pause);
    count("pauses");
    say(machine.id + " is paused for " + in_seconds(machine.paused_until - now_));
  }
  if (in_this_turn(trouble_.partitions)) {
    const std::string from = one().id;
    const Time until = now_ + up_to(longest_partition);
    const bool of_all = likely(0.5);
    for (const auto& each : machines_)
      if (each->id != from && (of_all || likely(0.5))) parted_[std::minmax(from, each->id)] = until;
    count("partitions");
    say(from + " does not reach others for " + in_seconds(until - now_));
  }
}

// The fleet launches another in the place of one that is gone; or it comes late, or never does. A
// user may have started one more.
void SimWorld::refill() {
  if (machines_.size() < settings_.size + trouble_.spare && in_this_turn(trouble_.arrivals))
    say(arrive().id + " comes");
}

// Whom the gang has left out, and no fleet replaces, its user starts again once the network is
// back.
void SimWorld::start_again() {
  const auto& record = bucket_.record();
  if (!record) return;
  for (const Member& each : record->members) {
    SimMachine* const machine = find(each.id);
    if (!each.left_out || each.replaced || machine == nullptr || now_ >= machine->dies) continue;
    say(each.id + " is started again");
    machine->dies = now_;
  }
}

void SimWorld::end_trouble() {
  say("the trouble ends");
  down_until_ = now_;
  parted_.clear();
  for (const auto& each : machines_) {
    each->cut_until = std::min(each->cut_until, now_);
    each->paused_until = std::min(each->paused_until, now_);
  }
  while (machines_.size() < settings_.size) say(arrive().id + " comes");
}

}  // namespace spotter::gang
