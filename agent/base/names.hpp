// The vocabulary of the whole program: identifiers, time, and the few values that every layer
// shares. Standard library only.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace spotter {

// Monotonic time that also advances while the machine is suspended (CLOCK_BOOTTIME), or virtual
// time in the simulator. Never the wall clock, which may be wrong.
struct BootClock {
  using duration = std::chrono::milliseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
};
using Time = BootClock::time_point;
using Duration = BootClock::duration;

// A short text without a heap, so that State is cheap to copy. Longer input is cut; a parser checks
// `fits()` first.
template <std::size_t Capacity>
class ShortText {
 public:
  constexpr ShortText() = default;
  constexpr ShortText(std::string_view text) { assign(text); }  // NOLINT: a name reads as text
  constexpr ShortText(const char* text) { assign(text); }       // NOLINT: a name reads as text

  static constexpr bool fits(std::string_view text) { return text.size() <= Capacity; }
  constexpr std::string_view view() const { return {text_.data(), size_}; }
  std::string str() const { return std::string(view()); }
  constexpr bool empty() const { return size_ == 0; }
  constexpr explicit operator bool() const { return size_ != 0; }

  friend constexpr bool operator==(const ShortText& a, const ShortText& b) {
    return a.view() == b.view();
  }
  friend constexpr auto operator<=>(const ShortText& a, const ShortText& b) {
    return a.view() <=> b.view();
  }

 private:
  constexpr void assign(std::string_view text) {
    size_ = static_cast<std::uint8_t>(text.size() < Capacity ? text.size() : Capacity);
    for (std::size_t i = 0; i < size_; ++i) text_[i] = text[i];
  }
  static_assert(Capacity < 256);
  std::array<char, Capacity> text_{};
  std::uint8_t size_ = 0;
};

// Identifiers of different things do not compare or convert into one another.
template <class Tag, std::size_t Capacity>
struct Name : ShortText<Capacity> {
  using ShortText<Capacity>::ShortText;
};

using InstanceId = Name<struct InstanceTag, 31>;  // i-0123456789abcdef0
using VolumeId = Name<struct VolumeTag, 31>;      // vol-0123456789abcdef0
using SnapshotId = Name<struct SnapshotTag, 31>;  // snap-0123456789abcdef0
using FleetId = Name<struct FleetTag, 255>;       // sfr-UUID, fleet-UUID, or a group's name
using Zone = Name<struct ZoneTag, 31>;            // us-west-2a, us-west-2-lax-1a
using Region = Name<struct RegionTag, 31>;        // us-west-2
using InstanceType = Name<struct TypeTag, 31>;    // p3.2xlarge
using JobName = Name<struct JobTag, 63>;          // the job of job.yaml
using Device = Name<struct DeviceTag, 127>;       // a path below /dev (or a directory in a test)

// The kind of fleet that launched the instance, and so what "cancel the fleet" means for it.
enum class FleetKind : std::uint8_t { None, SpotFleet, Ec2Fleet, AutoScalingGroup };

struct Fleet {
  FleetKind kind = FleetKind::None;
  FleetId id;
  friend bool operator==(const Fleet&, const Fleet&) = default;
};

// Storage that many instances see: an existing folder, NFS, EFS, or a folder of a machine reached
// by ssh. Jobs share it: each has its own folder below `mount`, named after it. Or a bucket: then
// the folder below `mount` is the working copy of this machine. A record (base/record.hpp), as it
// is in a request to `spotter host`.
struct Share {
  static constexpr std::string_view keys =
      "kind! mount_point! server path options access_point tls key known_hosts port region";
  static constexpr bool is_closed = true;
  enum class Kind : std::uint8_t { Folder, Nfs, Efs, Sshfs, S3 } kind = Kind::Folder;
  std::string mount = "/mnt/spotter";  // where it is mounted; of a folder the folder itself
  std::string server;                  // nfs: a host; efs: fs-... or a DNS name; sshfs: [user@]host
  std::string path;                    // on the server
  std::string options;                 // comma-separated: added to the defaults, or replacing one
  std::string access_point;            // efs: fsap-...
  bool tls = false;                    // efs
  std::string key;                     // sshfs: the private key's file; empty: ssh's own choice
  std::string known_hosts;             // sshfs: where the server's key is; empty: ssh's own files
  std::uint16_t port = 22;             // sshfs
  std::string region;                  // efs: for the DNS name of an id without mount.efs
};
constexpr std::array<std::string_view, 5> words_of(Share::Kind) {
  return {"folder", "nfs", "efs", "sshfs", "s3"};
}
constexpr std::string_view to_text(Share::Kind kind) {
  return words_of(kind)[static_cast<std::size_t>(kind)];
}

// One thing that `spotter prepare` copies onto the volume. A record, too.
struct Source {
  static constexpr std::string_view keys = "from! to! sha256 via";
  static constexpr bool is_closed = true;
  std::string from;    // s3://bucket/prefix | https://host/file | /a/folder
  std::string to;      // a folder, relative to the mount
  std::string sha256;  // of the file at a URL, lower case; empty: not compared
  // The location at which a local folder is kept on its way to another machine, s3://bucket/key/;
  // empty: nowhere.
  std::string via;
};

// The action on the fleet when the job only ever fails (job.yaml: on_failure.then).
enum class GiveUp : std::uint8_t { ScaleToZero, Hold, Cancel };

inline constexpr int all_gpus = -1;  // of the machine, and one at least

// The metadata service's word for what will happen to the instance.
enum class InterruptionAction : std::uint8_t { Terminate, Stop, Hibernate };

inline const char* to_text(InterruptionAction action) {
  constexpr const char* words[] = {"terminate", "stop", "hibernate"};
  return words[static_cast<std::size_t>(action)];
}

}  // namespace spotter
