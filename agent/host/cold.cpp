#include "agent/host/cold.hpp"

#include <fcntl.h>
#include <linux/fsmap.h>
#include <linux/ioprio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <thread>

#include "agent/host/mounts.hpp"
#include "agent/host/records.hpp"
#include "trainer/library/bulk.hpp"

namespace spotter::act::host {
namespace {

constexpr std::uint64_t piece = 256U << 10;  // the largest request that EBS counts as one
constexpr std::size_t opened_at_once = 256;  // well below the limit of a process

struct Opened {
  io::Descriptor file{};
  std::uint64_t pieces = 0;
};

Opened open_cold(const io::SafeDirectory& folder, const std::string& name) {
  auto file = folder.file(name, O_RDONLY);
  struct stat status {};
  if (!file || ::fstat(file->get(), &status) != 0) return {};
  // Nothing is read ahead that another request asks for.
  ::posix_fadvise(file->get(), 0, 0, POSIX_FADV_RANDOM);
  const auto there = std::min<std::int64_t>(status.st_size, status.st_blocks * 512);
  return {*std::move(file), (static_cast<std::uint64_t>(there) + piece - 1) / piece};
}

std::uint64_t read_piece(const io::Descriptor& file, std::uint64_t index) {
  thread_local std::vector<char> memory(piece);
  const ssize_t got = ::pread(file.get(), memory.data(), piece, static_cast<off_t>(index * piece));
  return got > 0 ? static_cast<std::uint64_t>(got) : 0;
}

std::uint64_t read_together(const io::SafeDirectory& folder, std::span<const std::string> names) {
  std::vector<Opened> opened(names.size());
  const auto open = [&](std::size_t i) {
    opened[i] = open_cold(folder, names[i]);
    return Result<void>();
  };
  (void)checkpoint::run_parallel(names.size(), reads_at_once, open);
  std::vector<std::uint64_t> ends;  // of each file's pieces, in one row
  for (const Opened& it : opened) ends.push_back((ends.empty() ? 0 : ends.back()) + it.pieces);
  std::atomic<std::uint64_t> bytes{0};
  const auto read = [&](std::size_t i) {
    const Opened& it = opened[std::ranges::upper_bound(ends, i) - ends.begin()];
    bytes += read_piece(it.file, i - (ends[&it - opened.data()] - it.pieces));
    return Result<void>();
  };
  (void)checkpoint::run_parallel(ends.back(), reads_at_once, read);
  return bytes;
}

using Clock = std::chrono::steady_clock;

constexpr const char* warm_record = "warm";  // in .spotter: a line for each volume that was read

// Pieces of a disk that follow one another, by number.
struct Run {
  std::uint64_t begin = 0, end = 0;
};

void add(std::vector<Run>& runs, const fsmap& extent) {
  const std::uint64_t begin = extent.fmr_physical / piece;
  const std::uint64_t end = (extent.fmr_physical + extent.fmr_length + piece - 1) / piece;
  if (runs.empty() || begin > runs.back().end)
    runs.push_back({begin, end});
  else
    runs.back().end = std::max(runs.back().end, end);
}

// All of the disk that the file system does not call free:
// https://man7.org/linux/man-pages/man2/ioctl_getfsmap.2.html. XFS and ext4 know.
Result<std::vector<Run>> allocated(const fs::path& mount_point, dev_t device) {
  constexpr unsigned at_once = 1024;
  const io::Descriptor root(::open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::vector<std::uint64_t> memory(fsmap_sizeof(at_once) / sizeof(std::uint64_t));
  auto* const map = reinterpret_cast<fsmap_head*>(memory.data());
  map->fmh_count = at_once;
  map->fmh_keys[1] = {~0U, ~0U, ~0ULL, ~0ULL, ~0ULL, 0, {}};
  std::vector<Run> runs;
  for (bool last = false; !last;) {
    if (!root || ::ioctl(root.get(), FS_IOC_GETFSMAP, map) != 0)
      return fail_errno(errno, "what " + mount_point.string() + " has allocated", "not-known");
    for (const fsmap& each : std::span(map->fmh_recs, map->fmh_entries)) {
      const bool free = (each.fmr_flags & FMR_OF_SPECIAL_OWNER) != 0 &&
                        each.fmr_owner == static_cast<std::uint64_t>(FMR_OWN_FREE);
      if (!free && each.fmr_device == static_cast<std::uint32_t>(device)) add(runs, each);
      last = (each.fmr_flags & FMR_OF_LAST) != 0;
    }
    last = last || map->fmh_entries == 0;
    if (!last) fsmap_advance(map);
  }
  return runs;
}

std::uint64_t bytes_below(const std::vector<Run>& runs, std::uint64_t number) {
  std::uint64_t pieces = 0;
  for (const Run& it : runs) pieces += std::clamp(number, it.begin, it.end) - it.begin;
  return pieces * piece;
}

// The disk of that mount, and no other of its name by now.
Result<io::Descriptor> open_disk(const MountEntry& mounted) {
  io::Descriptor disk(::open(mounted.source.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!disk || ::fstat(disk.get(), &status) != 0)
    return fail_errno(errno, "cannot open " + mounted.source);
  if (!S_ISBLK(status.st_mode) || status.st_rdev != mounted.device)
    return fail("not-known", mounted.source + " is not the disk that is mounted");
  return disk;
}

// In every thread that begins from now on.
void lower_priority() {
  constexpr int lowest = 19, this_thread = 0;
  ::setpriority(PRIO_PROCESS, this_thread, lowest);
  ::syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, this_thread,
            IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

constexpr const char* time_over = "time-over";

// The number of pieces, from the first on, that were read before the time was over.
Result<std::size_t> read_pieces(const io::Descriptor& disk, const std::vector<std::uint64_t>& all,
                                Clock::time_point until) {
  std::atomic<std::size_t> first_left{all.size()};
  const auto leave = [&](std::size_t i, Error why) -> Result<void> {
    for (std::size_t least = first_left; i < least;)
      if (first_left.compare_exchange_weak(least, i)) break;
    return tl::unexpected(std::move(why));
  };
  const auto read = [&](std::size_t i) -> Result<void> {
    const auto began = Clock::now();
    if (began >= until) return leave(i, {"", time_over});
    thread_local checkpoint::Buffer memory;
    const bool room = memory.reserve(piece);
    if (!room || ::pread(disk.get(), memory.data(), piece, static_cast<off_t>(all[i] * piece)) < 0)
      return leave(i, fail_errno(room ? errno : ENOMEM, "cannot read the disk").value());
    std::this_thread::sleep_until(began + least_read);
    return {};
  };
  const auto done = checkpoint::run_parallel(all.size(), reads_behind, read);
  if (!done && done.error().kind != time_over) return tl::unexpected<Error>(done.error());
  return first_left;
}

// So many as can be read in the time, from that offset on.
std::vector<std::uint64_t> pieces_from(const std::vector<Run>& runs, const verbs::Warm& request) {
  const std::size_t most = reads_behind * (1 + request.time / least_read);
  std::vector<std::uint64_t> pieces;
  for (const Run& it : runs)
    for (auto i = std::max(it.begin, request.from / piece); i < it.end && pieces.size() < most; ++i)
      pieces.push_back(i);
  return pieces;
}

}  // namespace

std::uint64_t read_cold(const io::SafeDirectory& folder, const std::vector<std::string>& names) {
  std::uint64_t bytes = 0;
  for (auto left = std::span(names); !left.empty();) {
    const std::size_t some = std::min(opened_at_once, left.size());
    bytes += read_together(folder, left.first(some));
    left = left.subspan(some);
  }
  return bytes;
}

Result<Warmth> warm(const verbs::Warm& request) {
  const auto mounted = mount_at(request.mount_point);
  if (!mounted) return fail("not-mounted", "nothing is mounted on " + request.mount_point);
  const std::string line = request.volume + "\n";
  std::string known = "\n";
  if (const auto own = open_own(fs::path(request.record)))
    known += own->read(warm_record, 64U << 10).value_or("");
  if (known.find("\n" + line) != std::string::npos) return Warmth{};
  const auto disk = TRY(open_disk(*mounted));
  lower_priority();
  const auto runs = TRY(allocated(request.mount_point, mounted->device));
  const auto until = Clock::now() + request.time;  // a large map takes its time, too
  const auto pieces = pieces_from(runs, request);
  const auto done = TRY(read_pieces(disk, pieces, until));
  const std::uint64_t end = runs.empty() ? 0 : runs.back().end;
  const std::uint64_t at = done < pieces.size() ? pieces[done]
                           : pieces.empty()     ? end
                                                : pieces.back() + 1;
  const Warmth is{at * piece, bytes_below(runs, at), bytes_below(runs, end)};
  if (is.read == is.total)
    if (const auto own = open_own(fs::path(request.record)))
      (void)own->write(warm_record, known.substr(1) + line, 0644);  // else it is read once more
  return is;
}

}  // namespace spotter::act::host
