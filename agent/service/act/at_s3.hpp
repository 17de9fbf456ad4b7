// S3's answers to the agent itself, as the core represents them, and the job's epoch
// (wire/head.hpp), read, and written in the place of the one before it.
#pragma once

#include "agent/aws/s3_client.hpp"
#include "agent/decide/event.hpp"
#include "agent/io/kernel.hpp"

namespace spotter::act {

// `what` was asked for: "the fence".
decide::EffectFailed failed_at_s3(const s3::Failure& failure, const char* what);
// The same of a write, which may have been carried out where S3 gave no answer (`unsettled`).
decide::EffectFailed failed_write(const s3::Failure& failure, const char* what);

// The time left until then, for the next of several calls: at least a millisecond.
inline Duration left_until(Time end) { return std::max(end - io::now(), Duration(1)); }

// A request that S3 does not answer is repeated for so long; the rest of decide::Policy::epoch_call
// is for looking whether a write was carried out.
Duration patience_with_s3();

// Threading: as S3Client has it.
class Fence {
 public:
  using Answer = Result<decide::Epoch, decide::EffectFailed>;

  // `place`: config::Job::fenced_at().
  explicit Fence(wire::S3Location place) : place_(std::move(place)), s3_(patience_with_s3()) {}

  // Number 0: there is none. An unreadable one is a failure.
  asio::awaitable<Answer> read(VolumeId line, Duration limit);
  // EpochWritten; Failure::Conflict when the one that is there is not the one before it. A write
  // without an answer (`unsettled`) may be carried out later.
  asio::awaitable<decide::Happening> write(decide::Epoch epoch, Duration limit);

 private:
  Register at(const VolumeId& line);
  wire::S3Location place_;
  S3Client s3_;
};

}  // namespace spotter::act
