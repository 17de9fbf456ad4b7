// A request to `spotter host`: one piece of blocking local work, as one JSON object on its standard
// input, since it may hold secrets.
//
//   {"verb":"find-device","volume":"vol-0123456789abcdef0","wait_ms":5000}
//   {"verb":"there","as":"trainer","path":"/mnt/share/mnist/result"}
//
// A verb is a record (base/record.hpp) of its object; host/*.hpp says what is done with it. Paths
// are absolute, where nothing else is said.
#pragma once

#include <chrono>
#include <optional>
#include <variant>

#include "agent/base/names.hpp"
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
  static constexpr std::string_view keys = "volume! hint wait_ms";
  std::string volume;  // vol-0123456789abcdef0
  std::string hint;    // the device name of the attachment, /dev/sdf; only believed on Xen
  std::chrono::milliseconds wait{0};
};

struct Inspect {
  static constexpr Traits traits{.name = "inspect"};
  static constexpr std::string_view keys = "device!";
  std::string device;
};

struct Format {
  static constexpr Traits traits{.name = "format"};
  static constexpr std::string_view keys = "device! filesystem!";
  std::string device;
  std::string filesystem;  // "xfs", "ext4"
};

inline std::vector<std::string> usual_directories() {
  return {"code", "checkpoints", "result", "log"};
}

struct Mount {
  static constexpr Traits traits{.name = "mount", .mounts = true};
  static constexpr std::string_view keys =
      "device! filesystem! mount_point! volume! user! directories container link read_only cache";
  std::string device;
  std::string filesystem;  // what job.yaml says: "xfs" or "ext4"
  std::string mount_point;
  std::string volume;  // vol-..., written to .spotter/volume.json
  std::string user;    // the trainer's; owns the directories below
  std::vector<std::string> directories = usual_directories();
  std::string container;   // one of them, for channels and SageMaker's files; empty: none
  std::string link;        // a symbolic link that leads to it; empty: none
  bool read_only = false;  // to prove a copy: nothing of ours is written, `user` is not looked at
  std::string cache;       // a folder on the machine's own disks, made as well; empty: none
};

struct MountData {
  static constexpr Traits traits{.name = "mount-data", .mounts = true};
  static constexpr std::string_view keys = "device! mount_point!";
  std::string device;
  std::string mount_point;
};

struct Unmount {
  static constexpr Traits traits{.name = "unmount"};
  static constexpr std::string_view keys = "mount_point! wait_ms link volume hint";
  std::string mount_point;
  std::chrono::milliseconds wait{0};  // while it is busy
  std::string link;                   // that of Mount, which then leads nowhere
  std::string volume;  // that is not here any more when this succeeds, whoever unmounted it before
  std::string hint;    // as that of FindDevice
};

// Reads what its disk has, behind whoever else reads (host/cold.hpp).
struct Warm {
  static constexpr Traits traits{.name = "warm"};
  static constexpr std::string_view keys = "mount_point! volume! record from time_ms";
  std::string mount_point;
  std::string volume;                 // the one that is mounted there
  std::string record;                 // the mount of the job's volume, which says what was read
  std::uint64_t from = 0;             // an offset on the disk
  std::chrono::milliseconds time{0};  // it stops then, wherever it is
};

struct Look {
  static constexpr Traits traits{.name = "look"};
  static constexpr std::string_view keys = "mount_point!";
  std::string mount_point;
};

// --- a share

struct PrepareShare {
  static constexpr Traits traits{.name = "prepare-share", .mounts = true, .leaves_processes = true};
  static constexpr std::string_view keys =
      "share! user! job! holder! directories container link again identity cache";
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
};

struct ReleaseShare {
  static constexpr Traits traits{.name = "release-share", .touches_share = false};
  static constexpr std::string_view keys = "share! job! holder! link";
  Share share;
  std::string job, holder, link;  // those of PrepareShare
};

struct LookShare {
  static constexpr Traits traits{.name = "look-share", .touches_share = false};
  static constexpr std::string_view keys = "share!";
  Share share;
};

struct ProbeShare {
  static constexpr Traits traits{.name = "probe-share"};
  static constexpr std::string_view keys = "path! mount_point";
  std::string path;
  std::string mount_point;  // where nothing is asked while nothing is mounted; empty: always
};

// --- a home in a bucket

// The job's files here, and their place in S3.
struct Home {
  static constexpr std::string_view keys =
      "folder! job! checkpoints! files folders result log at! epoch! id identity";
  static constexpr bool is_closed = true;
  std::string folder;
  std::string job;
  std::string checkpoints;  // their directory, relative to it
  std::string files, folders, result, log;
  std::string at;           // s3://bucket/prefix/job/
  std::uint32_t epoch = 0;  // that we hold
  std::string id;           // as its head has it
  // "NAME=value": who we are at AWS, in the place of what this process's environment says. Secret.
  std::vector<std::string> identity;
};

struct BringHome {
  static constexpr Traits traits{.name = "bring-home"};
  static constexpr std::string_view keys = "home! manifest held";
  Home home;
  std::string manifest;    // empty: nothing is committed
  std::uint32_t held = 0;  // an epoch whose folder is newer than the bucket; 0: none
};

struct KeepHome {
  static constexpr Traits traits{.name = "keep-home"};
  static constexpr std::string_view keys = "home! committed whole trims";
  Home home;
  std::string committed;  // the manifest that the head names; empty: none
  bool whole = false;     // no trainer runs, and what changes under our hands is an error
  // Removes first what no manifest needs any more, as far as this epoch and those before it sent
  // it. False as long as the head may come to name another manifest that was sent before.
  bool trims = false;
};

