// A share: a folder that many machines see. Mounted when nobody has done so, laid out for one job,
// and released lazily. Every function here may hang on a dead server: they run in `spotter host`.
#pragma once

#include "agent/host/device.hpp"
#include "agent/host/mounts.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::act::host {

// The command that mounts it: program and arguments. Pure.
// NFS: https://docs.aws.amazon.com/efs/latest/ug/mounting-fs-nfs-mount-settings.html; mount.efs:
// https://docs.aws.amazon.com/efs/latest/ug/efs-mount-helper.html; sshfs(1), ssh_config(5).
// `uid`, `gid`: of the trainer's user; `shown_to_all`: it is another than ours. Fails when
// `has_mount_efs` is false and only mount.efs can do what is asked.
Result<std::vector<std::string>> mount_command(const Share& share, std::uint32_t uid,
                                               std::uint32_t gid, bool shown_to_all,
                                               bool has_mount_efs);

// The meaning of a mount tool's words. Pure.
Error mount_failure(const Share& share, const std::string& words);

struct Prepared {
  static constexpr std::string_view keys = "- cache foreign id";
  bool already = false;  // it was mounted before
  std::string cache;     // words about it; that there is none is no failure
  std::string foreign;   // what is the job's by its place, and another's: whose, and what to do
  std::string id;        // of the job's folder (records.hpp); empty: it was not wanted
};

// Mounts unless something is mounted there, makes the job's folder and its directories, and writes
// and syncs a file in it: permission, space and the server's own errors show here.
Result<Prepared> prepare_share(const verbs::PrepareShare& request, const Machine& machine = {});

// Does nothing if it is not ours, or another holder uses it. Otherwise unmounts it lazily; sshfs's
// connection is cut when somebody still hangs in it. Answers whether it was unmounted.
Result<bool> release_share(const verbs::ReleaseShare& request);

// Without touching the server: is the share mounted (a folder: always)?
bool is_share_mounted(const Share& share);

// Does the server answer, and has it room? A server that has none does not always say so:
// over SFTP every refusal is the same "failure", which sshfs calls EIO.
Result<void> probe_share(const fs::path& home);

// `DONE` beside the checkpoints: the result is durable.
Result<void> mark_done(const fs::path& home, const std::string& job);

// Every file of `tree` (a file or a folder; missing is empty) is synced, and its folders: a network
// file system tells the errors of a file's writes to who syncs that file.
Result<void> sync_tree(const fs::path& tree);

// Appends what is new of the trainer's log, which is written on this machine, to `kept`, durably,
// and gives its room back: kept bytes become a hole before the others (zeros, where the file system
// knows no holes; then they go on taking room until the machine's end). The file is never made
// shorter, so a process that appends to it meanwhile loses nothing; what it wrote after this call
// began, or behind `end`, is the next call's. After a failure the next call goes on where this one
// did. A line is there twice only if this process or the machine ended between its copy and its
// hole, or if the hole could not be made. NUL bytes at the begin of the rest count as the hole's.
Result<void> keep_log(const fs::path& local, const fs::path& kept,
                      std::optional<std::uint64_t> end = std::nullopt);

// The users of a mount on this machine, and whether we mounted it. Kept beside the machine's other
// runtime state, so that it is gone when the mounts are: $SPOTTER_MOUNTS, else /run/spotter-mounts,
// or for ordinary users $XDG_RUNTIME_DIR/spotter-mounts or /tmp/spotter-mounts-UID. In /tmp anybody
// may have made it before: what is not our own folder (io::SafeDirectory::own()) is not used.

// Holds the mount point's lock until it is destroyed, or until unlock(). A process that hangs with
// the lock must not hang others: after a second it is done without.
class ShareUse {
 public:
  static Result<ShareUse> open(const fs::path& mount_point);

  void lock();
  void unlock() { lock_.close(); }

  void begin(const std::string& holder);
  void end(const std::string& holder);
  bool is_used() const;
  void is_ours(const MountEntry& entry);
  bool is_by_us(const MountEntry& entry) const;  // this very mount
  void forget_mount();

 private:
  ShareUse(io::SafeDirectory folder, io::SafeDirectory users)
      : folder_(std::move(folder)), users_(std::move(users)) {}

  io::SafeDirectory folder_, users_;  // the latter is below the former
  io::Descriptor lock_;
};

// After a lazy unmount of sshfs somebody may still wait for its server, in the kernel, where not
// even SIGKILL ends it: the connection is cut, and the wait with it (fuse's `abort`,
// https://docs.kernel.org/filesystems/fuse.html). Others: nothing.
void cut_if_stuck(const MountEntry& entry);

}  // namespace spotter::act::host
