#include "agent/supervise/supervisor.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <tuple>

#include "agent/base/record.hpp"
#include "agent/base/text.hpp"
#include "agent/io/child.hpp"
#include "agent/supervise/client.hpp"
#include "agent/supervise/output.hpp"
#include "agent/supervise/processes.hpp"
#include "agent/supervise/sidecar.hpp"
#include "agent/supervise/trainer.hpp"

namespace spotter::supervise {
namespace {

constexpr std::chrono::seconds time_to_read_what_is_there(5);  // of the agent's 30 for a start

constexpr int milliseconds_to_read_the_last = 1000;

// The program that reads the trainer's own log of metrics (`spotter follow-log`), with no more
// rights than the trainer, without its environment, which has secrets, and in no folder, which it
// would keep busy. Nothing depends on it: where it fails, the trainer trains without.
Sidecar follower_of(const std::vector<std::string>& arguments, Launch launch, int log,
                    const std::string& control_group) {
  launch.environment = {"LANG=C.UTF-8"};
  launch.views.clear();
  launch.working_directory = "/";
  // It needs no such sockets; the trainer's user may change what it does (ptrace(2)).
  const auto bound = launch.refuse_metadata ? BoundSockets::Forbidden : BoundSockets::Allowed;
  return Sidecar(arguments, [=](const std::vector<std::string>& words, int input, int output) {
    Launch its = launch;
    its.shell = words.front();
    its.arguments = words;
    return spawn_as_trainer(its, {input, output, log}, bound, control_group);
  });
}

constexpr int milliseconds_to_end = 2000;  // what descendants get between SIGTERM and SIGKILL

constexpr int milliseconds_to_die = 5000;  // after SIGKILL only a process stuck in the kernel stays

constexpr int milliseconds_to_die_at_most = 60'000;  // of those that fork faster than they die

constexpr int milliseconds_to_settle = 60'000;  // what the sidecar gets to make all durable

constexpr std::chrono::seconds time_to_get_ready(20);  // of the agent's 30 to start a trainer

constexpr int milliseconds_to_try_again = 1000;

constexpr off_t last_words_bytes = 4096;

// A trainer that fails may print its environment.
std::vector<std::string> secrets_of(const Spec& spec) {
  std::vector<std::string> values;
  std::istringstream names(spec.secrets);
  for (std::string name; names >> name;)
    if (const auto found = spec.environment.find(name); found != spec.environment.end())
      values.push_back(found->second);
  return values;
}

// Watches one trainer from its start until its end is recorded. Internal to supervise.
class Watch {
 public:
  // Takes the lock, binds the socket, starts the trainer, writes supervisor.json. On failure
  // nothing is left.
  static Result<Watch> begin(const std::string& directory, const Spec& spec, const Launch& launch) {
    if (mkdir(directory.c_str(), directory_mode) != 0 && errno != EEXIST)
      return failure("cannot make the run directory " + directory + ": " + std::strerror(errno));
    Watch watch(directory, spec);
    TRY(watch.directory_.make_ours());
    watch.lock_ = TRY(watch.directory_.open_lock());
    if (!try_lock(watch.lock_))
      return failure("another supervisor is at work in " + directory +
                         " (it holds supervisor.lock): one trainer at a time",
                     "running");
    if (access(watch.directory_.file("ended.json").c_str(), F_OK) == 0)
      return failure("how the trainer before ended was not collected yet: " + directory +
                     "/ended.json");
    if (watch.lease_.is_over())
      return failure("the lease in " + spec.lease +
                     " is over: another machine may train this by now");
    // Processes left by the trainer before may still write to the storage.
    TRY(end_vanished(directory));
    TRY(nobody_left(directory));
    auto ready = watch.listen();
    if (ready) ready = watch.sidecar_.start(time_to_get_ready);
    if (ready) ready = watch.start_trainer(spec, launch);
    if (ready) return watch;
    watch.undo();
    return tl::unexpected(ready.error());
  }

  pid_t trainer() const { return trainer_; }

