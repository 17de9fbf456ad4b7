#include "agent/supervise/output.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

#include "agent/io/kernel.hpp"

namespace spotter::supervise {
namespace {

constexpr std::int64_t every = 1000;  // ms
// An agent puts what changed into S3 each five seconds: that is a piece then.
constexpr std::int64_t bytes_per_second = 24 << 10;
constexpr std::int64_t bytes_at_once = 1 << 20;
constexpr std::int64_t last_bytes = 64 << 10;  // of an end, whatever came before
constexpr std::size_t attempts_kept = 4;       // each has 4 MiB at most

void remove_old(const std::string& folder) {
  std::set<std::string> attempts;
  std::vector<std::pair<std::string, fs::path>> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const auto name = wire::parse_output_name(at->path().filename().string());
    if (!name) continue;
    attempts.insert(name->attempt);
    files.emplace_back(name->attempt, at->path());
  }
  while (attempts.size() >= attempts_kept) attempts.erase(attempts.begin());
  for (const auto& [attempt, path] : files)
    if (!attempts.contains(attempt)) fs::remove(path, error);
}

}  // namespace

std::optional<std::uint64_t> taken(const std::string& run_directory) {
  std::ifstream file(RunDirectory(run_directory).file(taken_name));
  std::uint64_t bytes = 0;
  return file >> bytes ? std::optional(bytes) : std::nullopt;
}

Output::Output(const std::string& directory, std::string job,
               const std::vector<std::string>& secrets)
    : run_(directory),
      directory_(run_.file(output_name)),
      mask_(secrets),
      pieces_(std::move(job)) {}

Result<void> Output::begin(int log, std::int64_t offset) {
  constexpr mode_t only_ours = 0700;
  const bool made = mkdir(directory_.c_str(), only_ours) == 0 || errno == EEXIST;
  if (!made) return failure("cannot make " + directory_ + ": " + std::strerror(errno));
  TRY(RunDirectory(directory_).make_ours());
  remove_old(directory_);
  attempt_ = std::to_string(static_cast<std::int64_t>(io::wall_clock() * 1000));
  log_ = log;
  at_ = offset;
  allowance_ = bytes_at_once;
  return run_.replace(taken_name, std::to_string(at_));
}

int Output::milliseconds_left(std::int64_t now) const {
  if (log_ < 0) return -1;
  return static_cast<int>(std::clamp<std::int64_t>(looked_ + every - now, 0, every));
}

void Output::look(std::int64_t now) {
  if (log_ < 0 || milliseconds_left(now) > 0) return;
  const std::int64_t passed = looked_ == 0 ? 0 : now - looked_;
  looked_ = now;
  allowance_ = std::min(bytes_at_once, allowance_ + passed * bytes_per_second / 1000);
  take(allowance_);
  write();
}

void Output::leave_out(std::int64_t bytes) {
  pieces_.add({io::wall_clock(), lines_.feed(mask_.rest()), static_cast<std::uint64_t>(bytes),
               std::nullopt});
  at_ += bytes;
  mask_.cut();
  lines_.skip_to_next_line();
}

// A log that is shorter than it was has been emptied. What is too much is left out before the
// newest.
void Output::take(std::int64_t most) {
  struct stat status {};
  if (fstat(log_, &status) != 0) return;
  if (status.st_size < at_) at_ = 0;
  if (status.st_size - at_ > most) leave_out(status.st_size - at_ - most);
  std::string bytes(static_cast<std::size_t>(std::min<std::int64_t>(status.st_size - at_, most)),
                    '\0');
  const ssize_t got = pread(log_, bytes.data(), bytes.size(), at_);
  if (got <= 0) return;
  bytes.resize(static_cast<std::size_t>(got));
  at_ += got;
  allowance_ = std::max<std::int64_t>(0, allowance_ - got);
  std::string lines = lines_.feed(mask_.feed(bytes));
  if (lines.empty()) return;
  pieces_.add({io::wall_clock(), std::move(lines), 0, std::nullopt});
}

// A piece that cannot be written is written the next time it grows.
void Output::write() {
  const RunDirectory folder(directory_);
  for (const auto& [slot, bytes] : pieces_.take_changed())
    std::ignore = folder.replace(wire::to_text({attempt_, slot}), bytes);
  if (std::exchange(written_, at_) != at_)
    std::ignore = run_.replace(taken_name, std::to_string(at_));
}

void Output::end(const std::string& how) {
  if (log_ < 0) return;
  take(std::max(allowance_, last_bytes));
  std::string rest = lines_.feed(mask_.rest());
  rest += lines_.rest();
  pieces_.add({io::wall_clock(), rest, 0, how});
  write();
  log_ = -1;
}

}  // namespace spotter::supervise
