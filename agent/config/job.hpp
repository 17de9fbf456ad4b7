// job.yaml and environment -> one validated Job, or every mistake in it at once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/aws/formats/tags.hpp"
#include "agent/base/names.hpp"
#include "agent/base/result.hpp"
#include "agent/config/batch.hpp"
#include "agent/config/channel.hpp"
#include "agent/config/launch.hpp"
#include "agent/config/parameters.hpp"
#include "agent/config/python_environment.hpp"
#include "agent/config/secrets.hpp"

namespace spotter::config {

enum class FileSystem : std::uint8_t { Xfs, Ext4 };
std::string_view to_text(FileSystem filesystem);  // "xfs", "ext4"

struct Tag {
  std::string key;
  std::string value;
};

// An EBS volume, found by this one tag.
struct EbsStorage {
  Tag tag;
  std::string mount = "/mnt/spotter";  // absolute, no "..", not a system directory
  FileSystem filesystem = FileSystem::Xfs;
  // The time that EC2 may take to show a change; a job waits so long where it cannot know
  // (policy.hpp).
  std::optional<Duration> consistency_bound;  // none: the policy's 30 s
};

// A read-only volume, made in each zone from one snapshot. The snapshot is the user's, and has the
// trainer's data on a disk without partitions.
struct DataVolume {
  std::string snapshot;  // snap-...
  std::string mount;
  std::string type = "gp3";
  std::optional<std::uint64_t> iops;
  std::optional<std::uint64_t> throughput;           // MiB/s
  std::optional<std::uint64_t> initialization_rate;  // MiB/s; none: blocks are loaded when they are
                                                     // read
};

struct Storage {
  EbsStorage ebs;
  std::optional<Share> share;    // in place of the volume
  wire::S3Location bucket;       // of Share::Kind::S3; the key ends with a slash, or is empty
  std::vector<DataVolume> data;  // beside the volume or share

  bool in_bucket() const { return share && share->kind == Share::Kind::S3; }
  const std::string& mount() const { return share ? share->mount : ebs.mount; }
};

struct Code {
  // Any git URL or path, without a password in it; or s3://bucket/prefix/, a place of archives
  // (commands/code_archive.hpp). Empty: `folder` was not sent.
  std::string repository;
  std::string revision;  // full commit id: 40 lower-case hex digits
  std::optional<SecretReference> token;
  std::string folder;  // on the machine that launches: its files are the code
};

inline constexpr const char* code_folder = "code";     // below what is published, and in the home
inline constexpr const char* code_sent = "code.sent";  // beside job.yaml: where `folder` was sent
// The files of an archive.
inline constexpr const char* code_bundle = "code.bundle";
inline constexpr const char* code_record = "code.txt";
// Attributes with which git neither changes the ends of lines nor runs a filter.
inline constexpr std::string_view code_as_it_is = "* -text -filter -ident !working-tree-encoding\n";

struct Trainer {
  std::string command;  // for the user's login shell, which alone expands it
  std::string user;     // default: spotter, or the agent's own user when that is not root
  PythonEnvironment environment;
  std::map<std::string, std::string> env;
  std::map<std::string, SecretReference> secrets;
  bool inherits = false;  // `spotter run`: it also gets this process's variables
  // Words of `spotter run -- COMMAND` without a description: they say which job it is, and whether
  // a storage that has seen another one is used all the same.
  std::string words;
  bool new_words = false;
  std::optional<int> stop_signal;  // a number of <csignal>; default SIGTERM; none = nullopt
  std::optional<Duration> stop_grace;
  std::string role;  // ARN or name; empty: trainer_role.hpp
  // Places in S3, beside those that other keys name; each ends with a slash, or is a bucket.
  std::vector<wire::S3Location> reads, writes;
  bool imds_allowed = false;  // it may use the metadata service itself
  bool trusted = false;       // `user` may be one who can become root
  // GPUs that must be there before it starts; 0: not checked; all_gpus: all that the machine has,
  // at least one.
  int gpus = 0;
  // Limits of its systemd unit, as in systemd.resource-control(5); empty: none.
  std::string memory_max;  // "48G", "90%"
  std::string cpu_quota;   // "400%": of four CPUs
  std::string cpu_weight;  // 1 to 10000
  std::string result;      // relative to the mount; empty: exit status 0 alone counts as finished
};

struct Checkpoints {
  std::string directory = "checkpoints";  // relative to the mount
  // One of these for a trainer without libspotter: patterns of its files' names, or of folders
  // directly in the directory, each of which is one checkpoint. Separated by spaces. Both empty:
  // all that is there, unless libspotter saves there.
  std::string files;
  std::string folders;
  bool has_patterns() const { return !files.empty() || !folders.empty(); }
  // The files that one save writes: patterns with `{step}` (guard/moments.hpp). Empty: it is
  // learned.
  std::string set;
  // The location to which whole folders are copied, and from which they are fetched; a key with a
  // slash at its end. None: nowhere. Job::checkpoints_in_s3() is the trainer's own.
  std::optional<wire::S3Location> s3;
  // The best by this metric is kept, too, whatever the trainer removes (guard/best.hpp).
  std::optional<sweep::Objective> keep_best;
};

// A log that a trainer writes for itself, from which its metrics are read
// (wire/metric_log.hpp).
struct MetricsLog {
  std::string csv;         // relative to the mount; its components may be patterns of glob(7)
  std::string json_lines;  // the same; exactly one of the two
  std::map<std::string, std::string> columns;  // our name for it -> the column's

