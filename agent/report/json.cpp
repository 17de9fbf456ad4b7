#include <cmath>

#include "agent/base/json.hpp"
#include "agent/report/model.hpp"

namespace spotter::report {
namespace {

using nlohmann::ordered_json;

ordered_json shown(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::round(value * 1000) / 1000;
}
ordered_json shown(const Number& value) { return value ? shown(*value) : ordered_json(); }
ordered_json shown(const Count& value) { return value ? ordered_json(*value) : ordered_json(); }
ordered_json shown(const Experiment& value) {
  return value ? ordered_json(*value) : ordered_json();
}
// Does not round: a loss may be 1e-7.
ordered_json exact(const Number& value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json();
}

ordered_json columns(const wire::Curve& curve) {
  ordered_json step = ordered_json::array(), loss = step, accuracy = step, time = step;
  for (const wire::CurvePoint& point : curve.points()) {
    step.push_back(point.step);
    loss.push_back(exact(point.loss));
    accuracy.push_back(exact(point.accuracy));
    time.push_back(point.time > 0 ? shown(point.time) : ordered_json());
  }
  ordered_json all = {{"step", step}, {"loss", loss}, {"accuracy", accuracy}, {"time", time}};
  for (const std::string& name : curve.metric_names()) {
    ordered_json& column = all[name] = ordered_json::array();
    for (const wire::CurvePoint& point : curve.points())
      column.push_back(exact(metric_of(point, name)));
  }
  return all;
}

ordered_json to_json(const Progress& it) {
  return {{"step", shown(it.step)},
          {"steps_total", shown(it.steps_total)},
          {"epoch", shown(it.epoch)},
          {"epochs_total", shown(it.epochs_total)},
          {"loss", exact(it.loss)},
          {"accuracy", exact(it.accuracy)},
          {"metrics", ordered_json(it.metrics)},
          {"steps_per_second", exact(it.steps_per_second)}};
}

ordered_json to_json(const Instance& it) {
  ordered_json phases = ordered_json::array();
  for (const Instance::Phase& each : it.phases)
    phases.push_back({{"phase", each.phase}, {"from", shown(each.from)}, {"to", shown(each.to)}});
  return {{"id", it.id},
          {"type", it.type},
          {"zone", it.zone},
          {"experiment", shown(it.experiment)},
          {"began", shown(it.began)},
          {"booted", shown(it.booted)},
          {"ended", shown(it.ended)},
          {"price", exact(it.price)},
          {"end", to_text(it.end)},
          {"phases", phases}};
}

ordered_json to_json(const Interruption& it) {
  return {{"instance", it.instance},
          {"zone", it.zone},
          {"experiment", shown(it.experiment)},
          {"kind", it.kind},
          {"time", shown(it.time)},
          {"notice", shown(it.notice)},
          {"deadline", shown(it.deadline)},
          {"durable", shown(it.durable)},
          {"seconds_to_durable", shown(it.seconds_to_durable)},
          {"window_seconds", shown(it.window_seconds)},
          {"window_trained", shown(it.window_trained)},
          {"step", shown(it.step)},
          {"checkpoint_step", shown(it.checkpoint_step)},
          {"resumed_step", shown(it.resumed_step)},
          {"repeated_steps", shown(it.repeated_steps)},
          {"resumed", shown(it.resumed)},
          {"down_seconds", shown(it.down_seconds)},
          {"why", it.why}};
}

ordered_json to_json(const Repeat& it) {
  return {{"time", shown(it.time)},
          {"instance", it.instance},
          {"step", it.step},
          {"repeated_steps", it.repeated_steps},
          {"why", it.why}};
}

ordered_json to_json(const Checkpoint& it) {
  return {{"time", shown(it.time)},
          {"step", shown(it.step)},
          {"seconds", shown(it.seconds)},
          {"bytes", shown(it.bytes)}};
}

ordered_json to_json(const VolumeChange& it) {
  return {{"time", shown(it.time)},
          {"change", it.change},
          {"volume", it.volume},
          {"snapshot", it.snapshot},
          {"zone", it.zone}};
}

ordered_json to_json(const JournalLine& it) {
  return {{"time", shown(it.time)},
          {"instance", it.instance},
          {"level", it.level},
          {"event", it.event},
          {"words", it.words}};
}

ordered_json to_json(const Cost& it) {
  return {{"instance_seconds", shown(it.instance_seconds)},
          {"billable_seconds", shown(it.billable_seconds)},
          {"spot_dollars", exact(it.spot_dollars)},
          {"on_demand_dollars", exact(it.on_demand_dollars)},
          {"savings_percent", shown(it.savings_percent)},
          {"formula", it.formula},
          {"notes", it.notes}};
}

ordered_json to_json(const Goodput& it) {
  return {{"part", exact(it.part)},
          {"trained_seconds", shown(it.trained_seconds)},
          {"elapsed_seconds", shown(it.elapsed_seconds)},
          {"repeated_steps", it.repeated_steps},
          {"repeated_seconds", shown(it.repeated_seconds)},
          {"stall_seconds", shown(it.stall_seconds)}};
}

ordered_json of_experiment(const sweep::Summary& it) {
  ordered_json parameters = ordered_json::object();
  for (const sweep::Parameter& each : it.parameters) {
    auto value = wire::parsed_ordered_json(each.json);
    parameters[each.name] = value.is_discarded() ? ordered_json(each.text) : std::move(value);
  }
  const auto last = it.curve.last().value_or(wire::CurvePoint{});
  return {
      {"index", it.index},
      {"state", sweep::to_text(it.state)},
      {"parameters", parameters},
      {"loss", exact(last.loss)},
      {"accuracy", exact(last.accuracy)},
      {"metrics", ordered_json(last.metrics)},
      {"attempts", it.attempts},
      {"seconds", shown(it.seconds)},
      {"stopped_early", it.stopped_early.empty() ? ordered_json() : ordered_json(it.stopped_early)},
      {"curve", columns(it.curve)}};
}

ordered_json to_json(const std::optional<Sweep>& it) {
  if (!it) return nullptr;
  ordered_json experiments = ordered_json::array();
  for (const sweep::Summary& each : it->experiments) experiments.push_back(of_experiment(each));
  return {{"parameters", it->parameters},
          {"objective",
           {{"metric", it->ranking.metric},
            {"mode", it->ranking.largest_first ? "max" : "min"},
            {"note", it->ranking.note}}},
          {"experiments", experiments}};
}

template <class T>
ordered_json list(const std::vector<T>& all) {
  ordered_json each = ordered_json::array();
  for (const T& it : all) each.push_back(to_json(it));
  return each;
}

}  // namespace

const char* to_text(Instance::End end) {
  constexpr const char* words[] = {"running", "interrupted", "finished", "failed", "lost", "left"};
  return words[static_cast<std::size_t>(end)];
}

nlohmann::ordered_json to_json(const Model& model) {
  return {{"version", 1},
          {"job", model.job},
          {"experiment", shown(model.experiment)},
          {"now", shown(model.now)},
          {"from", shown(model.from)},
          {"to", shown(model.to)},
          {"state", model.state},
          {"says", model.says},
          {"progress", to_json(model.progress)},
          {"instances", list(model.instances)},
          {"interruptions", list(model.interruptions)},
          {"notices", list(model.notices)},
          {"repeats", list(model.repeats)},
          {"checkpoints", list(model.checkpoints)},
          {"volumes", list(model.volumes)},
          {"curve", columns(model.curve)},
          {"cost", to_json(model.cost)},
          {"goodput", to_json(model.goodput)},
          {"journal", list(model.journal)},
          {"sweep", to_json(model.sweep)},
          {"foreign_lines", model.foreign},
          {"world", nullptr}};
}

std::string to_text(const Model& model) {
  return to_json(model).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace spotter::report
