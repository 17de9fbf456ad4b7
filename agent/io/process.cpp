#include "agent/io/process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <thread>
#include <utility>

#include "agent/base/result.hpp"
#include "agent/base/text.hpp"
#include "agent/io/child.hpp"

namespace spotter::io {
namespace {

using AsyncDescriptor = asio::posix::stream_descriptor;
using namespace std::chrono_literals;

constexpr auto drain_time = 200ms;  // for a descendant that left the group and holds a pipe

struct Stream {
  explicit Stream(const asio::any_io_executor& executor) : descriptor(executor) {}
  AsyncDescriptor descriptor;
  std::string text;
  bool cut = false;
};

// Everything about one child; shared by the coroutine that awaits it and those that read its
// output.
struct Child : Pinned {
  explicit Child(const asio::any_io_executor& executor)
      : pidfd(executor), output(executor), errors(executor), timer(executor), drained(executor) {}
  ~Child() { reap_now(); }

  void signal_group(int number) const {
    if (pid > 0) ::kill(-pid, number);  // not reaped yet, so the number cannot be another group's
  }

  // Only when the io_context went away under us: SIGKILL works within microseconds unless the
  // process is stuck in the kernel, and then nobody can do anything about it.
  void reap_now() {
    if (pid <= 0) return;
    signal_group(SIGKILL);
    for (int i = 0; i < 100 && ::waitpid(pid, nullptr, WNOHANG) == 0; ++i) {
      std::this_thread::sleep_for(10ms);
    }
    pid = -1;
  }

