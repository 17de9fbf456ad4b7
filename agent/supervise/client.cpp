#include "agent/supervise/client.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "agent/supervise/processes.hpp"

namespace spotter::supervise {
namespace {

// None: there is no such file.
template <class T>
Result<std::optional<T>> parsed_in(const std::string& path, Result<T> (*parse)(std::string_view)) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::nullopt;
  constexpr std::size_t limit = 64U << 10;
  const auto file = TRY(behind("cannot read " + path, io::read_text(path, limit)));
  auto read = parse(file);
  if (!read && wire::is_newer(read.error())) return failure(path + ": " + read.error().message);
  if (!read) return failure(path + " is damaged: " + read.error().message);
  return *std::move(read);
}

Result<std::optional<Record>> read_record(const std::string& directory) {
  return parsed_in(directory + "/supervisor.json", parse_record);
}

// Processes left over by a trainer that ended: "PID START-TICKS BOOT-ID", a line each.
constexpr const char* left_over_name = "left-over";

// Those of this boot: another boot's have ended.
Result<std::vector<LeftOver>> parse_left_over(std::string_view text) {
  const std::string now = boot_id();
  std::vector<LeftOver> all;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    LeftOver each;
    std::istringstream words(line);
    std::string boot;
    if (!(words >> each.pid >> each.start_ticks >> boot) || each.pid <= 0)
      return failure("no such line");
    if (boot == now) all.push_back(each);
  }
  return all;
}

std::optional<Process> lives(const LeftOver& left_over) {
  auto now = find_process(left_over.pid);
  return now && now->start_ticks == left_over.start_ticks ? now : std::nullopt;
}

Result<void> keep_left_over(const RunDirectory& directory, const Ended& end) {
  std::string lines;
  for (const LeftOver& each : end.left_over)
    if (end.boot_id == boot_id() && lives(each))
      lines += std::to_string(each.pid) + " " + std::to_string(each.start_ticks) + " " +
               end.boot_id + "\n";
  if (lines.empty()) return {};
  auto kept = directory.write(left_over_name, lines);
  if (!kept) return failure(kept.error().message, processes_left);
  return kept;
}

// The agent does nothing else meanwhile.
constexpr std::chrono::milliseconds moment(100);

bool lock_is_held(const std::string& directory) {
  const std::string name = directory + "/supervisor.lock";
  const Descriptor lock(open(name.c_str(), O_RDONLY | O_CLOEXEC));
  return lock && is_locked(lock);
}

Result<void> send(const std::string& directory, const std::string& text) {
  constexpr std::chrono::milliseconds shortest(1);  // no supervisor lets its socket fill
  if (send_datagram(directory + "/supervisor.sock", text, shortest)) return {};
  return failure("no supervisor listens in " + directory + ": " + std::strerror(errno));
}

}  // namespace

Result<Supervised> look(const std::string& run_directory) {
  Supervised seen;
  // First, as files written before its release are then seen.
  seen.held = lock_is_held(run_directory);
  seen.ended = TRY(parsed_in(run_directory + "/ended.json", parse_ended));
  if (!seen.ended) seen.record = TRY(read_record(run_directory));
  return seen;
}

bool has_supervisor(const std::string& run_directory) { return lock_is_held(run_directory); }

Result<void> send_signal(const std::string& run_directory, int signal) {
  return send(run_directory, "signal " + std::to_string(signal));
}

Result<void> kill(const std::string& run_directory) { return send(run_directory, "kill"); }

Result<void> end_vanished(const std::string& run_directory, std::chrono::milliseconds patience) {
  const auto record = TRY(read_record(run_directory));
  if (!record) return {};
  const Record& was = *record;
  const bool group = remove_control_group(was.control_group, patience);
  const bool session = kill_session(was.trainer_pid, was.trainer_start_ticks, patience);
  if (!group || !session)
    return failure("processes of the trainer with pid " + std::to_string(was.trainer_pid) +
                       " do not end, not even by SIGKILL",
                   processes_left);
  return RunDirectory(run_directory).remove("supervisor.json");
}

Result<void> nobody_left(const std::string& run_directory) {
  const auto kept = TRY(parsed_in(run_directory + "/" + left_over_name, parse_left_over));
  if (!kept) return {};
  std::string living;
  for (const LeftOver& each : *kept) {
    const auto now = lives(each);
    if (!now) continue;
    living += (living.empty() ? "" : ", ") + now->name + " (pid " + std::to_string(each.pid) + ")";
  }
  if (living.empty()) return RunDirectory(run_directory).remove(left_over_name);
  return failure("processes of the trainer before do not end, not even by SIGKILL: " + living,
                 processes_left);
}

Result<void> collect(const std::string& run_directory) {
  const auto now = TRY(look(run_directory));
  if (now.runs()) return failure("the trainer has not ended: there is nothing to collect");
  if (now.vanished()) return end_vanished(run_directory, moment);
  const RunDirectory directory(run_directory);
  if (now.ended) TRY(keep_left_over(directory, *now.ended));
  // The order matters: look(), or an agent killed between the two, still finds how it ended.
  TRY(directory.remove("supervisor.json"));
  constexpr int rounds = 200;
  for (int round = 0; round < rounds && lock_is_held(run_directory); ++round) usleep(1000);
  return directory.remove("ended.json");
}

Result<int> open_pidfd(int pid) {
  const long file = syscall(SYS_pidfd_open, pid, 0);  // close-on-exec by itself
  if (file >= 0) return static_cast<int>(file);
  return failure("no process " + std::to_string(pid) + ": " + std::strerror(errno));
}

bool is_noticed(const std::string& run_directory) {
  std::error_code ignored;
  return fs::exists(run_directory + "/" + notice_name, ignored);
}

std::string stopper(const std::string& run_directory) {
  if (is_noticed(run_directory)) return {};  // our agent
  constexpr std::size_t limit = 4096;
  const auto read = io::read_file(run_directory + "/" + stopper_name, limit);
  if (read) return *read;
  return read.error() == std::errc::no_such_file_or_directory ? "" : "somebody";
}

void forget_stops(const std::string& run_directory) {
  for (const char* name : {notice_name, stopper_name})
    ::unlink((run_directory + "/" + name).c_str());
}

Verdict judge(const Ended& ended, const Expectation& expectation) {
  if (!expectation.job.empty() && ended.job != expectation.job) return {};
  const bool noticed = is_noticed(expectation.run_directory);
  const bool declared = !expectation.result.empty();
  std::error_code unread;
  const bool there = declared && (fs::exists(expectation.result, unread) || unread);
  Verdict verdict;
  if (!noticed)  // else our agent did
    verdict.stopped_by =
        ended.stopped_by.empty() ? stopper(expectation.run_directory) : ended.stopped_by;
  const bool stopped = noticed || !verdict.stopped_by.empty();
  const bool asked = stopped && !(expectation.never_asks && there);
  const bool trusted = (!declared || there) && (!asked || expectation.said_finished);
  verdict.success = ended.exit_code == 0 && trusted;
  verdict.stopped_as_asked = asked && !verdict.success;
  verdict.checkpoint_doubted = ended.checkpoint_doubted;
  verdict.unfit_machine = expectation.gang && !asked && ended.exit_code == give_machine_back;
  verdict.setup_failed = expectation.sets_up && !asked && ended.exit_code == setup_failed;
  return verdict;
}

Result<void> forget(const Expectation& expectation) {
  const auto seen = look(expectation.run_directory);
  if (seen && seen->ended && judge(*seen->ended, expectation).unfit_machine) return {};
  return collect(expectation.run_directory);
}

}  // namespace spotter::supervise
