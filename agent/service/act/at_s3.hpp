// The agent's own requests to S3: calls in threads of their own, their answers as the core
// represents them, and the job's epoch (wire/head.hpp), read, and written in the place of the one
// before it.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <thread>

#include "agent/aws/formats/s3.hpp"
#include "agent/aws/s3/client.hpp"
#include "agent/base/result.hpp"
#include "agent/decide/event.hpp"
#include "agent/io/asio.hpp"

namespace spotter::act {

// Threading: called in the io_context's one thread. The caller has an answer by its limit; the
// thread may end up to a minute later, when S3 is silent (s3/intake.hpp), and the destructor waits
// for it.
class Apart {
 public:
  Apart() = default;
  ~Apart() {
    for (Call& call : calls_) call.thread.join();
  }
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;

  // The work's value; a failure (`unsettled`) when it took longer than the limit, or the caller was
  // asked to give up waiting for it. `whom`: who did not answer in time, for a person.
  template <class Value>
  asio::awaitable<Result<Value, decide::EffectFailed>> run(std::function<Value()> work,
                                                           Duration limit, const char* whom) {
    for (auto it = calls_.begin(); it != calls_.end();) {
      if (!it->done) {
        ++it;
        continue;
      }
      it->thread.join();
      it = calls_.erase(it);
    }
    struct Awaited {
      explicit Awaited(const asio::any_io_executor& executor) : timer(executor) {}
      asio::steady_timer timer;  // cancelled by the answer, or by who gives up waiting
      std::optional<Value> value;
    };
    const auto executor = co_await asio::this_coro::executor;
    const auto awaited = std::make_shared<Awaited>(executor);
    awaited->timer.expires_after(limit);
    Call& call = calls_.emplace_back();
    call.thread = std::thread([work = std::move(work), executor, awaited, &done = call.done] {
      asio::post(executor, [awaited, value = work()]() mutable {
        awaited->value = std::move(value);
        awaited->timer.cancel();
      });
      done = true;
    });
    boost::system::error_code woken;
    co_await awaited->timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (awaited->value) co_return std::move(*awaited->value);
    const bool in_time = woken == asio::error::operation_aborted;
    decide::EffectFailed failed;
    failed.failure = in_time ? decide::Failure::Abandoned : decide::Failure::Unavailable;
    failed.unsettled = true;
    if (in_time) {
      failed.detail = "given up";
    } else {
      failed.detail = decide::Detail(std::string(whom) + ": S3 did not answer in time");
    }
    co_return tl::unexpected(failed);
  }

 private:
  struct Call {
    std::atomic<bool> done = false;
    std::thread thread;
  };
  std::list<Call> calls_;  // one, and those that nobody waits for any more
};

// S3's answers to the agent itself, as the core represents them.

// `what` was asked for: "the fence". A conditional write whose condition no longer holds is
// Failure::Conflict.
decide::EffectFailed failed_at_s3(const s3::Failure& failure, const char* what);

// A request that S3 does not answer is repeated for so long; the rest is for looking whether a
// write was carried out.
s3::Settings s3_settings(Duration limit);

// The job's epoch in S3 (wire/head.hpp): read, and written in the place of the one before it.

// Threading: as Apart has it.
class Fence {
 public:
  using Answer = Result<decide::Epoch, decide::EffectFailed>;

  // `place`: config::Job::fenced_at().
  explicit Fence(wire::S3Location place) : place_(std::move(place)) {}

  // Number 0: there is none. An unreadable one is a failure.
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