  // Passes signals on until the trainer ends; then ends its descendants and writes ended.json.
  void watch_to_end() {
    std::array<pollfd, 3> watched{pollfd{signals_.get(), POLLIN, 0},
                                  pollfd{socket_.get(), POLLIN, 0},
                                  pollfd{lease_.descriptor(), POLLIN, 0}};
    while (!trainer_ended()) {
      const int until_output = output_.milliseconds_left(boottime_milliseconds());
      int limit = sidecar_.wanted() ? milliseconds_to_try_again : -1;
      if (until_output >= 0 && (limit < 0 || limit > until_output)) limit = until_output;
      const int seen = poll(watched.data(), watched.size(), limit);
      output_.look(boottime_milliseconds());
      if (seen == 0 && sidecar_.wanted()) restart(sidecar_);
      if (seen <= 0) continue;
      if (watched[0].revents != 0) handle_signal();
      if (watched[1].revents != 0) handle_datagram();
      if (watched[2].revents != 0) enforce_lease();
    }
    ended_ = boottime_milliseconds();
    out_of_memory_ = kills_for_want_of_memory() > memory_kills_;
    end_follower();
    auto left_over = end_descendants();
    end_sidecar();
    checkpoint_doubted_ = sidecar_.last_word() == "doubted";
    if (left_over.empty()) left_over = kill_all();  // processes of the sidecar
    if (left_over.empty()) remove_control_group(control_group_);
    record_end(std::move(left_over));
  }

  // for a journal
  std::string how_it_ended() const {
    const std::string how = WIFSIGNALED(status_)
                                ? "signal " + std::to_string(WTERMSIG(status_))
                                : "exit status " + std::to_string(WEXITSTATUS(status_));
    return how + (out_of_memory_ ? ", and the kernel killed for want of memory" : "");
  }

 private:
  Watch(const std::string& directory, const Spec& spec)
      : directory_(directory),
        stop_signal_(spec.stop_signal),
        sets_up_(spec.sets_up),
        job_(spec.job),
        secrets_(secrets_of(spec)),
        sidecar_(spec.sidecar, directory, environment_of_sidecar(spec)),
        lease_(spec.lease),
        output_(directory, job_, secrets_) {}

  Result<void> listen() {
    sigset_t watched;
    sigemptyset(&watched);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&watched, signal);
    sigprocmask(SIG_SETMASK, &watched, nullptr);
    signal(SIGPIPE, SIG_IGN);
    // A process that daemonises becomes our child, so that it can be ended, too.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signals_ = Descriptor(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    socket_ = Descriptor(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const Descriptor here(open(directory_.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto address = socket_address(here, "supervisor.sock");
    TRY(directory_.remove("supervisor.sock"));
    const mode_t mask = umask(0177);
    const bool bound =
        signals_ && socket_ && here &&
        bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const int error = errno;
    umask(mask);
    if (bound) return {};
    return failure("cannot listen at " + directory_.file("supervisor.sock") + ": " +
                   std::strerror(error));
  }

  Result<void> start_trainer(const Spec& spec, const Launch& launch) {
    const bool here = fs::path(spec.log_file).parent_path() == directory_.path();
    log_ = TRY(open_log(spec.log_file, launch.account,
                        here ? LogPlace::RunDirectory : LogPlace::UsersFolder));
    log_start_ = lseek(log_.get(), 0, SEEK_END);
    if (const auto begun = output_.begin(log_.get(), log_start_); !begun)
      dprintf(log_.get(), "spotter: %s\n", begun.error().message.c_str());
    started_ = boottime_milliseconds();
    memory_kills_ = kills_for_want_of_memory();
    control_group_ = make_control_group();
    follower_ = follower_of(spec.follower, launch, log_.get(), control_group_);
    if (const auto begun = follower_.begin(time_to_read_what_is_there); !begun)
      dprintf(log_.get(), "spotter: %s\n", begun.error().message.c_str());
    trainer_ = TRY(spawn_trainer(launch, log_, control_group_));
    const auto process = find_process(trainer_);
    const Record record{.supervisor_pid = getpid(),
                        .trainer_pid = trainer_,
                        .trainer_start_ticks = process ? process->start_ticks : 0,
                        .started_ms = started_,
                        .job = job_,
                        .control_group = control_group_};
    return directory_.write("supervisor.json", wire::document_of(record, record_version));
  }

  void undo() {
    sidecar_.kill();
    kill_all();
    remove_control_group(control_group_);
    for (const char* name : {"supervisor.sock", "supervisor.json"})
      std::ignore = directory_.remove(name);
  }

