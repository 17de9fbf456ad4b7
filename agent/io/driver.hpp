// Turns libcurl's loop, or a client on it, in an io_context: whenever its file is readable or its
// time has come.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "agent/base/result.hpp"
#include "agent/io/asio.hpp"

namespace spotter::io {

// Threading: the io_context's one thread.
class Driver : Pinned {
 public:
  using Instant = std::chrono::steady_clock::time_point;
  // Does what is ready, and returns when to do so again at the latest; none: there is no work. Must
  // not destroy the driver.
  using Turn = std::function<std::optional<Instant>()>;

  // `file` belongs to what is turned, and outlives this; -1: it turns every few milliseconds.
  Driver(const asio::any_io_executor& executor, int file, Turn turn);
  ~Driver();

  void begin();  // there is work: turns soon, and again as long as there is any
  // There is none: an io_context that has nothing else to do may end.
  void rest();

 private:
  struct State;
  std::shared_ptr<State> state_;  // which pending handlers hold weakly
};

}  // namespace spotter::io
