#include "agent/io/driver.hpp"

#include <utility>

namespace spotter::io {

struct Driver::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, int file, Turn turning)
      : timer(executor), readable(executor, file), turn(std::move(turning)) {}

  void go_on() {
    const auto next = turn();
    if (!next) return rest();
    wait_until(*next);
    wait_for_file();
  }

  void rest() {
    works = false;
    timer.cancel();
    readable.cancel();
  }

  void wait_until(Instant at) {
    timer.expires_at(at);
    timer.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
      const auto alive = weak.lock();
      if (alive && !failed) alive->go_on();
    });
  }

  void wait_for_file() {
    if (std::exchange(waits, true)) return;
    readable.async_wait(asio::posix::stream_descriptor::wait_read,
                        [weak = weak_from_this()](boost::system::error_code failed) {
                          const auto alive = weak.lock();
                          if (!alive) return;
                          alive->waits = false;
                          if (!failed) return alive->go_on();
                          if (alive->works) alive->wait_for_file();  // it began again since
                        });
  }

  asio::steady_timer timer;
  asio::posix::stream_descriptor readable;
  Turn turn;
  bool works = false;
  bool waits = false;  // for the file
};

Driver::Driver(const asio::any_io_executor& executor, int file, Turn turn)
    : state_(std::make_shared<State>(executor, file, std::move(turn))) {}

Driver::~Driver() { state_->readable.release(); }

void Driver::begin() {
  state_->works = true;
  state_->wait_until(std::chrono::steady_clock::now());
}

void Driver::rest() { state_->rest(); }

}  // namespace spotter::io
