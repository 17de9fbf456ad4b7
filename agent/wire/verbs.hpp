// A request to `spotter host`: one piece of blocking local work, as one JSON object on its standard
// input, since it may hold secrets.
//
//   {"verb":"find-device","volume":"vol-0123456789abcdef0","wait_ms":5000}
//   {"verb":"there","as":"trainer","path":"/mnt/share/mnist/result"}
//
// A verb is a struct with the fields of its object; host/*.hpp says what is done with them. Paths
// are absolute, where nothing else is said.
#pragma once

#include <chrono>
#include <optional>
#include <variant>

#include "agent/base/result.hpp"
#include "agent/wire/ledger.hpp"

namespace spotter::verbs {

// A verb's properties that others have to know.
struct Traits {
  std::string_view name;
  bool touches_share = true;      // where the storage is one: it waits for the server
  bool mounts = false;            // on its `mount_point`, or its share's
  bool leaves_processes = false;  // a file system in user space, or what encrypts a connection
};

// --- the disk of a volume

struct FindDevice {
  static constexpr Traits traits{.name = "find-device"};
  std::string volume;  // vol-0123456789abcdef0
  std::string hint;    // the device name of the attachment, /dev/sdf; only believed on Xen
  std::chrono::milliseconds wait{0};
  bool operator==(const FindDevice&) const = default;
};

struct Inspect {
  static constexpr Traits traits{.name = "inspect"};
  std::string device;
  bool operator==(const Inspect&) const = default;
};

struct Format {
  static constexpr Traits traits{.name = "format"};
  std::string device;
  std::string filesystem;  // "xfs", "ext4"
  bool operator==(const Format&) const = default;
};

struct Mount {
  static constexpr Traits traits{.name = "mount", .mounts = true};
  std::string device;
  std::string filesystem;  // what job.yaml says: "xfs" or "ext4"
  std::string mount_point;
  std::string volume;  // vol-..., written to .spotter/volume.json
  std::string user;    // the trainer's; owns the directories below
  std::vector<std::string> directories = {"code", "checkpoints", "result", "log"};
  std::string container;   // one of them, for channels and SageMaker's files; empty: none
  std::string link;        // a symbolic link that leads to it; empty: none
  bool read_only = false;  // to prove a copy: nothing of ours is written, `user` is not looked at
  std::string cache;       // a folder on the machine's own disks, made as well; empty: none
  bool operator==(const Mount&) const = default;
};

struct MountData {
  static constexpr Traits traits{.name = "mount-data", .mounts = true};
  std::string device;
  std::string mount_point;
  bool operator==(const MountData&) const = default;
};

struct Unmount {
  static constexpr Traits traits{.name = "unmount"};
  std::string mount_point;
  std::chrono::milliseconds wait{0};  // while it is busy
  std::string link;                   // that of Mount, which then leads nowhere
  std::string volume;  // that is not here any more when this succeeds, whoever unmounted it before
  std::string hint;    // as that of FindDevice
  bool operator==(const Unmount&) const = default;
};

struct Look {
  static constexpr Traits traits{.name = "look"};
  std::string mount_point;
  bool operator==(const Look&) const = default;
};

// --- a share

// The fields that tell a share from others, and how it is mounted.
struct Share {
  std::string kind;         // "folder", "nfs", "efs", "sshfs"
  std::string mount_point;  // of a folder the folder itself
  std::string server;       // host, fs-id or DNS name, [user@]host
  std::string path;         // on the server
  std::string options;      // the user's: added to the defaults, or in the place of one
  std::string access_point, key, known_hosts;
  std::uint16_t port = 22;
  bool tls = false;
  std::string region;  // for the DNS name of an EFS id without mount.efs
  bool operator==(const Share&) const = default;
};

struct PrepareShare {
  static constexpr Traits traits{.name = "prepare-share", .mounts = true, .leaves_processes = true};
  Share share;
  std::string user;  // the trainer's: whatever is written, is written as this user
  std::string job;   // its folder is mount_point/job
  // The mount's user, by a name that lasts as long as the use (the run directory): the last one
  // unmounts, and only what one of us mounted.
  std::string holder;
  std::vector<std::string> directories;  // below the job's folder
  std::string container;                 // one of them; empty: none
  std::string link;                      // leads to it; empty: none
  // The job's folder was there before. When it is gone, the server shows another disk or none: a
  // job that starts over in an empty folder would be the loss of the old one.
  bool again = false;
  bool identity = false;  // the folder's id is wanted
  std::string cache;      // as Mount has it
  bool operator==(const PrepareShare&) const = default;
};

struct ReleaseShare {
  static constexpr Traits traits{.name = "release-share", .touches_share = false};
  Share share;
  std::string job, holder, link;  // those of PrepareShare
  bool operator==(const ReleaseShare&) const = default;
};

struct LookShare {
  static constexpr Traits traits{.name = "look-share", .touches_share = false};
  Share share;
  bool operator==(const LookShare&) const = default;
};

struct ProbeShare {
  static constexpr Traits traits{.name = "probe-share"};
  std::string path;
  std::string mount_point;  // where nothing is asked while nothing is mounted; empty: always
  bool operator==(const ProbeShare&) const = default;
};

// --- a home in a bucket

// The job's files here, and their place in S3.
struct Home {
  std::string folder;
  std::string job;
  std::string checkpoints;  // their directory, relative to it
  std::string files, folders, result, log;
  std::string at;           // s3://bucket/prefix/job/
  std::uint32_t epoch = 0;  // that we hold
  std::string id;           // as its head has it
  // "NAME=value": who we are at AWS, in the place of what this process's environment says. Secret.
  std::vector<std::string> identity;
  bool operator==(const Home&) const = default;
};

struct BringHome {
  static constexpr Traits traits{.name = "bring-home"};
  Home home;
  std::string manifest;    // empty: nothing is committed
  std::uint32_t held = 0;  // an epoch whose folder is newer than the bucket; 0: none
  bool operator==(const BringHome&) const = default;
};

struct KeepHome {
  static constexpr Traits traits{.name = "keep-home"};
  Home home;
  std::string committed;  // the manifest that the head names; empty: none
  bool whole = false;     // no trainer runs
  bool trims = false;     // nothing else can be committed any more but what this sends
  bool operator==(const KeepHome&) const = default;
};

// --- what is in a home

struct ReadLedger {
  static constexpr Traits traits{.name = "read-ledger"};
  std::string mount_point;
  bool operator==(const ReadLedger&) const = default;
};

struct WriteLedger {
  static constexpr Traits traits{.name = "write-ledger"};
  std::string mount_point;
  wire::LedgerFile ledger;
  bool operator==(const WriteLedger&) const = default;
};

struct Sync {
  static constexpr Traits traits{.name = "sync"};
  std::string mount_point;
  std::string tree;  // and each file below this one by itself; empty: none
  bool operator==(const Sync&) const = default;
};

// Puts files of a home, opened with the rights of its trainer's user, where the job is published.
struct SendResult {
  static constexpr Traits traits{.name = "send-result"};
  std::string home, user;
  std::vector<std::string> paths;  // relative to it; what is not there is none
  std::string job, to;             // s3://bucket/key/
  bool operator==(const SendResult&) const = default;
};

struct Verify {
  static constexpr Traits traits{.name = "verify"};
  std::string mount_point;
  std::string checkpoints;  // their directory, relative to it
  bool read_only = false;
  std::string user;  // the trainer's, whose they are; empty: as who we are
  // Patterns of a trainer's own files, or of its folders; both empty: of all that is there.
  std::string files;
  std::string folders;
  bool proven = false;  // the newest one was read a moment ago: size and time of change must do
  bool watched = true;  // by the guard, unless libspotter saves there
  bool operator==(const Verify&) const = default;
};

struct Checkout {
  static constexpr Traits traits{.name = "checkout"};
  std::string repository;  // any git URL or path; no password in it
  std::string revision;    // 40 hex digits
  std::string directory;
  std::string user;
  std::string token;  // empty: none. Goes only to the server of `repository`, over TLS
  bool operator==(const Checkout&) const = default;
};

// One source of job.yaml (config::Source).
struct Source {
  std::string from, to;
  std::string sha256;  // empty: not compared
  std::string via;     // s3://bucket/key/; empty: none
  bool operator==(const Source&) const = default;
};

struct Fill {
  static constexpr Traits traits{.name = "fill"};
  std::string job, volume;
  std::string mount_point;
  std::string user;  // the trainer's
  std::vector<Source> sources;
  bool operator==(const Fill&) const = default;
};

struct There {
  static constexpr Traits traits{.name = "there"};
  std::string path;
  bool operator==(const There&) const = default;
};

struct MarkDone {
  static constexpr Traits traits{.name = "mark-done"};
  std::string path;
  std::string job;
  bool operator==(const MarkDone&) const = default;
};

struct KeepLog {
  static constexpr Traits traits{.name = "keep-log"};
  std::string from, path;
  std::optional<std::uint64_t> end;  // of the bytes that are kept; none: of all
  bool operator==(const KeepLog&) const = default;
};

struct KeepMetrics {
  static constexpr Traits traits{.name = "keep-metrics"};
  std::string path;
  std::string lines;
  std::optional<std::uint64_t> resumed;  // the step from which the trainer went on
  bool operator==(const KeepMetrics&) const = default;
};

struct KeepLines {
  static constexpr Traits traits{.name = "keep-lines"};
  std::string path;  // the home
  std::string name;  // of a file in its .spotter: agent.log, history.jsonl
  std::string lines;
  bool operator==(const KeepLines&) const = default;
};

// --- attempts

struct FindParent {
  static constexpr Traits traits{.name = "find-parent"};
  std::string path;
  std::uint64_t token = 0;
  bool operator==(const FindParent&) const = default;
};

struct BeginAttempt {
  static constexpr Traits traits{.name = "begin-attempt"};
  std::string path;
  std::string attempt;
  std::string parent;  // empty: none
  bool operator==(const BeginAttempt&) const = default;
};

struct PublishAttempt {
  static constexpr Traits traits{.name = "publish-attempt"};
  std::string path;
  std::string attempt;
  bool operator==(const PublishAttempt&) const = default;
};

struct SumUp {
  static constexpr Traits traits{.name = "sum-up"};
  std::string path;
  std::uint64_t index = 0;
  std::uint64_t token = 0;
  std::string copy_of;  // the home in a bucket that the folder must be a copy of; empty: of none
  bool operator==(const SumUp&) const = default;
};

// --- the machine

struct AwaitGpus {
  static constexpr Traits traits{.name = "await-gpus", .touches_share = false};
  std::uint8_t count = 0;  // at least so many; 0: as many as the machine has, and one at least
  std::chrono::milliseconds wait{0};
  bool operator==(const AwaitGpus&) const = default;
};

using Verb =
    std::variant<FindDevice, Inspect, Format, Mount, MountData, Unmount, Look, PrepareShare,
                 ReleaseShare, LookShare, ProbeShare, BringHome, KeepHome, ReadLedger, WriteLedger,
                 Sync, SendResult, Verify, Checkout, Fill, There, MarkDone, KeepLog, KeepMetrics,
                 KeepLines, FindParent, BeginAttempt, PublishAttempt, SumUp, AwaitGpus>;

struct Request {
  Verb verb;
  std::string as;  // the user as whom it is done; empty: as who we are
  bool operator==(const Request&) const = default;
};

const Traits& traits_of(const Verb& verb);
// The verb's mount point; empty: it mounts nothing.
std::string mounts_on(const Verb& verb);

// Replaces what is no UTF-8 in a text by U+FFFD.
std::string to_json(const Request& request);
// Members that the object leaves out have the struct's default. Fails for an unknown verb or key, a
// key that is missing and needed, and a value of another type; says which, and no value but the
// verb's.
Result<Request> parse_request(std::string_view json);

}  // namespace spotter::verbs
