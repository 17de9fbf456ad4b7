#include "agent/supervise/client.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "agent/config/file.hpp"
#include "agent/supervise/processes.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::supervise {
namespace {

using Json = nlohmann::json;

// Null: no such file. The files are our own, so a wrong one is said, not repaired.
Result<Json> read_json(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return Json();
  constexpr std::size_t limit = 64U << 10;
  const auto file = config::read_small_file(path, limit);
  if (!file) return failure("cannot read " + path + ": " + file.error().message);
  Json json = Json::parse(file->content, nullptr, false);
  if (!json.is_object()) return failure(path + " is not a JSON object");
  return json;
}

template <class T>
T value(const Json& json, const char* key) {
  const auto found = json.find(key);
  if constexpr (std::is_same_v<T, std::string>)
    return found != json.end() && found->is_string() ? found->get<T>() : T();
  else if constexpr (std::is_same_v<T, bool>)
    return found != json.end() && found->is_boolean() && found->get<T>();
  else
    return found != json.end() && found->is_number_integer() ? found->get<T>() : T();
}

Time time_of(const Json& json, const char* key) {
  return Time(Duration(value<std::int64_t>(json, key)));
}

Result<Supervised> ended(const Json& json, const std::string& directory) {
  Ended end{.core_dumped = value<bool>(json, "core_dumped"),
            .last_words = value<std::string>(json, "last_words"),
            .ended = time_of(json, "ended_boottime_ms"),
            .ran = Duration(value<std::int64_t>(json, "ran_ms")),
            .trainer_pid = value<int>(json, "trainer_pid"),
            .job = value<std::string>(json, "job")};
  if (json.contains("exit_code")) end.exit_code = value<int>(json, "exit_code");
  if (json.contains("signal")) end.signal = value<int>(json, "signal");
  if (const auto pids = json.find("left_over"); pids != json.end() && pids->is_array())
    for (const auto& pid : *pids)
      if (pid.is_number_integer()) end.left_over.push_back(pid.get<int>());
  if (end.exit_code.has_value() == end.signal.has_value())
    return failure(directory + "/ended.json must have exactly one of exit_code and signal");
  return Supervised(std::move(end));
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
      lock_is_held(run_directory);  // first: what is written before its release is seen
  const auto end = read_json(run_directory + "/ended.json");
  if (!end) return tl::unexpected(end.error());
  if (!end->is_null()) return ended(*end, run_directory);
  const auto json = read_json(run_directory + "/supervisor.json");
  if (!json) return tl::unexpected(json.error());
  if (json->is_null()) return held ? Supervised(Starting{}) : Supervised(None{});
  const int trainer = value<int>(*json, "trainer_pid");
  auto job = value<std::string>(*json, "job");
  if (!held) return Supervised(Vanished{trainer, std::move(job)});
  return Supervised(Running{trainer, value<int>(*json, "pid"),
                            time_of(*json, "started_boottime_ms"), std::move(job)});
}

Result<void> send_signal(const std::string& run_directory, int signal) {
  return send(run_directory, "signal " + std::to_string(signal));
}

Result<void> send_signal_to_group(const std::string& run_directory, int signal) {
  return send(run_directory, "signal-group " + std::to_string(signal));
}

Result<void> kill(const std::string& run_directory) { return send(run_directory, "kill"); }

Result<void> end_vanished(const std::string& run_directory) {
  const auto json = read_json(run_directory + "/supervisor.json");
  if (!json) return tl::unexpected(json.error());
  if (json->is_null()) return {};
  kill_session(value<int>(*json, "trainer_pid"),
               value<std::uint64_t>(*json, "trainer_start_ticks"));
  return RunDirectory(run_directory).remove("supervisor.json");
}

Result<void> collect(const std::string& run_directory) {
  const auto now = look(run_directory);
  if (!now) return tl::unexpected(now.error());
  if (std::holds_alternative<Running>(*now) || std::holds_alternative<Starting>(*now))
    return failure("the trainer has not ended: there is nothing to collect");
  if (std::holds_alternative<Vanished>(*now)) return end_vanished(run_directory);
  const RunDirectory directory(run_directory);
  // In this order: a look() in between, or an agent killed in between, still finds how it ended.
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
