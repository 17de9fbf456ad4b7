#include "agent/supervise/client.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "agent/job/file.hpp"
#include "agent/supervise/control_group.hpp"
#include "agent/supervise/processes.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/supervise/sidecar.hpp"

namespace spotter::supervise {
namespace {

// None: there is no such file.
template <class T>
Result<std::optional<T>> read_as(const std::string& path, Result<T> (*parse)(std::string_view)) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::nullopt;
  constexpr std::size_t limit = 64U << 10;
  const auto file = config::read_small_file(path, limit);
  if (!file) return failure("cannot read " + path + ": " + file.error().message);
  auto read = parse(file->content);
  if (!read && wire::is_newer(read.error())) return failure(path + ": " + read.error().message);
  if (!read) return failure(path + " is damaged: " + read.error().message);
  return *std::move(read);
}

Result<std::optional<Record>> read_record(const std::string& directory) {
  return read_as(directory + "/supervisor.json", parse_record);
}

bool lock_is_held(const std::string& directory) {
  const std::string name = directory + "/supervisor.lock";
  const Descriptor lock(open(name.c_str(), O_RDONLY | O_CLOEXEC));
  return lock && is_locked(lock);
}

Result<void> send(const std::string& directory, const std::string& text) {
  const Descriptor here(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto address = socket_address(here, "supervisor.sock");
  const ssize_t sent = sendto(socket.get(), text.data(), text.size(), MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&address), sizeof address);
  if (sent == static_cast<ssize_t>(text.size())) return {};
  return failure("no supervisor listens in " + directory + ": " + std::strerror(errno));
}

}  // namespace

Result<Supervised> look(const std::string& run_directory) {
  const bool held =
      lock_is_held(run_directory);  // first, as files written before its release are then seen
  const auto end = read_as(run_directory + "/ended.json", parse_ended);
  if (!end) return tl::unexpected(end.error());
  if (*end) return Supervised(**end);
  const auto record = read_record(run_directory);
  if (!record) return tl::unexpected(record.error());
  if (!*record) return held ? Supervised(Starting{}) : Supervised(None{});
  const Record& is = **record;
  if (!held) return Supervised(Vanished{is.trainer_pid, is.job});
  return Supervised(Running{is.trainer_pid, is.supervisor_pid, is.started, is.job});
}

bool is_ours(const std::string& run_directory, int pid) {
  if (is_sidecar(run_directory, pid)) return true;
  const auto supervised = look(run_directory);
  const auto* running = supervised ? std::get_if<Running>(&*supervised) : nullptr;
  return running != nullptr && running->supervisor_pid == pid;
}

Result<void> send_signal(const std::string& run_directory, int signal) {
  return send(run_directory, "signal " + std::to_string(signal));
}

Result<void> send_signal_to_group(const std::string& run_directory, int signal) {
  return send(run_directory, "signal-group " + std::to_string(signal));
}

Result<void> kill(const std::string& run_directory) { return send(run_directory, "kill"); }

Result<void> end_vanished(const std::string& run_directory) {
  const auto record = read_record(run_directory);
  if (!record) return tl::unexpected(record.error());
  if (!*record) return {};
  remove_control_group((*record)->control_group);
  kill_session((*record)->trainer_pid, (*record)->trainer_start_ticks);
  return RunDirectory(run_directory).remove("supervisor.json");
}

Result<void> collect(const std::string& run_directory) {
  const auto now = look(run_directory);
  if (!now) return tl::unexpected(now.error());
  if (std::holds_alternative<Running>(*now) || std::holds_alternative<Starting>(*now))
    return failure("the trainer has not ended: there is nothing to collect");
  if (std::holds_alternative<Vanished>(*now)) return end_vanished(run_directory);
  const RunDirectory directory(run_directory);
  // The order matters: look(), or an agent killed between the two, still finds how it ended.
  if (auto removed = directory.remove("supervisor.json"); !removed) return removed;
  constexpr int rounds = 200;
  for (int round = 0; round < rounds && lock_is_held(run_directory); ++round) usleep(1000);
  return directory.remove("ended.json");
}

Result<int> open_pidfd(int pid) {
  const long file = syscall(SYS_pidfd_open, pid, 0);  // close-on-exec by itself
  if (file >= 0) return static_cast<int>(file);
  return failure("no process " + std::to_string(pid) + ": " + std::strerror(errno));
}

}  // namespace spotter::supervise
