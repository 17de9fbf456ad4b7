// The trainer's reports of loss, accuracy and other metrics that are not on the storage yet:
// usually one minute of them. Lost when this process ends.
#pragma once

#include <chrono>

#include "agent/wire/curve.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter::act {

// Replaces `known` by a newer report, but keeps the metrics that the new one lacks: an evaluation's
// are reported once an epoch.
void take(wire::Progress& known, const wire::Progress& newer);

class Metrics {
 public:
  struct News {
    wire::Curve curve;
    std::optional<std::uint64_t> resumed;  // the trainer continued from there first
  };

  void on_message(const wire::TrainerMessage& message, std::chrono::system_clock::time_point now);
  bool empty() const { return news_.curve.points().empty(); }
  News take() { return std::exchange(news_, {}); }
  void put_back(News older);  // after a failed write: merges it with newer reports

 private:
  News news_;
};

}  // namespace spotter::act
