// Every limit that changes what the core decides, with its reason, and the job's own choices that
// it needs; limits of one call or process are where it is made. Times: durations on the boot clock.
#pragma once

#include <optional>

#include "agent/base/names.hpp"

namespace spotter::decide {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// The kind of storage that has the job's state (job.yaml: storage). A volume is brought to the
// instance, from zone to zone; a share is reached from everywhere: it is mounted, or a folder that
// is there already. A bucket has a folder here as its working copy, but only what the bucket has
// counts.
enum class StorageKind : std::uint8_t { Volume, Share, Bucket };

struct Policy {
  // --- the job's choices (job.yaml) ---
  std::uint32_t attempts_without_progress = 3;
  GiveUp then = GiveUp::ScaleToZero;
  // A trainer that hangs again without a new checkpoint would do so for ever, and each time costs
  // half an hour.
  std::uint32_t hangs = 2;
  Duration hold_limit = hours(24);  // of Hold: a person who looks comes within a day
  double hours_limit = 0;           // 0: none
  double dollars_limit = 0;         // 0: none
  // An instance that is lost without notice is no failure of the job. But a job whose trainer takes
  // the machine down must end, too: after this many times as many starts.
  std::uint32_t starts_per_attempt = 10;
  // A trainer that reports no checkpoints counts as having made one after it ran for this long.
  Duration settled = minutes(30);
  bool has_code = false;   // is there a repository to check out?
  int gpus = 0;            // that the trainer needs; 0: nothing is looked for; all_gpus
  std::uint32_t data = 0;  // volumes of data beside the job's own; 0: none
  StorageKind storage = StorageKind::Volume;
  ShortText<200> place;  // of a share, for a person: "/mnt/share (user@host:/opt/host)"
  // `spotter run`: AWS Batch, Slurm or a person starts the process again and owns the machines. The
  // process ends with the trainer or with a notice, and asks for no fleet and ends none.
  bool foreground = false;
  // The fleet has other machines of the job's gang, and they may train without this one. Only they
  // know how they get on: a machine that is blocked for too long ends itself and its place in the
  // fleet, and no other.
  bool gang = false;
  // A younger machine is not given back because it hinders its gang, of which only the trainer's
  // word is known: so each place of the fleet has that many replacements a day, and no more.
  Duration replace_after{0};
  // The two limits are of all its machines, each of which has a ledger of its own.
  bool sums_costs = false;
  // `spotter prepare`: fills the volume, and starts no trainer (preparing.cpp). Goes with `once`.
  bool fills = false;
  // The job has a place in S3 where its result is for whoever fetches it. With `fills`: files of
  // the volume go there, whether it is done or not, and none come.
  bool sends_result = false;
  // An epoch says who may use the volume (survey.hpp), and no bound is waited for.
  bool fence = false;
  Fleet fleet;  // None: learn it from the instance's own tags
  // The trainer's time to checkpoint and end: two minutes less `release_durable`.
  Duration stop_grace = seconds(110);

