// The machine's local work for a job, and the folder on its own disks for what can be fetched
// again, if job.yaml wants one.
#pragma once

#include <memory>
#include <set>

#include "agent/config/job.hpp"
#include "agent/decide/effect.hpp"
#include "agent/decide/event.hpp"
#include "agent/io/asio.hpp"
#include "agent/io/process.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::act {

inline constexpr std::size_t longest_detail = 200;  // a decide::Detail, in bytes

// A folder beside the storage, shared by all that the job runs on this machine. Empty: job.yaml
// wants none. It exists only where the machine has such disks.
inline std::string cache_folder(const config::Job& job) {
  if (!job.cache_on_instance_store) return {};
  // Then the working copy is on that disk, too, and this folder of it goes to no bucket.
  if (job.storage.in_bucket()) return job.home() + "/cache";
  return job.storage.mount() + "-cache/" + job.name.str();
}

// Local work: each piece is a child process `spotter host`, so that a hang (a dead disk, a
// dead server) never stops the agent, and an abandoned piece can be killed.
class Local {
 public:
  // `program`: the spotter binary itself; `log`: the trainer's, on this machine (a share's may
  // hang).
  Local(const config::Job& job, std::string program, std::string run_directory)
      : job_(job), program_(std::move(program)), run_directory_(std::move(run_directory)) {}

  using Answer = asio::awaitable<decide::Happening>;

  const config::Job& job() const { return job_; }
  const std::string& run_directory() const { return run_directory_; }
  Answer on(decide::FindDevice effect, Duration limit);
  Answer on(decide::InspectDisk effect, Duration limit);
  Answer on(const decide::MakeFilesystem& it, Duration limit);
  Answer on(decide::Mount effect, Duration limit);
  Answer on(const decide::Unmount& it, Duration limit);
  // Reads on, behind the trainer, what the volume has that is mounted there: host/cold.hpp. None:
  // it failed, or was given up.
  struct Warmth {
    std::uint64_t at = 0, read = 0, total = 0;  // bytes
  };
  asio::awaitable<std::optional<Warmth>> warm(VolumeId volume, std::string mount_point,
                                              std::uint64_t from, Duration time);
  Answer mount_data(Device device, std::string mount_point, Duration limit);  // read-only
  Answer unmount_data(std::string mount_point, Duration limit);
  // The mount that is there, if any; an empty id: its volume is not known.
  struct MountSeen {
    VolumeId volume;
    bool read_only = false;
  };
  asio::awaitable<std::optional<MountSeen>> mounted_at(std::string mount_point, Duration limit);
  Answer on(decide::PrepareShare, Duration limit);
  // The home's id, if machines share the job's work, once the share was prepared
  // (host/records.hpp).
  const std::string& home_id() const { return home_id_; }
  Answer on(const decide::ReleaseShare&, Duration limit);
  // A home in a bucket (verbs.hpp); the answers are the verbs' own, as JSON.
  asio::awaitable<Result<std::string, decide::EffectFailed>> home_verb(verbs::Verb verb,
                                                                       Duration limit);
  Answer on(const decide::MarkDone&, Duration limit);  // on a share
  // `refuse` is called before the answer if another command of `spotter run` has something here.
  Answer on(decide::ReadLedger, Duration limit);
  std::function<void(std::string why)> refuse;
  // `given_up`: no machine trains on, and there is no result.
  Answer write_ledger(decide::Ledger ledger, bool given_up, Duration limit);
  Answer on(const decide::SyncStorage&, Duration limit);
  Answer on(decide::SendResult, Duration limit);
  asio::awaitable<Result<std::uint64_t, decide::EffectFailed>> send(config::Sending files,
                                                                    Duration limit);
  Answer on(decide::VerifyCheckpoints effect, Duration limit);
  Answer on(const decide::AwaitGpus&, Duration limit);
  // Makes them for a job that awaits no GPUs, on a machine that has some: a systemd unit may
  // neither make device nodes (nvidia-modprobe is setuid) nor use those of a driver that is loaded
  // later.
  asio::awaitable<void> make_gpu_nodes(Duration limit);
  Answer fetch_code(std::string token, Duration limit);
  Answer on(decide::FillVolume effect, Duration limit);

