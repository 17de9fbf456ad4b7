#include "agent/service/early_stop.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "agent/io/log.hpp"
#include "agent/wire/curve.hpp"
#include "agent/wire/events.hpp"

namespace spotter {
namespace {

constexpr std::chrono::milliseconds longest_pause(60'000);

constexpr Duration patience{5'000};
constexpr Duration longest_request = 2 * patience;

// The records below the claims.
class InS3 : public sweep::RungStore {
 public:
  InS3(act::S3Client& s3, wire::S3Location prefix) : s3_(s3), prefix_(std::move(prefix)) {}

  Answer<std::optional<std::string>> read(std::string name) override {
    const act::Register object(s3_, at(name));
    const auto there = co_await object.read(longest_request);
    if (!there) co_return failure(there.error().text());
    if (!there->exists()) co_return std::nullopt;
    co_return there->text;
  }
  Answer<std::vector<std::string>> list(std::string folder) override {
    const auto listed = co_await s3_.list(at(folder), "", longest_request);
    if (!listed) co_return failure(listed.error().text());
    std::vector<std::string> names;
    for (const auto& each : listed->objects) names.push_back(each.key.substr(prefix_.key.size()));
    co_return names;
  }
  Answer<bool> write_once(std::string name, std::string text) override {
    const act::Register object(s3_, at(name));
    const auto written = co_await object.write(std::move(text), "", longest_request);
    if (!written) co_return failure(written.error().text());
    co_return written->has_value();
  }

 private:
  wire::S3Location at(const std::string& name) const {
    return {prefix_.bucket, prefix_.key + name};
  }

  act::S3Client& s3_;
  wire::S3Location prefix_;
};

}  // namespace

EarlyStop::EarlyStop(asio::io_context& context, const config::Job& job, RuledOut ruled_out)
    : context_(context), job_(job), ruled_out_(std::move(ruled_out)) {
  if (!job.sweep || !job.sweep->stop || !job.sweep->objective || !job.claims || !job.experiment)
    return;
  rule_ = job.sweep->stop;
  objective_ = *job.sweep->objective;
  s3_.emplace(patience);
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
  const wire::CurvePoint point{report.step, {}, report.loss, report.accuracy, 0, report.metrics};
  const auto value = wire::metric_of(point, objective_.metric);
  if (!next_) next_ = rung ? *rung + 1 : 0;
  measured_ = measured_ || value;
  // A whole rung is behind, and nothing came that could be compared.
  if (!measured_ && rung && *rung > *next_) miss(report, objective_.metric);
  if (!value || !rung || *rung < judged_ || asking_ || Clock::now() < not_before_) return;
  asking_ = true;
  const sweep::Measured measured{.index = job_.experiment->index,
                                 .rung = *rung,
                                 .judged = judged_,
                                 .step = report.step,
                                 .value = *value};
  asio::co_spawn(context_, ask(measured), io::rethrow);
}

void EarlyStop::miss(const wire::Progress& report, const std::string& what) {
  if (std::exchange(missed_, true)) return;
  spdlog::warn(
      "sweep.stop: by step {} the trainer has not reported {}: this experiment is not compared "
      "with the others, and not stopped",
      report.step, what);
}

asio::awaitable<void> EarlyStop::ask(sweep::Measured measured) {
  wire::S3Location place = job_.claims->at;
  place.key += sweep::rungs_folder(*rule_, objective_);
  InS3 store(*s3_, std::move(place));
  auto settling = sweep::settle(store, *rule_, objective_, measured);
  answered(measured.rung, co_await std::move(settling));
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
