#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "agent/aws/settings/settings.hpp"
#include "agent/commands/machine/machine.hpp"
#include "agent/commands/machine/pipe_options.hpp"
#include "agent/data/download.hpp"
#include "agent/data/fifo.hpp"
#include "agent/data/plane.hpp"
#include "agent/host/mounts.hpp"
#include "agent/io/child.hpp"
#include "agent/io/files.hpp"
#include "agent/io/log.hpp"
#include "agent/supervise/processes.hpp"

namespace spotter::command {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Leave = std::function<bool()>;

// A process that feeds the trainer, started beside this one, and this end of their socket
// (agent/data/fifo.hpp): the data plane, or the server of views of mode `fast_file`.
class Sidecar {
 public:
  // Runs in that process with its end of the socket; never returns.
  using Body = std::function<void(int socket)>;

  // Null: see errno.
  static std::unique_ptr<Sidecar> start(std::string name, const Body& body) {
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

  data::Holder& holder() { return holder_; }
  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }  // 0: it has ended
  bool ready() const { return ready_; }
  int descriptor() const { return gone_ ? -1 : holder_.descriptor(); }

  // Why the trainer must be stopped, once for each reason; none: no new reason.
  std::optional<std::string> listen() {
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

  void ended() { pid_ = 0; }  // to be called when waitpid has had it

  // Asks it to end, and waits for that; listen() then has its last words.
  void leave() {
    holder_.leave();
    int status = -1;
    if (pid_ > 0) ::waitpid(pid_, &status, 0);
    pid_ = 0;
    if (status == 0) name_.clear();  // it has ended as it was asked to
  }

 private:
  Sidecar(std::string name, pid_t pid, data::Descriptor socket)
      : name_(std::move(name)), pid_(pid), holder_(std::move(socket)) {}

  std::string name_;
  pid_t pid_;
  data::Holder holder_;
  bool ready_ = false;
  bool gone_ = false;
};

// Views that are mounted already are for the views' process alone, without which each use of them
// must fail.
void close_views() {
  for (const auto& view : act::host::mounted_views()) ::close(view.descriptor);
}

// The body of the views' process: spotter-fastfile, installed beside this program.
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
  for (const auto& view : act::host::mounted_views()) ::fcntl(view.descriptor, F_SETFD, 0);
  ::fcntl(socket, F_SETFD, 0);  // inherited by the program
  io::Program(std::move(words)).execute();
  (void)data::send_message(socket, "failed channel " + settings.channels.front().name +
                                       ": mode fast_file needs " + program.string() + ": " +
                                       std::strerror(errno));
  ::_exit(1);
}

// Moves the channels of mode `fast_file`, with their part of the memory, into the result.
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

constexpr int no_data_status = 74;  // EX_IOERR: the data could not be fetched
constexpr milliseconds grace{10'000};
constexpr std::size_t longest_variable = 128U << 10;  // execve(2) fails with a longer one

// Ends the readers while their FIFOs are still open.
void end_session(int leader) {
  if (leader == 0) return;
  const auto process = supervise::find_process(leader);
  supervise::kill_session(leader, process ? process->start_ticks : 0);
}

Result<void> fetch_all(const data::DownloadSettings& settings, const Leave& left) {
  if (settings.channels.empty()) return {};
  const auto done = TRY(data::download(settings, left));
  for (const auto& each : done) {
    std::fprintf(stderr, "spotter pipe: channel %s: %zu files, %zu of them fetched now, %.3f GB\n",
                 each.channel.c_str(), each.files, each.fetched,
                 static_cast<double>(each.bytes) / 1e9);
  }
  return {};
}

// Whether the channel's files are in the cache: then its folder is a link to there. Files that are
// on the storage stay there; a link made by an instance with other disks is replaced.
bool is_cached(const data::PlaneSettings& settings, const wire::Channel& channel) {
  std::error_code error;
  const fs::path link = settings.directory / channel.name;
  if (fs::is_symlink(link, error)) fs::remove(link, error);
  if (settings.cache.empty() || fs::exists(fs::symlink_status(link, error))) return false;
  fs::create_directories(settings.directory, error);
  fs::create_directory_symlink(settings.cache / channel.name, link, error);
  return !error;
}

// Mode `file`: fetches all of it before the trainer starts, unless the holder leaves.
Result<void> fetch_files(const data::PlaneSettings& settings, int socket) {
  const Leave left = [socket] {
    bool gone = false;
    bool bye = false;
    while (const auto word = data::receive_message(socket, gone)) bye = bye || word->text == "bye";
    return gone || bye;
  };
  data::DownloadSettings stored{.directory = settings.directory,
                                .state = settings.state,
                                .budget = settings.budget,
                                .shard = settings.shard,
                                .s3 = settings.s3};
  data::DownloadSettings cached = stored;
  cached.directory = settings.cache;
  if (!settings.state.empty()) cached.ledgers = settings.cache / ".ledgers";
  for (const wire::Channel& each : settings.channels)
    if (each.mode == wire::InputMode::File)
      (is_cached(settings, each) ? cached : stored).channels.push_back(each);
  auto done = fetch_all(stored, left);
  return done ? fetch_all(cached, left) : done;
}

// Sent like a message of the trainer; without an agent it goes nowhere.
void send_flow(const data::Stream& stream) {
  const std::chrono::duration<double> stalled(stream.stalled());
  sd_notifyf(0,
             "X_SPOTTER_CHANNEL=%s\nX_SPOTTER_CHANNEL_BYTES=%llu\n"
             "X_SPOTTER_CHANNEL_STALL_SECONDS=%.3f",
             stream.name().c_str(), static_cast<unsigned long long>(stream.bytes()),
             stalled.count());
}

// The processes beside this one, from start to the trainer's end.
class Run {
 public:
  Run(data::PlaneSettings settings, Container container)
      : settings_(std::move(settings)),
        views_(split_views(settings_)),
        container_(std::move(container)) {}

  int run(const std::vector<std::string>& command) {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int each : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT})
      ::sigaddset(&set, each);
    ::sigprocmask(SIG_BLOCK, &set, &before_);
    open_more_files();
    signals_ = data::Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!start_beside()) {
      io::complain("pipe", std::strerror(errno));
      leave();
      return no_data_status;
    }
    while (step()) {
    }
    if (!failed_) {
      start_trainer(command);
      while (step()) {
      }
      // Its descendants may still read.
      supervise::kill_session(trainer_, trainer_ticks_);
    }
    leave();
    const std::string reason =
        container_.root.empty() || ended_ == 0 ? "" : reason_of_failure(container_);
    if (!reason.empty()) io::complain("pipe", "the trainer says: " + reason);
    if (failed_ || !ended_) return no_data_status;
    return WIFSIGNALED(*ended_) ? 128 + WTERMSIG(*ended_) : WEXITSTATUS(*ended_);
  }

 private:
  bool start_beside() {
    const auto start = [this](const char* name, const Sidecar::Body& body) {
      auto started = Sidecar::start(name, [&](int socket) {
        signals_.close();
        ::sigprocmask(SIG_SETMASK, &before_, nullptr);
        body(socket);
      });
      if (started) beside_.push_back(std::move(started));
      return !beside_.empty() && beside_.back()->name() == name;
    };
    if (!start("the data plane", [this](int socket) { run_plane(socket); })) return false;
    const bool all =
        views_.channels.empty() ||
        start("the process of the views", [this](int socket) { exec_views(views_, socket); });
    close_views();
    ::unsetenv("SPOTTER_VIEWS");
    return all;
  }

  void run_plane(int socket) {
    close_views();
    ::signal(SIGTERM, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
    settings_.orphaned = end_session;
    settings_.flows = send_flow;
    auto done = fetch_files(settings_, socket);
    std::erase_if(settings_.channels, [](const wire::Channel& channel) {
      return channel.mode != wire::InputMode::Pipe;
    });
    if (done) done = data::run_plane(settings_, socket);
    if (!done) (void)data::send_message(socket, "failed " + done.error().message);
    ::_exit(done ? 0 : 1);
  }

  // Two FIFOs are open for each streamed channel. The trainer keeps its limit: select(2) takes
  // 1024.
  void open_more_files() {
    if (::getrlimit(RLIMIT_NOFILE, &files_before_) != 0) return;
    rlimit most = files_before_;
    most.rlim_cur = most.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &most);
  }

  // Sets the variables that SageMaker's containers have.
  void set_container_variables() const {
    const auto all =
        container_.root.empty() ? channel_variables(container_) : variables(container_);
    for (const auto& [name, value] : all) {
      if (name.size() + value.size() + 2 <= longest_variable) {
        ::setenv(name.c_str(), value.c_str(), 1);
      } else {
        io::complain("pipe", name + " would be too long for a variable: it is left out");
      }
    }
  }

  void start_trainer(const std::vector<std::string>& command) {
    const io::Program program(command);
    const pid_t holder = ::getpid();
    trainer_ = io::fork_child([&] {
      ::setsid();
      if (!io::die_with(holder, SIGKILL)) return 127;
      ::sigprocmask(SIG_SETMASK, &before_, nullptr);
      ::setrlimit(RLIMIT_NOFILE, &files_before_);
      set_container_variables();
      program.execute_from_path();
      io::complain("pipe", command[0] + ": " + std::strerror(errno));
      return 127;
    });
    if (const auto process = supervise::find_process(trainer_))
      trainer_ticks_ = process->start_ticks;
    for (const auto& each : beside_) each->holder().send_trainer(trainer_);
  }

  void listen() {
    for (const auto& each : beside_)
      while (const auto why = each->listen()) stop(*why);
  }

  void read_signals() {
    signalfd_siginfo signal{};
    while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
      const int number = static_cast<int>(signal.ssi_signo);
      if (number == SIGCHLD) {
        reap();
      } else if (trainer_ > 0) {
        supervise::signal_main_process(trainer_, number);
      } else {
        failed_ = true;
      }
    }
  }

  void reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid == trainer_) ended_ = status;
      for (const auto& each : beside_)
        if (pid == each->pid()) each->ended();
    }
  }

  // No more data will come. A signal ends the trainer, as an end of file would be a lie. One that
  // has ended well did not need it.
  void stop(const std::string& why) {
    if (!std::exchange(said_, true)) io::complain("pipe", why);
    if (ended_ == 0) return;
    failed_ = true;
    if (trainer_ <= 0 || ended_ || kill_at_) return;
    supervise::signal_main_process(trainer_, SIGTERM);
    kill_at_ = steady_clock::now() + grace;
  }

  // Waits for the next event.
  bool step() {
    std::vector<pollfd> files{{signals_.get(), POLLIN, 0}};
    for (const auto& each : beside_) files.push_back({each->descriptor(), POLLIN, 0});
    int wait = -1;
    if (kill_at_) {
      const auto left = std::chrono::ceil<milliseconds>(*kill_at_ - steady_clock::now());
      wait = static_cast<int>(std::max(left, milliseconds(0)).count());
    }
    ::poll(files.data(), files.size(), wait);
    read_signals();
    listen();
    if (kill_at_ && !ended_ && steady_clock::now() >= *kill_at_) {
      supervise::kill_session(trainer_, trainer_ticks_);
      kill_at_ = steady_clock::now() + grace;
    }
    return trainer_ > 0 ? !ended_ : !ready() && !failed_;
  }

  bool ready() const { return std::ranges::all_of(beside_, &Sidecar::ready); }

  // Hears of what may be why the trainer ended: a killed process closes the trainer's files a
  // moment before its own end is known, and a refusal may still be on its way. Unmounts the views
  // of a process that died, once nobody reads them: an empty folder would look like data.
  void leave() {
    for (const auto& each : beside_) each->leave();
    listen();
    for (const auto& channel : views_.channels)
      act::host::detach_views(views_.directory / channel.name);
  }

  data::PlaneSettings settings_;
  data::PlaneSettings views_;  // the channels of mode `fast_file`
  Container container_;
  std::vector<std::unique_ptr<Sidecar>> beside_;
  data::Descriptor signals_;
  sigset_t before_{};
  rlimit files_before_{};
  pid_t trainer_ = 0;
  std::uint64_t trainer_ticks_ = 0;
  bool failed_ = false;
  bool said_ = false;         // why
  std::optional<int> ended_;  // of waitpid(2)
  std::optional<steady_clock::time_point> kill_at_;
};