  // Fills in only the part of the job's storage that is mounted here.
  asio::awaitable<Result<decide::HostLooked, decide::EffectFailed>> mounted(Duration limit);
  // Is there a file at `path`? Asked again and again within `limit`. A path that cannot be looked
  // at is not absent: EffectFailed. When that goes on for on_failure.blocked: no.
  asio::awaitable<Result<bool, decide::EffectFailed>> is_there(std::string path, Duration limit);
  // Keeps on the share what the trainer wrote to its log; if that fails, the next call does it.
  asio::awaitable<void> keep_log(Duration limit);
  // New lines of the learning curve, of a trainer that went on from step `resumed` if it said so,
  // join those on the storage (host/records.hpp). False: it failed.
  asio::awaitable<bool> keep_metrics(std::string lines, std::optional<std::uint64_t> resumed,
                                     Duration limit);

  // Lines join those of the file of that name on the storage (host/records.hpp).
  // False: it failed.
  asio::awaitable<bool> keep_lines(std::string name, std::string lines, Duration limit);

  // A verb on an attempt, of an experiment that several machines may take up (host/attempt.hpp),
  // with the rights of the trainer's user, as all work in a home: its answer, a text.
  asio::awaitable<Result<std::string>> of_attempt(verbs::Verb verb, Duration limit);

 private:
  friend class ShareWatch;
  struct Work;
  asio::awaitable<Work> run(verbs::Request wanted, Duration limit);
  // A verb whose answer has no value.
  Answer carry_out(verbs::Request wanted, Duration limit, decide::Happening done);

  std::string link() const { return job_.sagemaker ? job_.sagemaker->link : std::string(); }
  Share of_job() const;
  void lay_out(verbs::PrepareShare& verb) const;
  verbs::Request in_home(verbs::Verb verb) const;
  verbs::Request as_trainer(verbs::Verb verb) const;

  const config::Job& job_;
  std::string program_;
  std::string run_directory_;
  bool hanging_ = false;   // the share's server: nothing is begun on it but to release it
  bool prepared_ = false;  // the job's folder was on the share
  std::string home_id_;
  std::optional<std::chrono::steady_clock::time_point> unknown_since_;  // is_there()
};

// Has cold volumes read, piece by piece, behind the trainer: the job's own, then those of data that
// EBS does not load by itself. The run directory says to the next agent how far each was read.
class Warming {
 public:
  // `seen` is called with what was read by then of the volume that is read, last when it is all.
  Warming(asio::io_context& context, Local& local, std::function<void(Local::Warmth)> seen)
      : context_(context), local_(local), seen_(std::move(seen)) {}

  // Without a trainer what is under way ends at once. `own`: the job's volume, if it is cold.
  void follow(bool trains, const VolumeId& own);

 private:
  void start();
  asio::awaitable<void> read_all(VolumeId own);
  asio::awaitable<void> read(VolumeId volume, std::string mount_point);

  asio::io_context& context_;
  Local& local_;
  std::function<void(Local::Warmth)> seen_;
  std::pair<bool, VolumeId> wanted_;  // as follow() was called
  bool again_ = false;                // it has changed since what is under way began
  std::set<VolumeId> done_;           // all is read, or it fails
  std::shared_ptr<asio::cancellation_signal> running_;
};

// Checks now and then whether a share's server answers, in a process of its own: any other process
// would hang with a dead server until a deadline, and could not say why.
class ShareWatch {
 public:
  // REQUIRES: the job's storage is a share. `wanted`: is the share in use? `say` takes what hangs
  // or fails; empty: nothing.
  ShareWatch(asio::io_context& context, Local& local, std::function<bool()> wanted,
             std::function<void(std::string)> say)
      : local_(local),
        wanted_(std::move(wanted)),
        say_(std::move(say)),
        place_(config::describe(local.job().storage)),
        pause_(context),
        patience_(context) {}

  // Checks every `kEvery`, until the io_context ends. One check at a time: a check that hangs in
  // the kernel is waited for, and its end shows that the server is back.
  asio::awaitable<void> watch();

  static constexpr Duration kEvery{10'000};
  static constexpr Duration kPatience{10'000};

 private:
  asio::awaitable<void> ask();
  void said(const std::string& words);

  Local& local_;
  std::function<bool()> wanted_;
  std::function<void(std::string)> say_;
  std::string place_;  // for a person
  asio::steady_timer pause_;
  asio::steady_timer patience_;
  std::string last_;
};

}  // namespace spotter::act
