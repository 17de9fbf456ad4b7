// How long the command may go on in vain.
#pragma once

#include <optional>

#include "agent/base/names.hpp"

namespace spotter::command {

class GangPatience {
 public:
  explicit GangPatience(Duration most) : most_(most) {}

  // To be called now and then. True: it has been in vain for so long, without a break; then again
  // after as long.
  bool is_over(Time now, bool in_vain) {
    if (!in_vain) since_.reset();
    if (!in_vain) return false;
    if (!since_) since_ = now;
    if (now - *since_ < most_) return false;
    since_ = now;
    return true;
  }

 private:
  Duration most_;
  std::optional<Time> since_;
};

}  // namespace spotter::command
