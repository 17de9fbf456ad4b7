#include "tests/emulator/init_channel.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>

namespace spotter::emulator {
namespace asio = boost::asio;

namespace {

constexpr int write_limit_ms =
    10'000;  // an init reads at once; a frozen one's host is being killed

}  // namespace

struct InitChannel::Reader : std::enable_shared_from_this<Reader> {
  Reader(asio::io_context& context, int socket, Hear hear_words)
      : descriptor(context, ::fcntl(socket, F_DUPFD_CLOEXEC, 3)), hear(std::move(hear_words)) {}

  void wait() {
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                          [self = shared_from_this()](const boost::system::error_code& failed) {
                            if (!failed && self->open) self->read();
                          });
  }

  void read() {
    char bytes[16384];
    const auto size = ::recv(descriptor.native_handle(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) return;
    if (size > 0) frames.feed({bytes, static_cast<std::size_t>(size)});
    while (const auto words = open ? frames.next() : std::nullopt) hear(*words);
    if (open) wait();
  }

  asio::posix::stream_descriptor descriptor;
  Hear hear;
  Frames frames;
  bool open = true;
};

InitChannel::InitChannel(asio::io_context& context, int socket, Hear hear)
    : reader_(std::make_shared<Reader>(context, socket, std::move(hear))) {
  reader_->wait();
}

InitChannel::~InitChannel() {
  reader_->open = false;
  boost::system::error_code ignored;
  reader_->descriptor.close(ignored);
}

void InitChannel::send(const Words& words) {
  const int socket = reader_->descriptor.native_handle();
  const std::string bytes = frame(words);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto size =
        ::send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size > 0) sent += static_cast<std::size_t>(size);
    if (size < 0 && errno == EAGAIN) {
      pollfd writable{socket, POLLOUT, 0};
      if (::poll(&writable, 1, write_limit_ms) == 0) return;
    } else if (size < 0 && errno != EINTR) {
      return;
    }
  }
}

}  // namespace spotter::emulator
