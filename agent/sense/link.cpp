#include "agent/sense/link.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace spotter::sense {
namespace {

std::error_code give_to(const std::string& path, const std::string& user) {
  // In this order: what is another's it takes a further right to change.
  if (::chmod(path.c_str(), 0600) != 0) return {errno, std::generic_category()};
  const passwd* entry = ::getpwnam(user.c_str());
  if (::geteuid() == 0 && entry && ::chown(path.c_str(), entry->pw_uid, entry->pw_gid) != 0) {
    return {errno, std::generic_category()};
  }
  return {};
}

}  // namespace

Link::~Link() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

std::error_code Link::open(const std::string& path, const std::string& user) {
  // What Asio would throw at, and a trainer could not speak to.
  if (path.size() >= sizeof sockaddr_un::sun_path) {
    return std::make_error_code(std::errc::filename_too_long);
  }
  ::unlink(path.c_str());  // of an earlier agent
  boost::system::error_code error;
  socket_.open(asio::local::datagram_protocol(), error);
  if (!error) socket_.bind(asio::local::datagram_protocol::endpoint(path), error);
  if (!error) socket_.non_blocking(true, error);
  if (error) return error;
  path_ = path;
  if (const std::error_code failed = give_to(path, user)) return failed;
  wait();
  return {};
}

void Link::wait() {
  socket_.async_wait(asio::socket_base::wait_read, [this](boost::system::error_code error) {
    if (error) return;
    drain();
    wait();
  });
}

void Link::drain() {
  boost::system::error_code error;
  // A bound: a trainer that never stops talking must not keep the loop from seeing a notice.
  for (int taken = 0; !error && taken < 256; ++taken) {
    const std::size_t bytes = socket_.receive(asio::buffer(buffer_), 0, error);
    if (!error) take(bytes);
  }
}

void Link::take(std::size_t bytes) {
  const auto message = wire::parse_datagram(std::string_view(buffer_.data(), bytes));
  if (!message) return;
  receiver_.observe(*message);
  if (message->resumed_step) {
    receiver_.deliver(decide::TrainerResumed{static_cast<std::int64_t>(*message->resumed_step)});
  }
  if (message->progress) {
    receiver_.deliver(
        decide::TrainerProgressed{static_cast<std::int64_t>(message->progress->step)});
  }
  if (message->checkpoint && message->of_guard == receiver_.guarded) {
    const std::chrono::duration<double> stall(message->checkpoint->seconds.value_or(0));
    receiver_.deliver(decide::CheckpointMade{static_cast<std::int64_t>(message->checkpoint->step),
                                             std::chrono::round<Duration>(stall)});
  }
}

}  // namespace spotter::sense
