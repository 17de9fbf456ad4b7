// Shows the job to whoever is elsewhere: `publish:` of job.yaml. Every two minutes, and at once
// when something happens, a child of the agent's (`spotter publish`) writes the status, the history
// and the learning curve of this agent to S3. Nobody waits for it, and what it lacks costs the job
// nothing: what could not be written is written the next time.
#pragma once

#include <cstddef>
#include <string>

#include "agent/aws/formats/s3.hpp"
#include "agent/io/asio.hpp"
#include "agent/io/process.hpp"
#include "agent/service/act/metrics.hpp"
#include "agent/service/observe/history_file.hpp"

namespace spotter {

class Publisher {
 public:
  // `history` must outlive it. Nothing is written before it has a name.
  Publisher(asio::io_context& context, std::string run_directory, wire::S3Location place,
            const HistoryFile& history);

  void hear(const wire::TrainerMessage& message);
  void see(const wire::Moment& moment);
  // The status is the job's, and several machines may be there: only one writes it. Who has let
  // go of the job says so before it falls silent.
  void speak_for_the_job(bool now);
  // Writes for the last time: so long at most, in which nothing else is done.
  void end(std::chrono::milliseconds at_most);

 private:
  asio::awaitable<void> work();
  asio::awaitable<void> publish(std::chrono::milliseconds patience);
  io::ProcessRequest request(const act::Metrics::News& news,
                             std::chrono::milliseconds patience) const;
  void judge(const io::ProcessResult& result);

  std::string run_directory_;
  wire::S3Location place_;
  const HistoryFile& history_;
  asio::steady_timer next_;
  act::Metrics metrics_;
  std::size_t history_sent_ = 0;  // how long it was
  bool speaks_ = false;
  bool last_word_ = false;  // is not written yet
  bool busy_ = false;
  bool soon_ = false;
  bool failing_ = false;  // which was said
};

}  // namespace spotter
