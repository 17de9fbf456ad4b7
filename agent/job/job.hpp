// job.yaml + environment -> one validated Job, or every mistake in it at once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "agent/base/names.hpp"
#include "agent/job/batch.hpp"
#include "agent/job/channel.hpp"
#include "agent/job/launch.hpp"
#include "agent/job/parameters.hpp"
#include "agent/job/python_environment.hpp"
#include "agent/job/secrets.hpp"

namespace spotter::config {

enum class FileSystem : std::uint8_t { Xfs, Ext4 };
std::string_view to_text(FileSystem filesystem);  // "xfs", "ext4"

struct Tag {
  std::string key;
  std::string value;
};

// An EBS volume, found by its one tag.
struct EbsStorage {
  Tag tag;
  std::string mount = "/mnt/spotter";  // absolute, no "..", not a system directory
  FileSystem filesystem = FileSystem::Xfs;
  // After which everybody sees a change at EC2; waited three times in a move to another zone.
  std::optional<Duration> consistency_bound;  // none: the policy's 30 s
};

// Storage that many instances see: a folder that is there already, NFS, EFS, or a folder of a
// machine that ssh reaches. Jobs share it: each has a folder of its own below `mount`, by its name.
struct Share {
  enum class Kind : std::uint8_t { Folder, Nfs, Efs, Sshfs } kind = Kind::Folder;
  std::string mount = "/mnt/spotter";  // where it is seen; of a folder the folder itself
  std::string server;                  // nfs: a host; efs: fs-... or a DNS name; sshfs: [user@]host
  std::string path;                    // on the server
  std::string options;       // comma-separated: added to the defaults, or in the place of one
  std::string access_point;  // efs: fsap-...
  bool tls = false;          // efs
  std::string key;           // sshfs: the private key's file; empty: ssh's own choice
  std::string known_hosts;   // sshfs: where the server's key is; empty: ssh's own files
  std::uint16_t port = 22;   // sshfs
};

// Read-only: in each zone a volume of its own, made of one snapshot. The snapshot is the user's,
// and holds the trainer's data on a whole disk.
struct DataVolume {
  std::string snapshot;  // snap-...
  std::string mount;
  std::string type = "gp3";
  std::optional<std::uint64_t> iops;
  std::optional<std::uint64_t> throughput;           // MiB/s
  std::optional<std::uint64_t> initialization_rate;  // MiB/s; none: blocks come as they are read
};

struct Storage {
  EbsStorage ebs;
  std::optional<Share> share;    // instead of the volume
  std::vector<DataVolume> data;  // beside it

  const std::string& mount() const { return share ? share->mount : ebs.mount; }
};

struct Code {
  std::string repository;  // any git URL or path, without a password in it
  std::string revision;    // full commit id: 40 lower-case hex digits
  std::optional<SecretReference> token;
};

inline constexpr int all_gpus = -1;

struct Trainer {
  std::string command;  // for the user's login shell; never expanded by us
  std::string user;     // default: spotter, or the agent's own user when that is not root
  PythonEnvironment environment;
  std::map<std::string, std::string> env;
  std::map<std::string, SecretReference> secrets;
  bool inherits = false;           // `spotter run`: it gets our own variables, too
  std::optional<int> stop_signal;  // a number of <csignal>; default SIGTERM; none = nullopt
  std::optional<Duration> stop_grace;
  std::string role;           // ARN or name; empty: it has the instance's own credentials
  bool imds_allowed = false;  // it may ask the metadata service itself
  // That must be there before it starts; 0: nothing is looked for; all_gpus: whatever the machine
  // has, and one at least.
  int gpus = 0;
  // Of its unit, under systemd, and in its words (systemd.resource-control(5)); empty: none.
  std::string memory_max;  // "48G", "90%"
  std::string cpu_quota;   // "400%": of four CPUs
  std::string cpu_weight;  // 1 to 10000
  std::string result;      // relative to the mount; empty: exit status 0 alone counts as finished
};

struct Checkpoints {
  std::string directory = "checkpoints";  // relative to the mount
  // Of a trainer that knows nothing of Spotter: patterns of its files' names, separated by spaces.
  std::string files;  // empty: it writes none that we should watch
};

// The trainer's data.
struct Channels {
  std::vector<wire::Channel> all;  // each name once
  // SageMaker's InputDataConfig, where that is what job.yaml names; load_job() reads it.
  std::string document;
};

// Who is told of the job's state, if anybody (agent/service/observe/monitor.hpp).
struct Prometheus {
  std::optional<std::uint16_t> port;  // on 127.0.0.1
  std::string folder;                 // of the node exporter's text files; empty: none is written
};

// Who is told when something happens to the job, if anybody (agent/service/observe/notifier.hpp).
struct Notify {
  std::optional<SecretReference> webhook;  // a URL: whoever knows it may post there
  std::string topic;                       // of SNS: its ARN; empty: none
  std::vector<std::string> on{"notice", "resumed", "finished", "failed"};
};

// What `spotter prepare` brings onto the volume.
struct Source {
  std::string from;    // s3://bucket/prefix | https://host/file | /a/folder
  std::string to;      // a folder, relative to the mount
  std::string sha256;  // of the one file at a URL, lower case; empty: not compared
  // Where in S3 a folder of this machine is on its way to another one; empty: it does not go there.
  std::optional<wire::S3Location> via;  // the key ends with a slash, or is empty
};

// For programs that were written for SageMaker's containers.
struct SageMaker {
  std::string link;  // that leads to the folder on the volume, as /opt/ml; empty: none
  std::map<std::string, std::string> hyperparameters;
};

// Many experiments, each with the same command and a parameter set of its own.
struct Sweep {
  // Where the list is, which then is not in `sets`: an S3 URL. load_job() reads a file.
  std::string source;
  std::vector<sweep::Set> sets;
  std::optional<Batch> batch;  // where `spotter sweep submit` sends it
};

// The one of them that this process runs (job/experiment.hpp).
struct Experiment {
  std::size_t index = 0;
  sweep::Set set;
};

// Several machines may take this up: who has it is told by objects below `at`, in S3.
struct Claims {
  wire::S3Location at;     // the key ends with a slash, or is empty
  Duration lease{60'000};  // between two renewals; three times that, and it is somebody else's
};

enum class GiveUp : std::uint8_t { ScaleToZero, Hold, Cancel };

struct OnFailure {
  int attempts_without_progress = 3;
  GiveUp then = GiveUp::ScaleToZero;
};

struct Limits {
  std::optional<double> hours;
  std::optional<double> dollars;
};

struct Job {
  JobName name;
  Storage storage;
  std::optional<Code> code;
  Trainer trainer;
  Checkpoints checkpoints;
  Channels channels;
  std::vector<Source> prepare;  // of no concern to the agent
  // What can be fetched again is kept on the machine's own disks, where it has some.
  bool cache_on_instance_store = false;
  std::optional<SageMaker> sagemaker;
  std::optional<Sweep> sweep;
  std::optional<Experiment> experiment;  // of the sweep
  std::optional<Claims> claims;
  std::string attempt;  // of `claims`, for whoever works under one: the folder's name
  OnFailure on_failure;
  Limits limits;
  Prometheus prometheus;
  // Where its state, history and learning curve are to be seen; the key ends with a slash, or is
  // empty.
  std::optional<wire::S3Location> publish;
  Notify notify;
  std::optional<Launch> launch;  // `spotter launch`; of no concern to the agent
  std::optional<Fleet> fleet;    // none: learnt from the instance's own aws:* tags

