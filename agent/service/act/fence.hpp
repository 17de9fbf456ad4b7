// The job's epoch in S3 (wire/epoch.hpp): read, and written in the place of the one before it.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <optional>
#include <thread>

#include "agent/aws/formats/s3.hpp"
#include "agent/decide/event.hpp"
#include "agent/io/asio.hpp"

namespace spotter::act {

// Threading: called in the io_context's one thread. The S3 client blocks, so each call has a thread
// of its own. The caller has an answer by its limit; the thread may end up to a minute later, when
// S3 is silent (s3/intake.hpp), and the destructor waits for it.
class Fence {
 public:
  using Answer = Result<decide::Epoch, decide::EffectFailed>;

  // `place`: config::Job::fenced_at().
  explicit Fence(wire::S3Location place) : place_(std::move(place)) {}
  ~Fence();
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;

  // Number 0: there is none. What cannot be read is a failure.
  asio::awaitable<Answer> read(VolumeId line, Duration limit);
  // EpochWritten; Failure::Conflict when the one that is there is not the one before it. A write
  // without an answer (`unsettled`) may be carried out later.
  asio::awaitable<decide::Happening> write(decide::Epoch epoch, Duration limit);

 private:
  struct Call {
    std::atomic<bool> done = false;
    std::thread thread;
  };

  wire::S3Location at(const VolumeId& line) const;
  // The work's value; a failure when it took longer than the limit, or the caller was asked to give
  // up waiting for it.
  template <class Value>
  asio::awaitable<Result<Value, decide::EffectFailed>> apart(std::function<Value()> work,
                                                             Duration limit);

  wire::S3Location place_;
  std::list<Call> calls_;  // one, and those that nobody waits for any more
};

}  // namespace spotter::act