  const std::string& file() const { return csv.empty() ? json_lines : csv; }
};

// The trainer's data.
struct Channels {
  std::vector<wire::Channel> all;  // each name once
  // The file with SageMaker's InputDataConfig, if job.yaml names one; load_job() reads it.
  std::string document;
};

// Export of the job's metrics (agent/service/observe/monitor.hpp).
struct Prometheus {
  std::optional<std::uint16_t> port;  // on 127.0.0.1
  std::string folder;                 // of the node exporter's text files; empty: none is written
};

// Notification of the job's events (agent/service/observe/notifier.hpp).
struct Notify {
  std::optional<SecretReference> webhook;  // a URL, which is all that is needed to post there
  std::string topic;                       // of SNS: its ARN; empty: none
  std::vector<std::string> on{"notice", "resumed", "finished", "failed"};
};

inline constexpr const char* results_folder = "results";  // below what is published
inline constexpr const char* fetched_folder = "fetched";

// The files of a volume that a machine of `spotter fetch` puts into S3.
struct Sending {
  std::vector<std::string> paths;  // relative to the job's home
  wire::S3Location to;             // the key ends with a slash
};

// Settings for programs that were written for SageMaker's containers.
struct SageMaker {
  std::string link;  // a path that links to the folder on the volume, as /opt/ml; empty: none
  std::map<std::string, std::string> hyperparameters;
};

// Many experiments, each with the same command and a parameter set of its own.
struct Sweep {
  // The S3 URL of the list, which is then not in `sets`. load_job() reads a list in a file.
  std::string source;
  std::vector<sweep::Set> sets;
  std::optional<Batch> batch;  // where `spotter sweep submit` runs it
  // By which its experiments are compared; none: ranking_of() of sweep/summary.hpp chooses.
  std::optional<sweep::Objective> objective;
  std::optional<sweep::Asha> stop;  // none: each experiment is trained to its end
};

// The experiment of the sweep that this process runs (config/experiment.hpp).
struct Experiment {
  std::size_t index = 0;
  sweep::Set set;
};

// Several machines may run this: objects below `at`, in S3, say which one has it.
struct Claims {
  wire::S3Location at;     // the key ends with a slash, or is empty
  Duration lease{60'000};  // between two renewals; after three of them without one it is free
};

// Several machines train one model together (agent/gang/participant.hpp).
struct Gang {
  int size = 1;             // machines, when all are there
  int min = 1;              // fewer do not train
  wire::S3Location at;      // its record lies below it; the key ends with a slash
  Duration lease{60'000};   // a machine that writes nothing for so long counts as dead
  int copy_every = 0;       // steps between copies of the state in the machines' memory; 0: none
  Duration stall{600'000};  // so long without a step is a hang; 0: nobody looks
  Duration replace_after{1'800'000};  // Policy::replace_after
};

// The name of an experiment's own things: "mnist:7". Neither the name of a job nor the tag of
// another job's volume has a colon, so the pattern "mnist:*" of a policy is no other job's.
inline constexpr char before_index = ':';
inline std::string of_experiment(const std::string& name, std::size_t index) {
  return name + before_index + std::to_string(index);
}

struct OnFailure {
  int attempts_without_progress = 3;
  int starts_per_attempt = 10;               // of the trainer, however they end
  Duration blocked = std::chrono::hours(1);  // so long a machine waits for a person
  // At least so long nothing comes from a trainer that hangs, and nothing works; 0: nobody looks.
  Duration stall = std::chrono::minutes(30);
  GiveUp then = GiveUp::ScaleToZero;
  Duration hold = std::chrono::hours(24);  // of GiveUp::Hold: how long the machine stays
};

struct Limits {
  std::optional<double> hours;
  std::optional<double> dollars;
};

inline constexpr const char* own_user = "spotter";  // the package's: nobody logs in as it
inline constexpr const char* users_home = ".home";  // that user's folder in a job's home

struct Job {
  JobName name;
  Storage storage;
  std::optional<Code> code;
  std::vector<std::string> setup;  // commands for the trainer's shell; empty: none
  Trainer trainer;
  Checkpoints checkpoints;
  std::optional<MetricsLog> metrics;
  Channels channels;
  std::vector<Source> prepare;  // not used by the agent
  // In the place of `prepare`; job.yaml has no such key.
  std::optional<Sending> sending;
  // Keeps what can be fetched again on the machine's own disks, where it has some.
  bool cache_on_instance_store = false;
  std::optional<SageMaker> sagemaker;
  std::optional<Sweep> sweep;
  std::optional<Experiment> experiment;  // of the sweep
  std::optional<Claims> claims;
  std::string attempt;      // with `claims`: the name of the attempt's folder
  std::uint64_t token = 0;  // with `attempt`: of the claim, one more with each holder
  std::optional<Gang> gang;
  std::string member;  // with `gang`: this machine's name in it
  OnFailure on_failure;
  Limits limits;
  Deadline deadline;
  Prometheus prometheus;
  // The location to which its status, history and learning curve are published; the key ends with a
  // slash, or is empty.
  std::optional<wire::S3Location> publish;
  // The location of the fence, which says who may use the volume. The key ends like that of
  // `publish`.
  std::optional<wire::S3Location> fence;
  Notify notify;
  std::optional<Launch> launch;  // for `spotter launch`
  std::optional<Fleet> fleet;    // none: taken from the instance's aws:* tags

  // The job's folder on a share, and its home's in a bucket; each experiment of a sweep has its
  // own. In a bucket the home's head says whose turn it is, and all attempts are in one home.
  std::string folder() const {
    const bool apart = !attempt.empty() && !storage.in_bucket();
    return name.str() + (experiment ? "/" + std::to_string(experiment->index) : "") +
           (apart ? "/" + attempt : "") + (member.empty() ? "" : "/members/" + member);
  }
  // The same on this machine, below the mount. Working copies of experiments that it claims one
  // after the other take turns in one folder: its disk need not have room for all of them.
  std::string folder_here() const {
    return storage.in_bucket() && !attempt.empty() ? folder_in_turn() : folder();
  }
  std::string folder_in_turn() const { return name.str() + "/experiment"; }
  // The location of what this job publishes: below `publish`, which jobs may share. None: nowhere.
  std::optional<wire::S3Location> published_at() const {
    if (!publish) return std::nullopt;
    const std::string index = experiment ? std::to_string(experiment->index) + "/" : "";
    return wire::S3Location{publish->bucket, publish->key + name.str() + "/" + index};
  }
  // The location of what a person fetches of it, in a folder of that name.
  std::optional<wire::S3Location> published_in(const std::string& folder) const {
    auto at = published_at();
    if (at) at->key += folder + "/";
    return at;
  }
  // The names, in its home, of what a person may want of it.
  std::string result() const { return trainer.result.empty() ? "result" : trainer.result; }
  // The location of the epochs of this job's volumes: below `fence`, which jobs may share. None:
  // nowhere.
  std::optional<wire::S3Location> fenced_at() const {
    if (!fence) return std::nullopt;
    return wire::S3Location{fence->bucket, fence->key + name.str() + "/"};
  }
  // The locations of a home in a bucket: of its files, which the trainer's role may write, and of
  // its head, which is the agent's alone. None: the storage is no bucket.
  std::optional<wire::S3Location> kept_at() const { return in_bucket("homes/"); }
  std::optional<wire::S3Location> headed_at() const { return in_bucket("heads/"); }
  std::optional<wire::S3Location> in_bucket(const std::string& which) const {
    if (!storage.in_bucket()) return std::nullopt;
    return wire::S3Location{storage.bucket.bucket, storage.bucket.key + which + folder() + "/"};
  }
  // Each experiment has a place of its own below `checkpoints.s3`.
  std::optional<wire::S3Location> checkpoints_in_s3() const {
    if (!checkpoints.s3 || !experiment) return checkpoints.s3;
    const std::string index = std::to_string(experiment->index) + "/";
    return wire::S3Location{checkpoints.s3->bucket, checkpoints.s3->key + index};
  }
  // The owner in the tag spotter:job of its volumes and snapshots. Each experiment is its own
  // owner, and does not delete what another's move left.
  std::string volumes_owner() const {
    return experiment ? of_experiment(name.str(), experiment->index) : name.str();
  }
  // Its experiments are claimed one by one, and this process runs none of them itself.
  bool is_handed_out() const { return claims && attempt.empty(); }
  // The job's home: the volume, or its folder on the share.
  std::string home() const {
    return storage.share ? storage.share->mount + "/" + folder_here() : storage.ebs.mount;
  }
  // The folder that the trainer works in: home(), or the one that all members of a gang have in
  // common.
  std::string trainers_home() const { return gang ? storage.mount() + "/" + name.str() : home(); }
  // $HOME of the package's own user lies in the job's home: what it keeps there is on the next
  // machine, too. Not in a bucket, which would commit it, nor where the folder does not last.
  bool has_users_home() const {
    return trainer.user == own_user && !trainer.inherits && !storage.in_bucket() &&
           attempt.empty() && !gang;
  }
  // The trainer gets channels or SageMaker's folder: container_folder on the volume.
  bool in_container() const { return !channels.all.empty() || sagemaker; }
};

inline constexpr std::string_view container_folder = "ml";
inline constexpr std::string_view setup_folder = "setup";  // an environment made by Job::setup
inline constexpr std::string_view model_folder = "model";  // of an experiment

// One mistake; line and column count from 1, line 0 means the file as a whole.
struct Problem {
  int line = 0;
  int column = 0;
  std::string message;
  bool passing = false;  // a passing failure, not the job's: to be tried again

  operator Error() const { return {message}; }                 // NOLINT: as of CallError
  operator CallError() const { return {.message = message}; }  // NOLINT
};

// The environment in which a job is parsed. Pure input: tests pass their own.
struct Environment {
  std::map<std::string, std::string> variables;
  std::string user;   // whom the agent runs as; empty: unknown, then `trainer.user` is not checked
  bool root = false;  // only root can run the trainer as another user
  bool foreground = false;  // `spotter run`: the trainer runs as us, unless job.yaml names a user

  static Environment of_process();
  static Environment of_root();  // as an instance's agent has it: with this process's variables
};

inline constexpr std::size_t job_size_limit = 256U << 10;

// Pure. On failure: every mistake, sorted by position. Expands `${NAME}` of the environment in
// storage.*.mount, code.repository, trainer.environment and tag values (`$${` is a plain `${`); the
// shell expands trainer.command. Refuses aliases, several documents, binary and texts over 256 KiB.
Result<Job, std::vector<Problem>> parse_job(std::string_view text, const Environment& environment);

// The same for a file and for those that it names (the document of its channels, the list of its
// sweep), whose paths may be relative to it. An unreadable file is a Problem with line 0.
Result<Job, std::vector<Problem>> load_job(const std::string& path, const Environment& environment);

// The same, with all its mistakes in the error's words.
Result<Job> read_job(const std::string& path, const Environment& environment);

// `PATH:LINE:COLUMN: message`, one a line, each with its newline.
std::string describe(const std::vector<Problem>& problems, std::string_view path);

// Text for a person: "/mnt/share (sshfs of user@host:/opt/host)". REQUIRES: it is a share.
std::string describe(const Storage& storage);
// The id of its file system at EFS, if storage.efs.id is that or its own DNS name in this region.
std::string efs_file_system(const Share& share, std::string_view region);
// The value of one of its options ("" for one without); nothing: it is not given.
std::optional<std::string> mount_option(const Share& share, std::string_view name);
// The program by which it is mounted: mount.nfs, mount.efs or sshfs; empty: it is a folder.
std::string_view mount_tool(const Share& share);

// The name that tells two jobs of one name apart while they have no volume, or never have one.

// The value of the tag `spotter:storage` of all that is made for this job: the tag by which
// job.yaml names its volume ("Name=mnist-volume"), or "efs:fs-0123abcd/path". Cut to the 256 bytes
// that a tag's value may have. Empty: the job has no storage.
std::string storage_name(const Job& job);

// True: the tags are of a thing made for other storage. False without the tag, as older ones are.
template <class Tags>
bool is_of_other_storage(const Tags& tags, const Job& job) {
  const auto found = tags.find(tag::storage);
  return found != tags.end() && !found->second.empty() && found->second != storage_name(job);
}

}  // namespace spotter::config