  // Reaps ended children; returns true only for the trainer's own end.
  bool trainer_ended() {
    while (true) {
      int status = 0;
      const pid_t pid = waitpid(-1, &status, WNOHANG);
      if (pid <= 0) return false;
      for (Sidecar* each : {&sidecar_, &follower_})
        if (each->is(pid)) restart(*each);
      if (pid != trainer_) continue;
      status_ = status;
      return true;
    }
  }

  // Without the guard the trainer's files are made durable only at the next start.
  void restart(Sidecar& sidecar) {
    const auto restarted = sidecar.restart();
    if (!restarted) dprintf(log_.get(), "spotter: %s\n", restarted.error().message.c_str());
  }

  // Our agent sends no signals: others stop the trainer, and SIGKILL may follow. A trainer that
  // cannot be asked would only train for nothing until then.
  void handle_signal() {
    signalfd_siginfo info{};
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo != SIGTERM && info.ssi_signo != SIGINT) continue;
      stopper_ = shown_sender(static_cast<pid_t>(info.ssi_pid), info.ssi_uid);
      std::ignore = directory_.write(stopper_name, stopper_);  // ended.json has it, too
      if (stop_signal_ == 0) return kill_tree();
      signal_main_process(trainer_, stop_signal_);
    }
  }

  // `kill`, `signal N`; anything else is ignored: only our own agent can send here.
  void handle_datagram() {
    std::array<char, 64> buffer{};
    const ssize_t size = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (size <= 0) return;
    const std::string_view text(buffer.data(), static_cast<std::size_t>(size));
    if (text == "kill") return kill_tree();
    const auto space = text.find(' ');
    if (space == text.npos) return;
    int signal = 0;
    std::from_chars(text.data() + space + 1, text.data() + text.size(), signal);
    if (signal < 1 || signal > SIGRTMAX) return;
    if (text.substr(0, space) == "signal") signal_main_process(trainer_, signal);
  }

  // Ends the sidecar, too: its copying could overwrite the work of another machine.
  void enforce_lease() {
    lease_.renew();
    if (!lease_.is_over()) return;
    dprintf(log_.get(), "spotter: the lease is over: another machine may train this by now\n");
    sidecar_.kill();
    kill_tree();
  }

  void kill_tree() {
    follower_.forget();
    signal_descendants(getpid(), SIGKILL, sidecar_.pid());
  }

  // Until only the sidecar is left, or processes stuck in the kernel, which are returned.
  std::vector<LeftOver> kill_all() {
    kill_control_group(control_group_);
    kill_tree();
    Children children(sidecar_.pid());
    const std::int64_t began = boottime_milliseconds();
    std::int64_t now = began, last_found = began;
    while (now - last_found < milliseconds_to_die && now - began < milliseconds_to_die_at_most) {
      const bool found = children.kill() > 0;
      reap_all();
      now = boottime_milliseconds();
      if (found) last_found = now;
      if (found) continue;
      if (has_no_descendants(sidecar_.pid())) return {};
      kill_tree();  // also below one that is stuck in the kernel
      usleep(1000);
    }
    std::vector<LeftOver> left_over;
    for (const auto& each : descendants_of(getpid(), sidecar_.pid()))
      left_over.push_back({each.pid, each.start_ticks});
    return left_over;
  }

  void reap_all() {
    for (pid_t pid = 0; (pid = waitpid(-1, nullptr, WNOHANG)) > 0;) {
      if (sidecar_.is(pid)) sidecar_.forget();
    }
  }

  // It may read the last rows, for a second at most. Then it may be killed as any process of the
  // trainer.
  void end_follower() {
    follower_.send("ended\n");
    constexpr int step = 10;
    for (int waited = 0; follower_.runs() && waited < milliseconds_to_read_the_last;
         waited += step) {
      if (waitpid(follower_.pid(), nullptr, WNOHANG) != 0) break;
      usleep(step * 1000);
    }
    follower_.forget();
  }

  // Nothing writes any more. The sidecar may take its time, unless the agent sends `kill` again:
  // then the next start does what is left to do.
  void end_sidecar() {
    sidecar_.send(end_in_a_word());
    constexpr int step = 10;
    for (int waited = 0; sidecar_.runs(); waited += step) {
      reap_all();
      if (!sidecar_.runs()) return;
      if (waited >= milliseconds_to_settle) sidecar_.kill();
      pollfd watched{socket_.get(), POLLIN, 0};
      if (poll(&watched, 1, step) <= 0) continue;
      std::array<char, 64> buffer{};
      const ssize_t size = recv(socket_.get(), buffer.data(), buffer.size(), 0);
      const std::string_view text(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
      if (text == "kill") sidecar_.kill();
      if (waited >= milliseconds_to_settle + milliseconds_to_die) return;  // stuck in the kernel
    }
  }

  // The words are those of agent/guard/guard.hpp. That the trainer failed by itself may be its
  // checkpoint's fault.
  std::string end_in_a_word() const {
    const int status = WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
    if (status == 0 && stopper_.empty()) return "finished\n";
    if (status == 0 || status == EX_TEMPFAIL) return "stopped\n";
    if (sets_up_ && status == setup_failed) return "stopped\n";  // it was not reached
    const bool asked = !stopper_.empty() || is_noticed(directory_.path());
    const bool crashed =
        WIFSIGNALED(status_) && WTERMSIG(status_) != SIGKILL && WTERMSIG(status_) != SIGTERM;
    return !asked && (WIFEXITED(status_) || crashed) ? "failed\n" : "killed\n";
  }

  std::vector<LeftOver> end_descendants() {
    signal_descendants(getpid(), SIGTERM, sidecar_.pid());
    constexpr int step = 10;
    for (int waited = 0; waited < milliseconds_to_end; waited += step) {
      reap_all();
      if (has_no_descendants(sidecar_.pid())) return {};
      usleep(step * 1000);
    }
    return kill_all();
  }

  std::string last_words() const {
    struct stat status {};
    if (fstat(log_.get(), &status) != 0) return {};
    const off_t begin = status.st_size < log_start_ ? 0 : log_start_;  // smaller: it was truncated
    const off_t size = std::min(status.st_size - begin, last_words_bytes);
    std::string text(static_cast<std::size_t>(size), '\0');
    const ssize_t got = pread(log_.get(), text.data(), text.size(), status.st_size - size);
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    wire::Mask mask(secrets_);
    if (size < status.st_size - begin) mask.cut();
    text = mask.feed(text);
    text += mask.rest();
    return last_lines(std::move(text));
  }

  void record_end(std::vector<LeftOver> left_over) {
    Ended end{.core_dumped = WIFSIGNALED(status_) && WCOREDUMP(status_),
              .out_of_memory = out_of_memory_,
              .checkpoint_doubted = checkpoint_doubted_,
              .stopped_by = stopper_,
              .last_words = last_words(),
              .ended_ms = ended_,
              .ran_ms = ended_ - started_,
              .trainer_pid = trainer_,
              .job = job_,
              .boot_id = boot_id(),
              .left_over = std::move(left_over)};
    (WIFSIGNALED(status_) ? end.signal : end.exit_code) =
        WIFSIGNALED(status_) ? WTERMSIG(status_) : WEXITSTATUS(status_);
    output_.end(how_it_ended());
    log_.close();  // before the end is recorded, as the log may be on the mount
    std::ignore = directory_.remove("supervisor.sock");
    // If the disk is full, the short form may still fit.
    if (directory_.write("ended.json", wire::document_of(end, record_version))) return;
    end.last_words.clear();
    std::ignore = directory_.write("ended.json", wire::document_of(end, record_version));
  }

  RunDirectory directory_;
  int stop_signal_;
  bool sets_up_;
  std::string job_;
  std::vector<std::string> secrets_;  // values
  Sidecar sidecar_;
  Sidecar follower_;
  Lease lease_;
  Descriptor lock_;
  Descriptor socket_;
  Descriptor signals_;
  Descriptor log_;
  Output output_;
  std::string control_group_;  // the trainer's own; empty: it has none
  off_t log_start_ = 0;
  pid_t trainer_ = 0;
  int status_ = 0;  // as of waitpid, once the trainer has ended
  std::int64_t started_ = 0;
  std::int64_t ended_ = 0;
  std::uint64_t memory_kills_ = 0;  // before the trainer started
  bool out_of_memory_ = false;
  bool checkpoint_doubted_ = false;
  std::string stopper_;  // who, other than our agent, stopped the trainer
};

