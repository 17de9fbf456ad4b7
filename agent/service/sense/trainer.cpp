#include "agent/service/sense/trainer.hpp"

#include <pwd.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "agent/base/text.hpp"
#include "agent/io/log.hpp"
#include "agent/wire/events.hpp"

namespace spotter::sense {
namespace {

constexpr int most_at_once = 1024;
constexpr int most_without_rest = 256;
constexpr std::chrono::milliseconds between_rounds{10};
constexpr double most_lines = 600, lines_a_second = 10;

boost::system::error_code pass_credentials(int socket) {
  const int on = 1;
  if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0) return {};
  return {errno, boost::system::generic_category()};
}

std::error_code give_to(const std::string& path, const std::string& user) {
  // In this order: changing a file of another user takes a further capability.
  if (::chmod(path.c_str(), 0600) != 0) return {errno, std::generic_category()};
  const passwd* entry = ::getpwnam(user.c_str());
  if (::geteuid() == 0 && entry && ::chown(path.c_str(), entry->pw_uid, entry->pw_gid) != 0) {
    return {errno, std::generic_category()};
  }
  return {};
}

using spdlog::level::err;
using spdlog::level::info;
using spdlog::level::warn;
constexpr int killed_below_a_shell = 128 + SIGKILL;

std::string describe(const supervise::Ended& ended) {
  const int number = ended.signal.value_or(0);
  const std::string how = ended.exit_code ? "exit status " + std::to_string(*ended.exit_code)
                                          : "signal " + std::to_string(number);
  if (ended.out_of_memory)
    return how + ": the kernel killed for want of memory; see trainer.memory_max of job.yaml";
  if (ended.exit_code ? *ended.exit_code != killed_below_a_shell : number != SIGKILL) return how;
  return how + ": killed; if by nobody, then by the kernel for want of memory: see `journalctl -k`";
}

// Each line with a mark: they are the trainer's, not ours.
std::string marked(std::string_view lines) {
  std::string text;
  while (!lines.empty()) {
    text += "\n  | " + std::string(take_until(lines, '\n'));
  }
  return text;
}

void say(const supervise::Ended& ended, const supervise::Verdict& verdict, bool shown) {
  const double ran = static_cast<double>(ended.ran_ms) / 1000;
  const std::string how = describe(ended);
  if (verdict.success) {
    io::note(wire::event("trainer-finished"), info, "the trainer finished after {:.1f} s ({})", ran,
             how);
  } else if (verdict.stopped_as_asked && !verdict.stopped_by.empty()) {
    io::note(wire::event("trainer-stopped"), warn,
             "the trainer ended after {:.1f} s ({}), as {} stopped it: it starts again unless the "
             "machine goes down",
             ran, how, verdict.stopped_by);
  } else if (verdict.stopped_as_asked) {
    io::note(wire::event("trainer-stopped"), info, "the trainer ended as asked after {:.1f} s ({})",
             ran, how);
  } else if (shown) {
    io::note(wire::event("trainer-failed"), err, "the trainer failed after {:.1f} s ({})", ran,
             how);
  } else {
    io::note(wire::event("trainer-failed"), err,
             "the trainer failed after {:.1f} s ({}). Its last words:{}", ran, how,
             marked(ended.last_words));
  }
}

}  // namespace

