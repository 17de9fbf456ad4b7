#include "agent/service/observe/monitor.hpp"

#include <spdlog/spdlog.h>

#include <cstdio>

#include "agent/decide/describe.hpp"
#include "agent/io/files.hpp"
#include "agent/io/kernel.hpp"
#include "agent/report/page/feed.hpp"
#include "agent/service/act/metrics.hpp"

namespace spotter {
namespace {

constexpr Duration between_files{10'000};

asio::awaitable<io::LocalResponse> answer(std::string text) {
  co_return io::LocalResponse{200, std::move(text), wire::exposition_type};
}
asio::awaitable<io::LocalResponse> not_here() {
  co_return io::LocalResponse{404, "ask for /metrics\n", "text/plain"};
}

double in_seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// The wall-clock time, as Prometheus expects it.
double wall(Time at, Time now) { return io::wall_clock() - in_seconds(now - at); }

std::string file_of(const config::Job& job) {
  return job.prometheus.folder.empty()
             ? ""
             : job.prometheus.folder + "/spotter-" + job.volumes_owner() + ".prom";
}

void add_calls(wire::Exposition& to, const act::CallTallies* calls) {
  if (calls == nullptr) return;
  using Member = std::uint64_t act::CallTally::*;
  const auto family = [&](const char* name, const char* help, Member member) {
    to.counter(name, help);
    for (const auto& [what, tally] : *calls)
      to.sample(static_cast<double>(tally.*member),
                {{"service", what.first}, {"action", what.second}});
  };
  family("aws_requests_total", "Requests sent to AWS, retries among them.",
         &act::CallTally::requests);
  family("aws_retries_total", "Requests to AWS that were sent again.", &act::CallTally::retries);
  family("aws_failures_total", "Calls of AWS that came to nothing in the end.",
         &act::CallTally::failures);
}

void add_outlook(wire::Exposition& to, const launch::OwnOutlook* it) {
  if (it == nullptr) return;
  const auto at = [&to](const std::optional<wire::WallTime>& time) {
    if (time) to.sample(static_cast<double>(time->time_since_epoch().count()));
  };
  to.gauge("finish_by_timestamp_seconds", "By when the job is to have finished.");
  at(it->due);
  to.gauge("work_left_seconds", "How long the training that is left takes, at its pace.");
  if (it->work) to.sample(it->work->hours * 3600);
  to.gauge("on_demand_by_timestamp_seconds", "On demand from then on, for the deadline.");
  at(it->latest);
  to.gauge("deadline_trouble", "1: the deadline, or not both it and the budget, can be kept.");
  to.sample(it->trouble == launch::Outlook::Trouble::Late ? 1 : 0, {{"kind", "late"}});
  to.sample(it->trouble == launch::Outlook::Trouble::Budget ? 1 : 0, {{"kind", "budget"}});
}

void add_ledger(wire::Exposition& to, const decide::Facts& facts) {
  if (!facts.progress.ledger_known) return;
  const decide::Ledger& ledger = facts.progress.ledger;
  to.counter("interruptions_total",
             "Ends of the trainer that were not its own, since the job began.");
  to.sample(ledger.releases, {{"kind", "announced"}});
  to.sample(ledger.losses, {{"kind", "lost"}});
  to.counter("instance_seconds_total", "Instance time since the job began.");
  to.sample(ledger.seconds);
  to.counter("trained_seconds_total",
             "Of that, the time in which a trainer ran, since an agent counts it.");
  to.sample(ledger.trained);
  to.counter("checkpoint_stall_seconds_total",
             "Of that, the time in which training stood still for checkpoints.");
  to.sample(ledger.stalled);
  to.counter("dollars_total", "Spent since the job began, at the spot price seen at each start.");
  to.sample(ledger.dollars);
  to.counter("steps_repeated_total",
             "Steps that were lost and trained again since the job began, on whichever machine.");
  to.sample(static_cast<double>(ledger.repeated));
  to.gauge("attempts_without_progress", "Failures since the last durable checkpoint.");
  to.sample(ledger.attempts_without_progress);
}

// Each member's spotter_step says how fast the gang trains.
void add_gang(wire::Exposition& to, const wire::GangReport& gang) {
  const auto sample = [&](const char* name, const char* help, double value) {
    to.gauge(name, help);
    to.sample(value);
  };
  const auto number = [](std::uint64_t count) { return static_cast<double>(count); };
  sample("gang_members", "Machines of the gang that live.", number(gang.members));
  sample("gang_machines", "Those that train together; 0 between two rounds.",
         number(gang.machines));
  sample("gang_round", "The number of the gang's last round.", number(gang.round));
  to.gauge("gang_info", "1: who leads the round, and whom this machine waits for.");
  to.sample(1, {{"leader", gang.leader}, {"waits_for", gang.waits_for}});
  to.gauge("gang_member_info", "1: what a machine of the gang does.");
  for (const auto& [name, does] : gang.by_name) to.sample(1, {{"member", name}, {"does", does}});
  to.counter("gang_rounds_total", "Rounds that this machine was in.");
  to.sample(number(gang.rounds));
  to.counter("gang_trained_seconds_total", "This machine's time in rounds.");
  to.sample(gang.trained);
  to.counter("gang_between_seconds_total", "Its time between them, since it asked for the first.");
  to.sample(gang.between);
  if (gang.copy_machines > 0) {
    sample("gang_copy_step", "The step of the newest copy of the state in memory.",
           number(gang.copy_step));
    sample("gang_copy_machines", "Machines that had it when it was made.",
           number(gang.copy_machines));
  }
  if (gang.rounds == 0) return;
  to.gauge("gang_round_seconds", "What the last round took to begin, and why there was one.");
  to.sample(gang.took, {{"why", gang.why}, {"who", gang.who}});
}

}  // namespace

Monitor::Monitor(asio::io_context& context, const config::Job& job, Sources sources)
    : job_(job), sources_(std::move(sources)) {
  if (!job.prometheus.port) return;
  const auto respond = [this](const io::LocalRequest& request) {
    // Refuses a web page that reaches this port through DNS rebinding.
    if (!page::is_local_name(request.host)) return not_here();
    const std::string path = request.target.substr(0, request.target.find('?'));
    return path == "/metrics" ? answer(text(io::now())) : not_here();
  };
  server_ = std::make_unique<io::LocalServer>(context, respond);
  if (const auto failed = server_->open(*job.prometheus.port))
    spdlog::warn("prometheus.port: cannot listen on 127.0.0.1:{}: {}; nobody can scrape this agent",
                 *job.prometheus.port, failed.message());
}

Monitor::~Monitor() {
  if (const std::string file = file_of(job_); !file.empty()) std::remove(file.c_str());
}

void Monitor::on_message(const wire::TrainerMessage& message) {
  if (message.resumed_step) progress_ = {.step = *message.resumed_step};
  if (message.progress) act::take(progress_, *message.progress);
  // The trainer chooses the channel's name.
  constexpr std::size_t most_channels = 32;
  if (message.flow && (flows_.size() < most_channels || flows_.contains(message.flow->channel))) {
    auto& [before, flow] = flows_[message.flow->channel];
    if (message.flow->bytes < flow.bytes || message.flow->stalled < flow.stalled) {
      before.bytes += flow.bytes;
      before.stalled += flow.stalled;
    }
    flow = *message.flow;
  }
  if (!message.checkpoint) return;
  ++checkpoints_;
  checkpoint_bytes_ += message.checkpoint->bytes.value_or(0);
}

void Monitor::update(Time now, bool stage_changed) {
  const std::string file = file_of(job_);
  if (file.empty() || (!stage_changed && now - written_ < between_files)) return;
  written_ = now;
  const auto written = io::replace_file(file, text(now));  // the exporter reads only *.prom
  if (!written && !failed_)
    spdlog::warn("prometheus.textfile: cannot write {}: {}", file, written.error().message());
  failed_ = !written;
}

void Monitor::add_progress(wire::Exposition& to, const decide::State& state) const {
  const auto number = [](const auto& value) {
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  };
  const auto from = [](std::int64_t step) {
    return step < 0 ? std::nullopt : std::optional(static_cast<double>(step));
  };
  const decide::Facts& facts = state.facts;
  to.gauge("step", "The step that the trainer reported last.");
  to.sample(from(facts.trainer.step));
  to.gauge("steps_expected", "Steps of the whole training, as the trainer says.");
  to.sample(number(progress_.steps_total));
  to.gauge("epoch", "The epoch that the trainer reported last.");
  to.sample(number(progress_.epoch));
  to.gauge("loss", "The loss that the trainer reported last.");
  to.sample(progress_.loss);
  to.gauge("accuracy", "The accuracy that the trainer reported last.");
  to.sample(progress_.accuracy);
  if (!progress_.metrics.empty())
    to.gauge("metric", "Other metrics of the trainer, their newest values.");
  for (const auto& [name, value] : progress_.metrics) to.sample(value, {{"name", name}});
  to.gauge("checkpoint_step", "The step of the newest durable checkpoint.");
  to.sample(from(facts.progress.checkpoint_step));
  to.counter("checkpoints_total", "Checkpoints that became durable, as reported to this agent.");
  to.sample(static_cast<double>(checkpoints_));
  to.counter("checkpoint_bytes_total", "Bytes of those checkpoints, as the trainer reported them.");
  to.sample(static_cast<double>(checkpoint_bytes_));
}

void Monitor::add_flows(wire::Exposition& to) const {
  if (flows_.empty()) return;
  to.counter("pipe_bytes_total", "Bytes that went into a channel's FIFOs on this machine.");
  for (const auto& [channel, flow] : flows_)
    to.sample(static_cast<double>(flow.before.bytes + flow.now.bytes), {{"channel", channel}});
  to.counter("pipe_stall_seconds_total", "Time that a channel's reader waited for bytes.");
  for (const auto& [channel, flow] : flows_)
    to.sample(flow.before.stalled + flow.now.stalled, {{"channel", channel}});
}

std::string Monitor::text(Time now) const {
  wire::Exposition to;
  to.gauge("up", "1: the agent answers.");
  to.sample(1, {{"name", job_.volumes_owner()}});  // `job` is Prometheus' own label
  const decide::State* state = sources_.state();
  if (state == nullptr) return to.take();
  const decide::Facts& facts = state->facts;
  to.gauge("stage_info", "1: the stage that the agent is in.");
  to.sample(1, {{"stage", std::string(decide::name(state->stage))}});
  to.gauge("instance_info", "1: where the job is.");
  to.sample(1, {{"instance_id", facts.identity.instance.str()},
                {"instance_type", facts.identity.type.str()},
                {"zone", facts.identity.zone.str()},
                {"volume_id", facts.holding.volume.str()}});
  to.gauge("training", "1: a trainer runs.");
  to.sample(facts.trainer.running ? 1 : 0);
  to.gauge("blocked", "1: a person is needed.");
  to.sample(std::holds_alternative<decide::Blocked>(state->stage) ? 1 : 0);
  to.gauge("done", "1: the result is durable.");
  to.sample(facts.exit.done ? 1 : 0);
  to.gauge("deadline_seconds", "Time until the instance's announced end.");
  if (facts.exit.notice) to.sample(in_seconds(facts.exit.notice->deadline - now));
  add_progress(to, *state);
  add_flows(to);
  if (const auto* gang = gang_.current(facts, now)) add_gang(to, *gang);
  to.gauge("checkpoint_timestamp_seconds", "When the newest checkpoint became durable.");
  if (facts.trainer.checkpoint_at != decide::kNever)
    to.sample(wall(facts.trainer.checkpoint_at, now));
  add_ledger(to, facts);
  if (sources_.outlook) add_outlook(to, sources_.outlook());
  add_calls(to, sources_.calls());
  return to.take();
}

}  // namespace spotter