  // The job's own folder on a share; of a sweep each experiment has one.
  std::string folder() const {
    return name.str() + (experiment ? "/" + std::to_string(experiment->index) : "") +
           (attempt.empty() ? "" : "/" + attempt);
  }
  // Where it is published: below `publish`, as jobs may share it. None: nowhere.
  std::optional<wire::S3Location> published_at() const {
    if (!publish) return std::nullopt;
    const std::string index = experiment ? std::to_string(experiment->index) + "/" : "";
    return wire::S3Location{publish->bucket, publish->key + name.str() + "/" + index};
  }
  // What its volumes and snapshots say whose they are (the tag spotter:job): an experiment has its
  // own, and what is left of another's move is not this one's to tidy up.
  std::string volumes_owner() const {
    return name.str() + (experiment ? "-" + std::to_string(experiment->index) : "");
  }
  // It is claimed piece by piece; this is not one of the pieces.
  bool is_handed_out() const { return claims && attempt.empty(); }
  // What belongs to the job alone: the volume, or its folder on the share.
  std::string home() const {
    return storage.share ? storage.share->mount + "/" + folder() : storage.ebs.mount;
  }
  // The trainer finds channels and SageMaker's folder, container_folder on the volume.
  bool in_container() const { return !channels.all.empty() || sagemaker; }
};

inline constexpr std::string_view container_folder = "ml";
inline constexpr std::string_view model_folder = "model";  // of an experiment

// One mistake; line and column count from 1, line 0 means the file as a whole.
struct Problem {
  int line = 0;
  int column = 0;
  std::string message;
  bool passing = false;  // the world's trouble, not the job's: to be tried again
};
template <class T>
using Checked = tl::expected<T, std::vector<Problem>>;

// What the job is read against. Pure input: tests give their own.
struct Environment {
  std::map<std::string, std::string> variables;
  std::string user;   // who the agent runs as; empty: not known, then `trainer.user` is not checked
  bool root = false;  // only root can run the trainer as somebody else
  bool foreground = false;  // `spotter run`: the trainer is us, unless job.yaml says who

  static Environment of_process();
};

inline constexpr std::size_t job_size_limit = 256U << 10;

// Pure. On failure: every mistake, sorted by position. `${NAME}` of the environment is expanded in
// storage.*.mount, code.repository, trainer.environment and tag values (`$${` is a plain `${`);
// trainer.command is the shell's to expand. Aliases, several documents, binary and texts over
// 256 KiB are refused.
Checked<Job> parse_job(std::string_view text, const Environment& environment);

// The same for a file, and for those that it names (the document of its channels, the list of its
// sweep), whose paths may be relative to it; one that cannot be read is a Problem with line 0.
Checked<Job> load_job(const std::string& path, const Environment& environment);

// `PATH:LINE:COLUMN: message`, one a line, each ended by a newline.
std::string describe(const std::vector<Problem>& problems, std::string_view path);

std::string_view to_text(Share::Kind kind);  // "folder", "nfs", "efs", "sshfs"
// For a person: "/mnt/share (sshfs of user@host:/opt/host)".
std::string describe(const Share& share);

}  // namespace spotter::config