constexpr int report_number = 3;  // the detached supervisor's descriptor of the pipe to its starter

// One line to the starter: "ok SUPERVISOR TRAINER", or "running", "left" or "failed" and a message.
void tell(int to, const Result<Watch>& watch) {
  const std::string kind = watch ? "" : watch.error().kind;
  const std::string line =
      watch ? "ok " + std::to_string(getpid()) + " " + std::to_string(watch->trainer())
            : (kind == "running"        ? "running "
               : kind == processes_left ? "left "
                                        : "failed ") +
                  watch.error().message;
  [[maybe_unused]] const ssize_t written = write(to, line.data(), line.size());
}

// Keeps only the pipe of the starter's descriptors: a process that reads the starter's output to
// its end must not wait for us.
void close_all_but(int pipe) {
  dup2(pipe, report_number);
  fcntl(report_number, F_SETFD, FD_CLOEXEC);
  close_range(report_number + 1, ~0U, 0);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int standard = 0; standard <= 2; ++standard) dup2(null, standard);
  close(null);
  io::take_usual_umask();
  leave_no_core();
  [[maybe_unused]] const int ignored =
      chdir("/");  // our working directory must not keep a mount busy
}

int run_supervisor(const std::string& directory, const Spec& spec, const Launch& launch, int pipe) {
  close_all_but(pipe);
  auto watch = Watch::begin(directory, spec, launch);
  tell(report_number, watch);
  close(report_number);
  if (!watch) return 1;
  watch->watch_to_end();
  return 0;
}

