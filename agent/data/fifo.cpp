#include "agent/data/fifo.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace spotter::data {
namespace {

// The limit for ordinary users: 1 MiB by default.
int pipe_size() {
  std::ifstream file("/proc/sys/fs/pipe-max-size");
  int size = 1 << 20;
  file >> size;
  return std::min(size, 1 << 20);
}

constexpr std::size_t longest = 8192;

}  // namespace

Result<Fifo> Fifo::make(const fs::path& path) {
  const auto wrong = [&](const char* what) {
    return failure(std::string(what) + " " + path.string() + ": " + std::strerror(errno));
  };
  Fifo fifo(path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return wrong("cannot replace");
  if (::mkfifo(path.c_str(), 0644) != 0) return wrong("cannot make the FIFO");
  // A write end cannot be opened before there is a reader, so this process reads for a moment.
  const Descriptor both(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!both) return wrong("cannot open");
  fifo.write_end_ = Descriptor(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fifo.write_end_) return wrong("cannot open");
  (void)::fcntl(fifo.write_end_.get(), F_SETPIPE_SZ, pipe_size());
  return fifo;
}

bool Fifo::has_reader() const {
  pollfd look{write_end_.get(), POLLOUT, 0};
  return ::poll(&look, 1, 0) >= 0 && (look.revents & POLLERR) == 0;
}

std::size_t Fifo::unread() const {
  int bytes = 0;
  if (write_end_.get() < 0 || ::ioctl(write_end_.get(), FIONREAD, &bytes) != 0) return 0;
  return static_cast<std::size_t>(bytes);
}

Fifo::Sent Fifo::send(std::span<const iovec> pieces, bool splice, std::size_t& bytes) {
  while (true) {
    const ssize_t sent =
        splice ? ::vmsplice(write_end_.get(), pieces.data(), pieces.size(), SPLICE_F_NONBLOCK)
               : ::writev(write_end_.get(), pieces.data(), static_cast<int>(pieces.size()));
    if (sent >= 0) {
      bytes = static_cast<std::size_t>(sent);
      return Sent::Some;
    }
    if (errno == EINTR) continue;
    bytes = 0;
    return errno == EPIPE ? Sent::NoReader : Sent::Full;
  }
}

void Fifo::remove_name() const { ::unlink(path_.c_str()); }

bool send_message(int socket, const std::string& text, int file) {
  iovec piece{const_cast<char*>(text.data()), std::min(text.size(), longest)};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (file >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &file, sizeof(int));
  }
  while (true) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return true;
    if (errno != EINTR) return false;
  }
}

std::optional<Message> receive_message(int socket, bool& gone) {
  std::array<char, longest> text{};
  iovec piece{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  gone = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  if (got <= 0) return std::nullopt;
  Message word{std::string(text.data(), static_cast<std::size_t>(got)), Descriptor()};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int file = -1;
    std::memcpy(&file, CMSG_DATA(header), sizeof(int));
    word.file = Descriptor(file);
  }
  return word;
}

Holder::Report Holder::listen() {
  using Kind = Report::Kind;
  while (true) {
    bool gone = false;
    auto message = receive_message(socket_.get(), gone);
    if (gone) return {Kind::Gone, {}};
    if (!message) return {};
    const auto blank = std::min(message->text.find(' '), message->text.size());
    const std::string verb = message->text.substr(0, blank);
    std::string rest = blank < message->text.size() ? message->text.substr(blank + 1) : "";
    if (verb == "ready") return {Kind::Ready, {}};
    if (verb == "failed") return {Kind::Failed, std::move(rest)};
    if (verb == "made") held_[rest] = std::move(message->file);
    if (verb == "ended") held_.erase(rest);
  }
}

}  // namespace spotter::data