  // --- the cloud ---
  // EC2 is eventually consistent; AWS names no bound. Everything seen in practice settles within
  // it. A move waits it twice where another instance was first, three times where an answer is
  // lost; so does the end: a job may lower it (storage.ebs.consistency_bound).
  Duration consistency_bound = seconds(30);
  // A fleet's tags come after its instance, by what users report up to a minute or more later; AWS
  // names no bound. An instance that shows none for so long has no fleet.
  Duration fleet_tags = minutes(2);
  // An EC2 call answers in well under a second; the SDKs allow 60 s. Half of that leaves time to
  // look again within the two minutes of a notice.
  Duration ec2_call = seconds(30);
  // The age that a look may have from which a commit follows, and the time that the commit may
  // take: what another instance writes meanwhile is lost (migrate.cpp). A job's shorter bound
  // shortens it, but not below what a look of four calls takes.
  Duration commit_call = seconds(5);
  Duration commit_call_least = seconds(3);
  // S3 answers within a second; a write that takes longer is settled by the next read.
  Duration epoch_call = seconds(10);
  // While a state change is awaited (attach takes 1 to 4 s, a snapshot with little that is new from
  // a few seconds up to minutes). A look is four calls, of which EC2 takes 20 a second.
  Duration poll_attachment = milliseconds(500);
  Duration poll_snapshot = seconds(2);
  // While another instance has the volume, which it may release at any time.
  Duration poll_held = seconds(5);
  // AWS support's advice: more than a minute and a half in `attaching` never ends well.
  Duration attaching_limit = seconds(90);
  // Device names that are tried before a person is needed; EC2 recommends eleven (/dev/sd[f-p]).
  std::uint32_t attach_tries = 5;
  // After a failed call that the client has already retried: double from the first to the last.
  Duration retry_first = seconds(2);
  Duration retry_last = seconds(60);
  // A change that EC2 took so often, and does not show, is made again only after a pause; after so
  // many a person should look. EC2 may show the first ones late.
  std::uint32_t changes_at_once = 3;
  std::uint32_t changes_in_vain = 20;
  // A person has to act: looking twice a minute notices it soon and costs nothing.
  Duration blocked_retry = seconds(30);
  // An instance that waits for a person for longer costs money for nothing: the job's failure
  // policy ends it (never by cancelling: the fault is not the job's).
  Duration blocked_limit = minutes(60);
  // A fleet that a machine may not end costs on: after so many refusals the machine shuts down.
  std::uint32_t refusals = 3;
  // What IAM was asked for holds everywhere within a minute: who follows such a machine, and is
  // refused too, waits no longer than this.
  Duration blocked_again = minutes(2);
  // The snapshot of a volume that was released for longer is not what a move copies: a person may
  // have changed the volume by hand since. The next machine comes within minutes, or much later.
  Duration released_counts = minutes(15);
  // Leftovers in the cloud (old snapshots, dropped candidates) are removed this often.
  Duration tidy_every = minutes(10);
  // At the end: another agent detaches its copy when it sees `done`, and a missing permission may
  // be given; beyond the limit an idle instance costs more than what it leaves.
  Duration tidy_limit = minutes(15);

  // --- the host ---
  Duration imds_call = seconds(10);
  Duration look = seconds(10);
  Duration device =
      seconds(60);  // an attached NVMe disk appears within 2 s; udev may be busy at boot
  Duration inspect = seconds(60);
  Duration make_filesystem = minutes(5);
  Duration mount = minutes(30);   // a dirty log of a lazily loaded volume is replayed from S3
  Duration verify = minutes(60);  // checksums of a checkpoint of many GB, lazily loaded
  // At boot a driver is loaded, and the fabric manager of eight GPUs trains their links for a
  // minute or two. A GPU that is not there after this never comes.
  Duration await_gpus = minutes(5);
  Duration fetch_code = minutes(15);
  // SIGKILL ends a process as soon as its memory is unpinned or its core is dumped: seconds to a
  // minute or two. A process that waits for a device for ever ends only with the machine.
  Duration left_retry = seconds(10);
  Duration left_limit = minutes(5);
  Duration fill = hours(7 * 24);  // as many terabytes as job.yaml names; a person watches
  Duration start_trainer = seconds(30);
  Duration ledger = seconds(30);
  Duration unmount = seconds(60);
  // 100 GB at 50 MB/s. An instance that has ended its work costs money meanwhile.
  Duration send_result = minutes(30);
  std::uint32_t send_tries = 3;
  // The ledger of hours, dollars and attempts is written this often while training.
  Duration ledger_every = seconds(60);

  // --- a share ---
  // mount.nfs tries for two minutes before it says why not; ssh is done in seconds.
  Duration prepare_share = seconds(150);
  // A lazy unmount does not wait for open files; each process has synced what it wrote.
  Duration release_share = seconds(5);
  // Writing the ledger blocks while the server is dead; before a deadline it gets no more time than
  // this.
  Duration ledger_while_leaving = seconds(5);
  // A trainer that waits for a dead server in the kernel survives SIGKILL until the server answers
  // or the mount is gone. It does nothing more of its own: after so many kills we go without it.
  std::uint32_t share_kills = 2;
  // A machine whose metadata service does not answer so many requests has none (a laptop, a
  // container); fewer failures are an outage, and on an instance all are.
  std::uint32_t identity_tries = 4;

  // --- a home in a bucket ---
  // As many gigabytes as there are; S3 that gives no byte for a minute has failed long before.
  Duration bring_home = minutes(60);
  Duration keep_home = minutes(60);
  // The epoch's release still needs this before a deadline.
  Duration keep_reserve = seconds(3);

