// Ends the experiment that this agent trains when the sweep's rule says so (sweep/asha.hpp).
// Training goes on until S3 has answered, and where it gives no answer.
#pragma once

#include <chrono>
#include <functional>

#include "agent/aws/s3_client.hpp"
#include "agent/config/job.hpp"
#include "agent/decide/event.hpp"
#include "agent/io/asio.hpp"
#include "agent/sweep/asha.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter {

class EarlyStop : Pinned {
 public:
  using RuledOut = std::function<void(decide::RuledOut)>;
  // Without `sweep.stop` it does nothing. `ruled_out` is called with each report of the trainer
  // once the verdict is known, from within `context`, whose run this must outlive.
  EarlyStop(asio::io_context& context, const config::Job& job, RuledOut ruled_out);

  void on_message(const wire::TrainerMessage& message);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds shortest_pause{250};

  void consider(const wire::Progress& report);
  void miss(const wire::Progress& report, const std::string& what);
  asio::awaitable<void> ask(sweep::Measured measured);
  void answered(std::uint32_t rung, const Result<sweep::RungRecord>& record);

  asio::io_context& context_;
  const config::Job& job_;
  RuledOut ruled_out_;
  std::optional<sweep::Asha> rule_;
  sweep::Objective objective_;
  std::uint32_t judged_ = 0;                  // all rungs below it are settled
  std::optional<std::uint32_t> next_;         // the one after this agent's first report
  bool measured_ = false;                     // the trainer has reported the objective
  std::string why_;                           // it is ruled out; empty: it is not
  std::string trouble_;                       // of S3: logged once
  bool missed_ = false;                       // so is what the trainer does not report
  std::optional<std::uint64_t> steps_total_;  // as the trainer reported it last
  std::chrono::milliseconds pause_ = shortest_pause;
  Clock::time_point not_before_;  // after a failure
  bool asking_ = false;
  std::optional<act::S3Client> s3_;  // where there is a rule
};

}  // namespace spotter
