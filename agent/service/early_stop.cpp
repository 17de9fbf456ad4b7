#include "agent/service/early_stop.hpp"

#include <spdlog/spdlog.h>

#include "agent/aws/s3/objects.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/io/log.hpp"
#include "agent/wire/events.hpp"

namespace spotter {
namespace {

constexpr std::chrono::milliseconds longest_pause(60'000);

// The records below the claims.
class InS3 : public sweep::RungStore {
 public:
  InS3(act::Environment environment, wire::S3Location prefix, const std::atomic<bool>& ending)
      : prefix_(std::move(prefix)),
        ending_(ending),
        client_({.environment = std::move(environment), .patience = EarlyStop::kPatience}) {}

  Result<std::optional<std::string>> read(const std::string& name) override {
    if (ending_) return failure("the agent ends");
    const auto there = s3::read(client_, at(name));
    if (there) return there->bytes;
    if (there.error().kind == s3::Failure::Kind::NoSuchKey) return std::nullopt;
    return failure(there.error().text());
  }
  Result<std::vector<std::string>> list(const std::string& folder) override {
    if (ending_) return failure("the agent ends");
    const auto objects = s3::list(client_, at(folder));
    if (!objects) return failure(objects.error().text());
    std::vector<std::string> names;
    for (const auto& object : *objects) names.push_back(object.key.substr(prefix_.key.size()));
    return names;
  }
  Result<bool> write_once(const std::string& name, const std::string& text) override {
    if (ending_) return failure("the agent ends");
    const auto written = s3::put(client_, at(name), text, {.absent = true, .etag = {}});
    if (written) return true;
    if (written.error().kind == s3::Failure::Kind::Exists) return false;
    return failure(written.error().text());
  }

 private:
  wire::S3Location at(const std::string& name) const {
    return {prefix_.bucket, prefix_.key + name};
  }

  wire::S3Location prefix_;
  const std::atomic<bool>& ending_;
  s3::Client client_;
};

std::optional<double> value_in(const wire::Progress& report, const std::string& metric) {
  if (metric == "loss") return report.loss;
  if (metric == "accuracy") return report.accuracy;
  const auto found = report.metrics.find(metric);
  if (found == report.metrics.end()) return std::nullopt;
  return found->second;
}

}  // namespace

EarlyStop::EarlyStop(asio::io_context& context, const config::Job& job, RuledOut ruled_out)
    : context_(context), job_(job), ruled_out_(std::move(ruled_out)) {
  if (!job.sweep || !job.sweep->stop || !job.sweep->objective || !job.claims || !job.experiment)
    return;
  rule_ = job.sweep->stop;
  objective_ = *job.sweep->objective;
}

EarlyStop::~EarlyStop() {
  ending_ = true;
  if (thread_.joinable()) thread_.join();
}

void EarlyStop::on_message(const wire::TrainerMessage& message) {
  if (!rule_ || message.of_guard || !message.progress) return;
  // Again with each report: the first may have come while the agent could not act on it.
  if (!why_.empty()) return ruled_out_({decide::Detail(why_)});
  consider(*message.progress);
}

void EarlyStop::consider(const wire::Progress& report) {
  if (report.steps_total) steps_total_ = report.steps_total;  // an evaluation's may have none
  if (!rule_->first && !steps_total_)
    return miss(report, "how many steps there are in all (or say sweep.stop.first)");
  const auto rung = sweep::rung_at(*rule_, report.step, steps_total_);
  const auto value = value_in(report, objective_.metric);
  if (!next_) next_ = rung ? *rung + 1 : 0;
  measured_ = measured_ || value;
  // A whole rung is behind, and nothing came that could be compared.
  if (!measured_ && rung && *rung > *next_) miss(report, objective_.metric);
  if (!value || !rung || *rung < judged_ || asking_ || Clock::now() < not_before_) return;
  ask({.index = job_.experiment->index,
       .rung = *rung,
       .judged = judged_,
       .step = report.step,
       .value = *value});
}

void EarlyStop::miss(const wire::Progress& report, const std::string& what) {
  if (std::exchange(missed_, true)) return;
  spdlog::warn(
      "sweep.stop: by step {} the trainer has not reported {}: this experiment is not compared "
      "with the others, and not stopped",
      report.step, what);
}

void EarlyStop::ask(sweep::Measured measured) {
  asking_ = true;
  if (thread_.joinable()) thread_.join();  // of the last question, which was answered
  // Read here: nobody changes the environment beside the thread.
  thread_ = std::thread([this, measured, environment = act::Environment::of_this_process()] {
    wire::S3Location place = job_.claims->at;
    place.key += sweep::rungs_folder(*rule_, objective_);
    InS3 store(environment, std::move(place), ending_);
    auto record = sweep::settle(store, *rule_, objective_, measured);
    asio::post(context_, [this, rung = measured.rung, record = std::move(record)] {
      answered(rung, record);
    });
  });
}

// Asks again at one of the trainer's next reports if S3 does not answer now.
void EarlyStop::answered(std::uint32_t rung, const Result<sweep::RungRecord>& record) {
  asking_ = false;
  const std::string trouble = record ? "" : record.error().message;
  if (!trouble.empty() && trouble != trouble_)
    spdlog::warn("sweep.stop: nothing is compared for now, and training goes on: {}", trouble);
  trouble_ = trouble;
  pause_ = record ? shortest_pause : std::min(2 * pause_, longest_pause);
  if (!record) {
    not_before_ = Clock::now() + pause_;
    return;
  }
  judged_ = rung + 1;
  if (record->goes_on) {
    spdlog::info("sweep.stop: {} {:.5g} at step {}: {} of {} were better, it goes on",
                 record->metric, record->value, record->step, record->better, record->compared);
    return;
  }
  why_ = sweep::why_stopped(*rule_, *record);
  io::note(wire::event("experiment-stopped-early"), spdlog::level::info,
           "the experiment is stopped early: {}", why_);
  ruled_out_({decide::Detail(why_)});
}

}  // namespace spotter