// What process 1 has of this unit's views: their names, in the order of `launch.views`.
std::vector<std::string> take_views(Launch& launch) {
  char** names = nullptr;
  const int count = sd_listen_fds_with_names(1, &names);
  std::vector<std::string> taken;
  std::string words;
  for (int i = 0; i < count; ++i) {
    launch.views.push_back(SD_LISTEN_FDS_START + i);
    taken.emplace_back(names[i]);
    words += (words.empty() ? "" : " ") + std::to_string(launch.views.back()) + ":" + names[i];
    std::free(names[i]);
  }
  std::free(names);
  if (!words.empty()) launch.environment.push_back("SPOTTER_VIEWS=" + words);
  return taken;
}

// Only who answers holds them: with its end each use of a view fails, instead of waiting.
void leave_views(const std::vector<std::string>& names, Launch& launch) {
  for (const int view : std::exchange(launch.views, {})) close(view);
  for (const std::string& name : names) sd_notify(0, ("FDSTOREREMOVE=1\nFDNAME=" + name).c_str());
}

}  // namespace

int exit_status(const Error& why) {
  constexpr int running = 3;
  return why.kind == "running" ? running : why.kind == "left" ? processes_left_status : 1;
}

Result<void> read_report(const std::string& line) {
  const auto space = line.find(' ');
  if (space == line.npos) return failure("the supervisor died while starting");
  const std::string kind = line.substr(0, space);
  if (kind == "ok") return {};
  return failure(line.substr(space + 1), kind);
}

Result<void> start(const std::string& run_directory, const Spec& spec) {
  if (run_directory.empty() || run_directory[0] != '/')
    return failure("the run directory must be an absolute path");
  const Launch launch = TRY(prepare(spec));
  Descriptor report_in, report_out;
  if (!io::make_pipe(report_in, report_out))
    return failure("pipe: " + std::string(std::strerror(errno)));
  const pid_t between = io::fork_child([&] {
    setsid();
    const pid_t supervisor = io::fork_child([&] {  // not a leader: gets no terminal
      return run_supervisor(run_directory, spec, launch, report_out.get());
    });
    return supervisor < 0 ? 1 : 0;
  });
  if (between < 0) return failure("fork: " + std::string(std::strerror(errno)));
  report_out.close();
  waitpid(between, nullptr, 0);
  return read_report(io::read_to_end(report_in.get(), 64U << 10).value_or(""));
}

int run_as_service(const std::string& run_directory, const Spec& spec, const std::string& report) {
  const Descriptor to(open(report.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW));
  auto launch = prepare(spec);
  std::vector<std::string> views;
  auto watch = launch.and_then([&](Launch& it) {
    views = take_views(it);
    io::take_usual_umask();
    leave_no_core();
    return Watch::begin(run_directory, spec, it);
  });
  tell(to.get(), watch);
  if (!watch) {
    dprintf(2, "%s\n", watch.error().message.c_str());
    return 1;
  }
  leave_views(views, *launch);
  sd_notify(1, "READY=1");
  watch->watch_to_end();
  dprintf(2, "the trainer ended: %s\n", watch->how_it_ended().c_str());
  return 0;
}

}  // namespace spotter::supervise