bool Allowance::take(std::chrono::steady_clock::time_point now) {
  const std::chrono::duration<double> since = last_ ? now - *last_ : now - now;
  last_ = now;
  left_ = std::min(left_ + since.count() * lines_a_second, most_lines);
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

Link::~Link() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

std::error_code Link::open(const std::string& path, const std::string& user) {
  // Asio would throw, and a trainer could not connect.
  if (path.size() >= sizeof sockaddr_un::sun_path)
    return std::make_error_code(std::errc::filename_too_long);
  ::unlink(path.c_str());  // left by an earlier agent
  boost::system::error_code error;
  socket_.open(asio::local::datagram_protocol(), error);
  if (!error) error = pass_credentials(socket_.native_handle());  // before anybody can send
  if (!error) socket_.bind(asio::local::datagram_protocol::endpoint(path), error);
  if (!error) socket_.non_blocking(true, error);
  if (error) return error;
  path_ = path;
  const passwd* entry = ::getpwnam(user.c_str());
  user_ = entry ? entry->pw_uid : ::geteuid();
  if (const std::error_code failed = give_to(path, user)) return failed;
  wait();
  return {};
}

void Link::wait() {
  socket_.async_wait(asio::socket_base::wait_read, [this](boost::system::error_code error) {
    if (error) return;
    drain();
    taken_ < most_without_rest ? wait() : rest();
  });
}

// Limits what a trainer that sends without pause costs the agent.
void Link::rest() {
  taken_ = 0;
  resting_.expires_after(between_rounds);
  resting_.async_wait([this](boost::system::error_code error) {
    if (!error) wait();
  });
}

void Link::drain() {
  // A limit: usually the kernel queues less for one socket (net.unix.max_dgram_qlen).
  for (int taken = 0; taken < most_at_once; ++taken) {
    const auto datagram = receive();
    if (!datagram) return;
    ++taken_;
    take(*datagram);
  }
}

// Has no room for descriptors, so the kernel closes any that were sent.
std::optional<Link::Datagram> Link::receive() {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  iovec bytes{buffer_.data(), buffer_.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT);
  if (size < 0) return std::nullopt;
  Datagram datagram{static_cast<std::size_t>(size), std::nullopt};
  const cmsghdr* first = CMSG_FIRSTHDR(&message);
  if (first && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_CREDENTIALS &&
      first->cmsg_len == CMSG_LEN(sizeof(ucred))) {
    ucred who{};
    std::memcpy(&who, CMSG_DATA(first), sizeof who);
    datagram.sender = Sender{who.pid, who.uid};
  }
  return datagram;
}

bool Link::may_speak(const std::optional<Sender>& sender) const {
  return sender && (sender->uid == 0 || sender->uid == ::geteuid() || sender->uid == user_);
}

void Link::take(const Datagram& datagram) {
  const std::string_view bytes(buffer_.data(), datagram.bytes);
  const auto message = wire::parse_datagram(bytes);
  const bool known = may_speak(datagram.sender);
  const bool forged =
      known && message && message->of_guard && !receiver_.is_guard(datagram.sender->pid);
  if ((!known || forged) && !std::exchange(said_refused_, true))
    io::note(wire::event("words-refused"), spdlog::level::warn,
             "a message of process {} (uid {}) is dropped: {}",
             datagram.sender ? datagram.sender->pid : 0, datagram.sender ? datagram.sender->uid : 0,
             forged ? "it says to be of the guard" : "its user is not the trainer's");
  if (!known || forged || !message) return;
  const auto gang = receiver_.in_gang ? wire::parse_gang_report(bytes) : std::nullopt;
  // Each new round becomes a line of the journal.
  if (gang && may_send(of_trainer_.gang)) receiver_.gang(*gang);
  wire::TrainerMessage taken = *message;
  limit(taken);
  deliver(taken);
}

bool Link::may_send(Allowance& allowance, const char* who) {
  if (allowance.take(std::chrono::steady_clock::now())) return true;
  if (!std::exchange(said_limited_, true))
    io::note(wire::event("words-limited"), spdlog::level::warn,
             "{} sends more than 600 messages a minute: the rest is dropped", who);
  return false;
}

// Limits messages that become lines of the journal or of the history.
void Link::limit(wire::TrainerMessage& message) {
  Allowances& of = message.of_guard ? of_guard_ : of_trainer_;
  const char* const who = message.of_guard ? "the guard" : "the trainer";
  const bool event = message.checkpoint || message.resumed_step || message.window_trained;
  const bool speaks = !message.note || may_send(of.words, who);
  const bool tells = !event || may_send(of.events, who);
  if (!speaks) message.note.reset();
  if (!tells) {
    message.checkpoint.reset();
    message.resumed_step.reset();
    message.window_trained.reset();
  }
}

void Link::deliver(const wire::TrainerMessage& message) {
  receiver_.observe(message);
  if (message.resumed_step) {
    receiver_.deliver(decide::TrainerResumed{static_cast<std::int64_t>(*message.resumed_step)});
  }
  if (message.progress) {
    receiver_.deliver(decide::TrainerProgressed{static_cast<std::int64_t>(message.progress->step),
                                                message.of_log});
  }
  reports_ = reports_ || (message.checkpoint && !message.of_guard && receiver_.of_trainer);
  const bool counts = message.of_guard ? receiver_.of_guard && !reports_ : receiver_.of_trainer;
  if (message.checkpoint && counts) {
    const std::chrono::duration<double> stall(message.checkpoint->seconds.value_or(0));
    const auto step = static_cast<std::int64_t>(message.checkpoint->step);
    const bool write = message.of_guard && !wire::names_step(message.checkpoint->path, step);
    receiver_.deliver(decide::CheckpointMade{step, std::chrono::round<Duration>(stall), write});
  }
}

void TrainerEnd::watch() {
  const auto supervised = supervise::look(run_directory_);
  const auto* running = supervised ? supervised->running() : nullptr;
  if (!running) return look_soon();
  const auto pidfd = supervise::open_pidfd(running->supervisor_pid);
  if (!pidfd) return look_soon();
  pidfd_.emplace(context_, *pidfd);
  pidfd_->async_wait(asio::posix::stream_descriptor::wait_read,
                     [this](boost::system::error_code error) {
                       if (error) return;
                       pidfd_.reset();
                       look();
                     });
}

// It is just starting or ending.
void TrainerEnd::look_soon() {
  timer_.expires_after(std::chrono::milliseconds(100));
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) look();
  });
}

void TrainerEnd::look() {
  const auto supervised = supervise::look(run_directory_);
  if (supervised && supervised->ended) {
    const supervise::Ended& ended = *supervised->ended;
    const supervise::Verdict verdict = supervise::judge(ended, expect_());
    say(ended, verdict, shown_);
    return ended_({verdict.success, verdict.stopped_as_asked, verdict.unfit_machine,
                   verdict.checkpoint_doubted, verdict.setup_failed});
  }
  if (supervised && supervised->runs()) return watch();
  const std::string stopper = supervise::stopper(run_directory_);
  io::note(wire::event("trainer-lost"), err,
           "the trainer's supervisor was killed, and the trainer with it{}{}",
           stopper.empty() ? "" : "; before that it was stopped by ", stopper);
  ended_({.stopped_as_asked = !stopper.empty()});
}

}  // namespace spotter::sense
