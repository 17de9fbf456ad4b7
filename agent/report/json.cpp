#include <boost/pfr/core.hpp>
#include <cmath>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/report/model.hpp"

namespace spotter::report {
namespace {

using nlohmann::ordered_json;

// Does not round: a loss may be 1e-7.
ordered_json exact(const Number& value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json();
}

template <class T>
ordered_json shown(const T& value) {
  if constexpr (std::same_as<T, double>) {
    return exact(std::round(value * 1000) / 1000);
  } else if constexpr (requires { value.has_value(); }) {
    return value ? shown(*value) : ordered_json();
  } else if constexpr (requires { T::keys; }) {
    ordered_json object;
    std::string_view keys = T::keys;
    boost::pfr::for_each_field(value, [&](const auto& field) {
      std::string key(take_until(keys, ' '));
      const bool whole = key.ends_with('=');
      if (whole) key.pop_back();
      object[key] = shown(field);
      if constexpr (std::convertible_to<decltype(field), Number>)
        if (whole) object[key] = exact(field);
    });
    return object;
  } else if constexpr (requires { T::value_type::keys; }) {
    ordered_json list = ordered_json::array();
    for (const auto& each : value) list.push_back(shown(each));
    return list;
  } else if constexpr (std::same_as<T, Instance::End>) {
    return to_text(value);
  } else {
    return value;
  }
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

ordered_json of_sweep(const std::optional<Sweep>& it) {
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
          {"progress", shown(model.progress)},
          {"instances", shown(model.instances)},
          {"interruptions", shown(model.interruptions)},
          {"notices", shown(model.notices)},
          {"repeats", shown(model.repeats)},
          {"checkpoints", shown(model.checkpoints)},
          {"volumes", shown(model.volumes)},
          {"curve", columns(model.curve)},
          {"cost", shown(model.cost)},
          {"goodput", shown(model.goodput)},
          {"journal", shown(model.journal)},
          {"sweep", of_sweep(model.sweep)},
          {"foreign_lines", model.foreign},
          {"world", nullptr}};
}

std::string to_text(const Model& model) { return wire::json_text(to_json(model)); }

}  // namespace spotter::report
