// Metrics for Prometheus, `prometheus:` of job.yaml: an endpoint on 127.0.0.1, and a file for the
// node exporter. The job never waits for either.
#pragma once

#include "agent/aws/aws_client.hpp"
#include "agent/config/job.hpp"
#include "agent/decide/state.hpp"
#include "agent/io/local_server.hpp"
#include "agent/launch/deadline.hpp"
#include "agent/service/observe/status.hpp"
#include "agent/wire/datagram.hpp"
#include "agent/wire/monitoring.hpp"

namespace spotter {

class Monitor : Pinned {
 public:
  // Read at each scrape. `calls`: nullptr before there is an AWS client.
  struct Sources {
    std::function<const decide::State*()> state;  // nullptr: there is no state yet
    std::function<const act::CallTallies*()> calls;
    std::function<const launch::OwnOutlook*()> outlook = {};  // nullptr: no deadline
  };

  // Opens the port, if configured; on failure logs a warning.
  Monitor(asio::io_context& context, const config::Job& job, Sources sources);
  // Removes the file, whose values would be out of date.
  ~Monitor();

  void on_message(const wire::TrainerMessage& message);
  void on_gang(const wire::GangReport& gang, Time now) { gang_.take(gang, now); }
  // Writes the file, at most every ten seconds unless the stage has changed.
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
  std::uint64_t checkpoints_ = 0;  // reported to this agent
  std::uint64_t checkpoint_bytes_ = 0;
  // By channel, a limited number. A new data plane counts from zero: `before` has the sums of the
  // earlier ones.
  struct Flow {
    wire::ChannelFlow before, now;
  };
  std::map<std::string, Flow> flows_;
  GangSeen gang_;
  Time written_{};
  bool failed_ = false;  // the last write of the file, which was logged
};

}  // namespace spotter
