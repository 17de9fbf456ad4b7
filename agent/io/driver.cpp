#include "agent/io/driver.hpp"

#include <utility>

namespace spotter::io {
namespace {

// Turns so often where no file says that there is something to do (curl::Files).
constexpr std::chrono::milliseconds between_looks{5};

}  // namespace

struct Driver::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, int file, Turn turning)
      : timer(executor), readable(executor), looks(file < 0), turn(std::move(turning)) {
    if (!looks) readable.assign(file);
  }

  void go_on() {
    const auto next = turn();
    rest();
    if (!next) return;
    const auto soon = std::chrono::steady_clock::now() + between_looks;
    wait_until(looks ? std::min(*next, soon) : *next);
    if (!looks) readable.async_wait(asio::posix::stream_descriptor::wait_read, again());
  }

  void wait_until(Instant at) {
    timer.expires_at(at);
    timer.async_wait(again());
  }

  std::function<void(boost::system::error_code)> again() {
    return [weak = weak_from_this()](boost::system::error_code failed) {
      const auto alive = weak.lock();
      if (alive && !failed) alive->go_on();
    };
  }

  void rest() {
    timer.cancel();
    if (!looks) readable.cancel();
  }

  asio::steady_timer timer;
  asio::posix::stream_descriptor readable;
  const bool looks;
  Turn turn;
};

Driver::Driver(const asio::any_io_executor& executor, int file, Turn turn)
    : state_(std::make_shared<State>(executor, file, std::move(turn))) {}

Driver::~Driver() {
  if (!state_->looks) state_->readable.release();
}

void Driver::begin() { state_->wait_until(std::chrono::steady_clock::now()); }

void Driver::rest() { state_->rest(); }

}  // namespace spotter::io
