// What the trainer said of its loss and accuracy and is not on the storage yet: a minute's worth,
// as a rule. Lost with this process, never waited for.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "agent/wire/curve.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter::act {

class Metrics {
 public:
  struct News {
    wire::Curve curve;
    std::optional<std::uint64_t> resumed;  // the trainer went on from there first
  };

  void hear(const wire::TrainerMessage& message, std::chrono::system_clock::time_point now);
  bool empty() const { return news_.curve.points().empty(); }
  News take();
  void put_back(News older);  // it could not be kept: together with what was said since

 private:
  News news_;
};

}  // namespace spotter::act
