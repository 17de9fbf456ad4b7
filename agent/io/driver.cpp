#include "agent/io/driver.hpp"

#include <utility>

namespace spotter::io {

struct Driver::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, int file, Turn turning)
      : timer(executor), readable(executor, file), turn(std::move(turning)) {}

  void go_on() {
    const auto next = turn();
    rest();
    if (!next) return;
    wait_until(*next);
    readable.async_wait(asio::posix::stream_descriptor::wait_read, again());
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
    readable.cancel();
  }

  asio::steady_timer timer;
  asio::posix::stream_descriptor readable;
  Turn turn;
};

Driver::Driver(const asio::any_io_executor& executor, int file, Turn turn)
    : state_(std::make_shared<State>(executor, file, std::move(turn))) {}

Driver::~Driver() { state_->readable.release(); }

void Driver::begin() { state_->wait_until(std::chrono::steady_clock::now()); }

void Driver::rest() { state_->rest(); }

}  // namespace spotter::io
