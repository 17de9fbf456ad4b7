// Publishes the job in S3: `publish:` of job.yaml. Every two minutes, and at once when something
// happens, a child process (`spotter publish`) writes this agent's status, history and learning
// curve to S3. Nothing waits for it; what fails is written the next time.
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
  // REQUIRES: `history` outlives it. Nothing is written before the history has a segment().
  Publisher(asio::io_context& context, std::string run_directory, wire::S3Location place,
            const HistoryFile& history);

  void on_message(const wire::TrainerMessage& message);
  void on_entry(const wire::HistoryEntry& entry);
  // `now`: whether this machine has the job. The status is the job's, so of several machines only
  // one writes it. An agent that has released the job writes that once, then no status any more.
  void publish_status(bool now);
  // Writes for the last time, and blocks for it: `at_most` at the longest.
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
  std::size_t history_sent_ = 0;  // its size at the last write
  bool speaks_ = false;
  bool last_word_ = false;  // still to be written
  bool busy_ = false;
  bool soon_ = false;
  bool failing_ = false;  // was logged
};

}  // namespace spotter