// --- what is in a home

struct ReadLedger {
  static constexpr Traits traits{.name = "read-ledger"};
  static constexpr std::string_view keys = "mount_point! others";
  std::string mount_point;
  bool others = false;  // sums what lies beside it: those of a gang's other machines
};

struct WriteLedger {
  static constexpr Traits traits{.name = "write-ledger"};
  static constexpr std::string_view keys = "mount_point! ledger!";
  std::string mount_point;
  wire::LedgerFile ledger;
};

struct Sync {
  static constexpr Traits traits{.name = "sync"};
  static constexpr std::string_view keys = "mount_point! tree";
  std::string mount_point;
  std::string tree;  // and each file below this one by itself; empty: none
};

// Puts files of a home, opened with the rights of its trainer's user, where the job is published.
struct SendResult {
  static constexpr Traits traits{.name = "send-result"};
  static constexpr std::string_view keys = "home! user! paths! job! to!";
  std::string home, user;
  std::vector<std::string> paths;  // relative to it; what is not there is none
  std::string job, to;             // s3://bucket/key/
};

struct Verify {
  static constexpr Traits traits{.name = "verify"};
  static constexpr std::string_view keys =
      "mount_point! checkpoints! read_only user files folders proven watched";
  std::string mount_point;
  std::string checkpoints;  // their directory, relative to it
  bool read_only = false;
  std::string user;  // the trainer's, whose they are; empty: as who we are
  // Patterns of a trainer's own files, or of its folders; both empty: of all that is there.
  std::string files;
  std::string folders;
  bool proven = false;  // the newest one was read a moment ago: size and time of change must do
  bool watched = true;  // by the guard, unless libspotter saves there
};

struct Checkout {
  static constexpr Traits traits{.name = "checkout"};
  static constexpr std::string_view keys = "repository! revision! directory! user! token";
  std::string repository;  // any git URL or path; no password in it
  std::string revision;    // 40 hex digits
  std::string directory;
  std::string user;
  std::string token;  // empty: none. Goes only to the server of `repository`, over TLS
};

struct Fill {
  static constexpr Traits traits{.name = "fill"};
  static constexpr std::string_view keys = "job! volume! mount_point! user! sources!";
  std::string job, volume;
  std::string mount_point;
  std::string user;  // the trainer's
  std::vector<Source> sources;
};

struct There {
  static constexpr Traits traits{.name = "there"};
  static constexpr std::string_view keys = "path!";
  std::string path;
};

struct MarkDone {
  static constexpr Traits traits{.name = "mark-done"};
  static constexpr std::string_view keys = "path! job!";
  std::string path;
  std::string job;
};

struct KeepLog {
  static constexpr Traits traits{.name = "keep-log"};
  static constexpr std::string_view keys = "from! path! end";
  std::string from, path;
  std::optional<std::uint64_t> end;  // of the bytes that are kept; none: of all
};

struct KeepMetrics {
  static constexpr Traits traits{.name = "keep-metrics"};
  static constexpr std::string_view keys = "path! lines! resumed";
  std::string path;
  std::string lines;
  std::optional<std::uint64_t> resumed;  // the step from which the trainer went on
};

struct KeepLines {
  static constexpr Traits traits{.name = "keep-lines"};
  static constexpr std::string_view keys = "path! name! lines!";
  std::string path;  // the home
  std::string name;  // of a file in its .spotter: agent.log, history.jsonl
  std::string lines;
};

// --- attempts

struct FindParent {
  static constexpr Traits traits{.name = "find-parent"};
  static constexpr std::string_view keys = "path! token!";
  std::string path;
  std::uint64_t token = 0;
};

struct BeginAttempt {
  static constexpr Traits traits{.name = "begin-attempt"};
  static constexpr std::string_view keys = "path! attempt! parent";
  std::string path;
  std::string attempt;
  std::string parent;  // empty: none
};

struct PublishAttempt {
  static constexpr Traits traits{.name = "publish-attempt"};
  static constexpr std::string_view keys = "path! attempt!";
  std::string path;
  std::string attempt;
};

struct SumUp {
  static constexpr Traits traits{.name = "sum-up"};
  static constexpr std::string_view keys = "path! index! token! copy_of";
  std::string path;
  std::uint64_t index = 0;
  std::uint64_t token = 0;
  std::string copy_of;  // the home in a bucket that the folder must be a copy of; empty: of none
};

// --- the machine

struct AwaitGpus {
  static constexpr Traits traits{.name = "await-gpus", .touches_share = false};
  static constexpr std::string_view keys = "count! wait_ms";
  std::uint8_t count = 0;  // at least so many; 0: as many as the machine has, and one at least
  std::chrono::milliseconds wait{0};
};

using Verb =
    std::variant<FindDevice, Inspect, Format, Mount, MountData, Unmount, Warm, Look, PrepareShare,
                 ReleaseShare, LookShare, ProbeShare, BringHome, KeepHome, ReadLedger, WriteLedger,
                 Sync, SendResult, Verify, Checkout, Fill, There, MarkDone, KeepLog, KeepMetrics,
                 KeepLines, FindParent, BeginAttempt, PublishAttempt, SumUp, AwaitGpus>;

struct Request {
  Verb verb;
  std::string as;  // the user as whom it is done; empty: as who we are
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
