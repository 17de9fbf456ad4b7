// What Prometheus is told of the job: `prometheus:` of job.yaml. On 127.0.0.1 whoever asks, and as
// a file for the node exporter; neither is ever waited for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/aws/aws_client.hpp"
#include "agent/decide/state.hpp"
#include "agent/io/local_server.hpp"
#include "agent/job/job.hpp"
#include "agent/wire/datagram.hpp"
#include "agent/wire/prometheus.hpp"

namespace spotter {

class Monitor {
 public:
  // What is asked for at each scrape. `calls`: nullptr before there is a client.
  struct Sources {
    std::function<const decide::State*()> state;  // nullptr: nothing is known yet
    std::function<const act::CallTallies*()> calls;
  };

  // Opens the port, when one is wanted; in vain: a warning, and the job goes on.
  Monitor(asio::io_context& context, const config::Job& job, Sources sources);
  // The file would tell of a job that is watched no more.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  void hear(const wire::TrainerMessage& message);
  // Writes the file, every ten seconds at most unless the stage has changed.
  void update(Time now, bool stage_changed);

  // The port that was opened; 0: none.
  std::uint16_t port() const { return server_ ? server_->port() : 0; }

 private:
  std::string text(Time now) const;
  void add_progress(wire::Exposition& to, const decide::State& state) const;
  void add_flows(wire::Exposition& to) const;

  const config::Job& job_;
  Sources sources_;
  std::unique_ptr<io::LocalServer> server_;
  wire::Progress progress_;
  std::uint64_t checkpoints_ = 0;  // that this agent heard of
  std::uint64_t checkpoint_bytes_ = 0;
  // By channel, a few at most. A data plane begins from zero: what those before it told is in
  // `before`.
  struct Flow {
    wire::ChannelFlow before, now;
  };
  std::map<std::string, Flow> flows_;
  double stalls_ = 0;  // seconds
  Time written_{};
  bool failed_ = false;  // the last write of the file, which was told
};

}  // namespace spotter
