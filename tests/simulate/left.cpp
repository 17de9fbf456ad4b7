// Others who stop the trainer. Remains of a session or a trainer: an
// unmount that the kernel ends only later, in no mount table; and processes that wait for a device,
// which not even SIGKILL ends.
#include "tests/simulate/simulation.hpp"

namespace spotter::simulate {

using decide::Failure;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Draws from a sequence of its own: runs without these faults stay the same for each seed. The
// server judges what a process holds on a share.
void Simulation::choose_left() {
  const std::uint64_t drawn = left_dice_.below(8);
  menu_.set(Fault::UnmountCut, on_volume() && (drawn == 0 || drawn == 1));
  menu_.set(Fault::ProcessesLeft, !on_share() && (drawn == 1 || drawn == 2));
  menu_.set(Fault::OthersStop, drawn >= 2 && drawn <= 4);
}

bool Simulation::is_left(const Host& host) const { return now_ < host.left_until; }

// Some end once their memory is unpinned; the others with the machine.
void Simulation::leave_processes(Host& host) {
  if (!now(Fault::ProcessesLeft) || !fires(0.2)) return;
  const bool for_ever = left_dice_.below(2) == 0;
  host.left_until = for_ever ? decide::kNever : now_ + left_dice_.within({seconds(5), minutes(4)});
  say(host.id.view(), "processes of the trainer do not end", for_ever ? "" : " yet");
}

// The supervisor starts no trainer beside them (supervise/processes.hpp), nor can what they use be
// unmounted. The agent counts one attempt a machine, when it has waited for long enough.
decide::Happening Simulation::refuse_beside_left(Host& host) {
  if (host.refused_since == decide::kNever || host.refused_by != host.agent.run) {
    host.refused_since = now_;
    host.refused_by = host.agent.run;
    host.refused_in_vain = false;
  }
  // An answer may take longer than the first one took.
  const bool long_enough = now_ - host.refused_since >= policy_.left_limit - policy_.left_retry;
  if (long_enough && !std::exchange(host.refused_in_vain, true)) ++ends_in_vain_;
  return failure(Failure::ProcessesLeft, "processes of the trainer before do not end");
}

// By such processes, whose files are open; or the unmount before has not ended.
bool Simulation::is_kept_busy(Host& host) {
  const bool left = is_left(host) && host.mounted && host.trainer.volume == host.mounted;
  // A file system that was shut down works again only after a new mount.
  needs_person_ = needs_person_ || (left && host.shut_down);
  return left || host.cut;
}

// The mount point is gone at once, and the file system when its last data is on the disk.
bool Simulation::cuts_unmount(Host& host) {
  if (!host.mounted || !now(Fault::UnmountCut) || !fires(0.5)) return false;
  host.cut = true;
  say(host.id.view(), "the unmount takes long");
  at(milliseconds(1), [this, id = host.id, run = host.agent.run] {
    Host* its = agent_of(id, run);
    if (!its || !its->cut) return;
    kill_agent(*its);
    restart_later(*its);
  });
  at(left_dice_.within({seconds(5), seconds(90)}), [this, id = host.id, boot = host.boot] {
    Host& its = hosts_[id];
    if (its.alive && its.boot == boot && its.cut) end_unmount(its);
  });
  return true;
}

void Simulation::end_unmount(Host& host) {
  if (host.shut_down) host.trainer.result_unsynced = false;
  sync(host);
  if (host.mounted) {
    world_.set_mounted(host.mounted, false, now_);
    disks_[host.mounted].dirty = host.shut_down;
  }
  host.mounted = {};
  host.shut_down = host.cut = false;
}

}  // namespace spotter::simulate