  // --- volumes of data ---
  // A volume that is made of a snapshot is there within seconds, its blocks come as they are read
  // (or at the rate that job.yaml pays for). If it is not there after this, a person should look at
  // it.
  Duration prepare_data = minutes(10);
  // An unmount, a detach of 1 to 4 s, at the end a delete.
  Duration release_data = seconds(60);
  // At the end of the job: what stays attached or made costs on.
  std::uint32_t release_data_tries = 5;

  // --- the notice ---
  // The trainer is killed this long before the deadline, so that unmount (a sync of what remains in
  // the page cache) and detach (1 to 4 s) still fit. After a short notice it is a third of what is
  // left.
  Duration release_reserve = seconds(20);
  // The same where the trainer's checkpoints are durable when it says so. A release that is cut by
  // the machine's end loses nothing then: the next one waits for EC2 to detach the volume.
  Duration release_durable = seconds(10);
  // A busy mount or a refused detach is tried again this soon, for the deadline is near; SIGKILL is
  // sent again to processes that were started since the last.
  Duration release_again = seconds(1);
  Duration kill_again = seconds(5);
  // A mount that stays busy, or a trainer that survives SIGKILL, is stuck in the kernel. When the
  // job is over, the fleet is ended after so many tries; the instance's end does the rest.
  std::uint32_t stuck_tries = 60;
  // EC2 did not terminate an instance that runs this long after its deadline: it works again.
  Duration spared_after = seconds(60);

  // --- what it pays to do ahead (pace.hpp) ---
  // Before anything of this job is known: an interruption in 100 minutes, as in real fleets of p3
  // and g4dn (Bamboo, Thorpe et al., NSDI 2023: the traces of tests/simulate/traces: 0.55 to 0.61
  // an instance-hour), and one in ten without a notice that could be used: AWS calls notices "best
  // effort" and gives no share.
  Duration between_interruptions = minutes(100);
  double unannounced = 0.1;
  // A checkpoint is taken to hold up for so long a trainer that does not report its stalls.
  Duration checkpoint_stall = seconds(5);
  // More often, and a checkpoint begins before the one before it is durable; more seldom, and one
  // unlucky loss hurts whatever the average.
  Duration checkpoint_least = seconds(30);
  Duration checkpoint_most = minutes(60);
  // The trainer is advised another interval when it differs by more than this share.
  double pace_change = 0.2;
  // One public report has 30 rebalance recommendations: an interruption followed 9 of them.
  double hint_followed = 0.3;
  // Snapshots ahead: one in this time, each begun after a durable checkpoint. They are incremental,
  // so more of them store no more; but each costs calls to find, make and delete it.
  Duration snapshot_every = minutes(5);
  // EBS standard snapshots cost 0.05 dollars a GB-month (us-east-1); two in three interruptions
  // lead to another of three zones; a full copy takes about 10 s a GB.
  double snapshot_dollars = 0.05;
  double moves = 2.0 / 3;
  std::chrono::duration<double> copy_of_gigabyte{10};
  // A volume of a snapshot is slow until each block was touched: 300 touches of 256 KiB a second at
  // most, users report. At a rate EBS loads it, for about 0.0036 dollars a GiB at 300 MiB/s
  // (us-east-1). A start waits for its newest checkpoint, and a trainer for data that it reads
  // sooner than they are loaded: a quarter of what the volume holds, but never longer than
  // load_most.
  std::optional<std::uint32_t> initialization_rate;  // MiB/s; 0: no rate; empty: what pays
  double cold_rate = 75;                             // MiB/s
  double rate_dollars = 0.0036 / 300;                // for each GiB and MiB/s
  double share_awaited = 0.25;
  Duration load_most = minutes(10);
  // The answer to the final snapshot is awaited for one in so many parts of the time that a notice
  // leaves.
  std::uint32_t final_snapshot_share = 4;

  // --- the trainer ---
  // A trainer that has reported steps and then reports none for so long hangs, and is killed.
  // Longer than an evaluation between two epochs; one that never reported a step is not killed.
  Duration silence_limit = minutes(60);
  Duration restart_first = seconds(2);  // after a crash, doubled each time ...
  Duration restart_last = seconds(60);  // ... up to here
};

}  // namespace spotter::decide
