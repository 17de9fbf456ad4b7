// The job's epoch in S3 (wire/epoch.hpp): read, and written in the place of the one before it.
#pragma once

#include "agent/aws/formats/s3.hpp"
#include "agent/decide/event.hpp"
#include "agent/io/asio.hpp"
#include "agent/service/act/apart.hpp"

namespace spotter::act {

// Threading: as Apart has it.
class Fence {
 public:
  using Answer = Result<decide::Epoch, decide::EffectFailed>;

  // `place`: config::Job::fenced_at().
  explicit Fence(wire::S3Location place) : place_(std::move(place)) {}

  // Number 0: there is none. What cannot be read is a failure.
  asio::awaitable<Answer> read(VolumeId line, Duration limit);
  // EpochWritten; Failure::Conflict when the one that is there is not the one before it. A write
  // without an answer (`unsettled`) may be carried out later.
  asio::awaitable<decide::Happening> write(decide::Epoch epoch, Duration limit);

 private:
  wire::S3Location at(const VolumeId& line) const;
  wire::S3Location place_;
  Apart apart_;
};

}  // namespace spotter::act
