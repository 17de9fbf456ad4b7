// A program of ours that runs beside us and is awaited: its output is ours, and it is asked to stop
// when we die.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/io/asio.hpp"

namespace spotter {

class Child {
 public:
  explicit Child(asio::io_context& context) : ended_(context) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // argv[0] is a path. `variables`: in addition to our own; an empty value takes one away.
  // REQUIRES: the one before was awaited.
  Result<void> start(const std::vector<std::string>& argv,
                     const std::map<std::string, std::string>& variables);
  bool runs() const { return pid_ > 0; }
  void signal(int number) const;
  // Its exit status; 128 and the signal that ended it. By one caller.
  asio::awaitable<int> wait();

 private:
  asio::posix::stream_descriptor ended_;
  pid_t pid_ = 0;
};

}  // namespace spotter