constexpr std::uint64_t patience = 20'000'000;  // microseconds

// Even a command with a plus sign has a namespace of its own, whose mounts end with it.
bool enter_namespace_of_process_1() {
  const io::Descriptor mounts(::open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC));
  return mounts && ::setns(mounts.get(), CLONE_NEWNS) == 0;
}

int mount(const act::host::Views& views) {
  const auto mounted = act::host::mount_views(views);
  if (!mounted) return io::complain("views", mounted.error().message);
  for (std::size_t i = 0; i < mounted->size(); ++i) {
    const std::string words = "FDSTORE=1\nFDNAME=" + views.names[i];
    const int view = (*mounted)[i].get();
    if (::sd_pid_notify_with_fds(0, 0, words.c_str(), &view, 1) <= 0)
      return io::complain("views", "process 1 does not take the view of " + views.names[i]);
  }
  // Process 1 starts the main process as soon as this one has ended: it must have them by then.
  if (::sd_notify_barrier(0, patience) <= 0)
    return io::complain("views", "process 1 does not answer");
  return 0;
}

}  // namespace

void add_pipe(CLI::App& app, int& status) {
  auto options = std::make_shared<PipeOptions>();
  auto* pipe = app.add_subcommand(
      "pipe", "Runs a command and feeds it S3 objects through FIFOs, as SageMaker's Pipe mode");
  options->add_to(*pipe);
  pipe->callback([options, &status] {
    const auto wrong = [&status](const Error& error, int with) {
      io::complain("pipe", error.message);
      status = with;
    };
    auto settings = options->settings(act::Environment::of_this_process());
    if (!settings) return wrong(settings.error(), 2);
    auto container = options->container(*settings);
    if (!container) return wrong(container.error(), 2);
    if (!container->root.empty()) {
      if (auto made = prepare(*container); !made) return wrong(made.error(), no_data_status);
    }
    status = Run(std::move(*settings), std::move(*container)).run(options->command);
  });
}

int views(int argc, char** argv) {
  CLI::App app("Mounts the trainer's views of data", "spotter views");
  act::host::Views views;
  bool detach = false;
  app.add_option("--home", views.home)->required();
  app.add_option("--folder", views.folder)->required();
  app.add_option("--user", views.user);
  app.add_flag("--detach", detach);
  app.add_option("names", views.names);
  if (const auto over = parsed(app, argc, argv)) return *over;
  io::take_usual_umask();
  if (!enter_namespace_of_process_1())
    return io::complain("views", std::string("process 1's mounts: ") + std::strerror(errno));
  if (!detach) return mount(views);
  act::host::detach_views(views.home, views.folder);
  return 0;
}

}  // namespace spotter::command
