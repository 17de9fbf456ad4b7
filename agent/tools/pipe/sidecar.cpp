#include "agent/tools/pipe/sidecar.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/io/child.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::unique_ptr<Sidecar> Sidecar::start(std::string name, const Body& body) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return nullptr;
  data::Descriptor ours(ends[0]);
  data::Descriptor theirs(ends[1]);
  const pid_t pid = io::fork_child([&] {
    ours.close();
    ::setsid();  // the terminal's signals are for the trainer
    body(theirs.get());
    return 1;
  });
  if (pid < 0) return nullptr;
  return std::unique_ptr<Sidecar>(new Sidecar(std::move(name), pid, std::move(ours)));
}

std::optional<std::string> Sidecar::listen() {
  using Kind = data::Holder::Report::Kind;
  while (!gone_) {
    auto report = holder_.listen();
    if (report.kind == Kind::None) break;
    if (report.kind == Kind::Ready) ready_ = true;
    if (report.kind == Kind::Failed) return std::move(report.text);
    gone_ = report.kind == Kind::Gone;
  }
  if (!gone_ || name_.empty()) return std::nullopt;
  if (pid_ > 0 && ::waitpid(pid_, nullptr, 0) == pid_) pid_ = 0;
  const std::string name = std::exchange(name_, "");  // reported once
  return name + " has died";
}

void Sidecar::leave() {
  holder_.leave();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

void exec_views(const data::PlaneSettings& settings, int socket) {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path() / "spotter-fastfile";
  const std::string shard =
      std::to_string(settings.shard.index) + "/" + std::to_string(settings.shard.count);
  std::vector<std::string> words{program,
                                 "--socket",
                                 std::to_string(socket),
                                 "--shard",
                                 shard,
                                 "--directory",
                                 settings.directory,
                                 "--budget",
                                 std::to_string(settings.budget)};
  if (!settings.state.empty()) words.insert(words.end(), {"--state", settings.state});
  for (const auto& channel : settings.channels) words.push_back(wire::describe(channel));
  ::fcntl(socket, F_SETFD, 0);  // inherited by the program
  io::Program(std::move(words)).execute();
  (void)data::send_message(socket, "failed channel " + settings.channels.front().name +
                                       ": mode fast_file needs " + program.string() + ": " +
                                       std::strerror(errno));
  ::_exit(1);
}

data::PlaneSettings split_views(data::PlaneSettings& settings) {
  const auto is_view = [](const wire::Channel& channel) {
    return channel.mode == wire::InputMode::FastFile;
  };
  const std::size_t all = settings.channels.size();
  data::PlaneSettings views = settings;
  std::erase_if(views.channels, std::not_fn(is_view));
  std::erase_if(settings.channels, is_view);
  if (settings.channels.empty() || views.channels.empty()) return views;
  const std::size_t each = std::max(settings.budget / all, data::good_budget);
  views.budget = std::min(settings.budget, each * views.channels.size());
  settings.budget -= views.budget;
  return views;
}

}  // namespace spotter::command