  pid_t pid = -1;
  AsyncDescriptor pidfd;
  Stream output;
  Stream errors;
  asio::steady_timer timer;
  asio::steady_timer drained;  // cancelled when the last stream ends
  int open_streams = 0;
  std::size_t limit = 0;
};
using ChildPointer = std::shared_ptr<Child>;

class SpawnSetup : Pinned {
 public:
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  void redirect(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }
  void enter(const std::string& directory) {
    if (!directory.empty()) posix_spawn_file_actions_addchdir_np(&actions_, directory.c_str());
  }
  // The errno of fork, chdir or exec; 0 when the program runs.
  int spawn(const ProcessRequest& request, pid_t& pid) {
    const Program program(request.argv, request.environment);
    return posix_spawnp(&pid, program.arguments()[0], &actions_, &attributes_, program.arguments(),
                        program.environment());
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// A memory file instead of a pipe: nothing to pump, and no SIGPIPE when the child does not read.
Descriptor stdin_for(const std::string& text) {
  if (text.empty()) return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Descriptor file(::memfd_create("stdin", MFD_CLOEXEC));
  const bool good = file && write_all(file.get(), text) && ::lseek(file.get(), 0, SEEK_SET) == 0;
  return good ? std::move(file) : Descriptor();
}

int start(const ProcessRequest& request, Child& child) {
  if (request.argv.empty()) return EINVAL;
  const Descriptor in = stdin_for(request.stdin_text);
  Descriptor out_read, out_write, err_read, err_write;
  if (!in || !make_pipe(out_read, out_write) || !make_pipe(err_read, err_write)) return errno;

  SpawnSetup setup;
  setup.redirect(in.get(), STDIN_FILENO);
  setup.redirect(out_write.get(), STDOUT_FILENO);
  setup.redirect(err_write.get(), STDERR_FILENO);
  setup.enter(request.directory);
  pid_t pid = -1;
  if (const int error = setup.spawn(request, pid); error != 0) return error;
  child.pid = pid;
  // Safe without a race: the child is ours and unreaped, so its number is its own.
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const int error = errno;
    child.reap_now();
    return error;
  }
  child.pidfd.assign(pidfd);
  child.output.descriptor.assign(out_read.release());
  child.errors.descriptor.assign(err_read.release());
  return 0;
}

asio::awaitable<void> pump(ChildPointer child, Stream& stream) {
  std::array<char, 16384> buffer;
  for (;;) {
    boost::system::error_code error;
    const std::size_t n = co_await stream.descriptor.async_read_some(
        asio::buffer(buffer), asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    const std::size_t room = child->limit - stream.text.size();
    stream.text.append(buffer.data(), n < room ? n : room);
    stream.cut = stream.cut || n > room;
  }
  if (--child->open_streams == 0) child->drained.cancel();
}

void pump_output(const asio::any_io_executor& executor, const ChildPointer& child) {
  child->open_streams = 2;
  asio::co_spawn(executor, pump(child, child->output), asio::detached);
  asio::co_spawn(executor, pump(child, child->errors), asio::detached);
}

enum class Wait { Ended, TimedOut, Cancelled };

// Until the child has ended (and is still to be reaped), the time is over, or we are cancelled.
asio::awaitable<Wait> await_end(ChildPointer child, std::chrono::milliseconds limit) {
  auto timed_out = std::make_shared<bool>(false);
  child->timer.expires_after(limit);
  child->timer.async_wait([child, timed_out](const boost::system::error_code& error) {
    if (error) return;
    *timed_out = true;
    child->pidfd.cancel();
  });
  boost::system::error_code error;
  co_await child->pidfd.async_wait(AsyncDescriptor::wait_read,
                                   asio::redirect_error(asio::use_awaitable, error));
  child->timer.cancel();
  if (!error) co_return Wait::Ended;
  co_return *timed_out ? Wait::TimedOut : Wait::Cancelled;
}

void reap(Child& child, ProcessResult& result) {
  child.signal_group(SIGKILL);  // before the reaping, while the number is surely ours
  int status = 0;
  pid_t reaped = -1;
  do reaped = ::waitpid(child.pid, &status, 0);
  while (reaped < 0 && errno == EINTR);
  child.pid = -1;
  if (reaped < 0) return;
  if (WIFSIGNALED(status)) {
    result.status = WTERMSIG(status);
    if (result.end == ProcessResult::End::Exited) result.end = ProcessResult::End::Signalled;
  } else {
    result.status = WEXITSTATUS(status);
  }
}

// Holds on to a process that SIGKILL could not end at once, and reaps it whenever it does end.
asio::awaitable<void> reap_later(ChildPointer child) {
  boost::system::error_code error;
  co_await child->pidfd.async_wait(AsyncDescriptor::wait_read,
                                   asio::redirect_error(asio::use_awaitable, error));
}

asio::awaitable<bool> end_child(ChildPointer child, std::chrono::milliseconds grace) {
  for (const int number : {SIGTERM, SIGKILL}) {
    child->signal_group(number);
    const Wait wait = co_await await_end(child, grace);
    if (wait == Wait::Ended) co_return true;
  }
  co_return false;
}

asio::awaitable<void> collect_output(ChildPointer child, ProcessResult& result) {
  if (child->open_streams > 0) {
    child->drained.expires_after(drain_time);
    boost::system::error_code ignored;
    co_await child->drained.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  boost::system::error_code ignored;
  child->output.descriptor.close(ignored);
  child->errors.descriptor.close(ignored);
  result.output = std::move(child->output.text);
  result.errors = std::move(child->errors.text);
  result.output_cut = child->output.cut;
  result.errors_cut = child->errors.cut;
  child->output.text.clear();
  child->errors.text.clear();
}

}  // namespace

asio::awaitable<ProcessResult> run(ProcessRequest request) {
  co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
  co_await asio::this_coro::throw_if_cancelled(false);
  const auto executor = co_await asio::this_coro::executor;
  ProcessResult result;
  auto child = std::make_shared<Child>(executor);
  child->limit = request.output_limit;
  if (const int error = start(request, *child); error != 0) {
    result.status = error;
    co_return result;
  }
  pump_output(executor, child);

  const Wait wait = co_await await_end(child, request.timeout);
  // Cleaning up is not cancelled once more.
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  result.end = wait == Wait::Ended      ? ProcessResult::End::Exited
               : wait == Wait::TimedOut ? ProcessResult::End::TimedOut
                                        : ProcessResult::End::Cancelled;
  bool ended = wait == Wait::Ended;
  if (!ended) ended = co_await end_child(child, request.kill_grace);
  if (ended) {
    reap(*child, result);
  } else {
    result.status = SIGKILL;
    asio::co_spawn(executor, reap_later(child), asio::detached);
  }
  co_await collect_output(child, result);
  co_return result;
}

std::string_view last_lines(std::string_view printed, std::size_t most) {
  printed = trimmed(printed);
  std::size_t begin = printed.rfind('\n') + 1;
  while (begin > 1) {
    const std::size_t before = printed.rfind('\n', begin - 2) + 1;
    if (printed.size() - before > most) break;
    begin = before;
  }
  return printed.substr(begin, most);
}

}  // namespace spotter::io
