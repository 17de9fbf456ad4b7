// The sources of a report: a history, and behind lines of `-` a learning curve, a status, a log and
// an answer of the price list.
#include <array>
#include <cmath>

#include "agent/aws/formats/services.hpp"
#include "agent/report/model.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {
namespace {

using report::Number;

void must_follow(double from, const Number& to, const char* what) {
  must(!to || (std::isfinite(*to) && *to >= from), what);
}

void judge(const report::Model& model) {
  for (const report::Instance& it : model.instances) {
    must_follow(it.began, it.ended, "a machine ends after it began");
    for (const auto& phase : it.phases) must_follow(phase.from, phase.to, "so does a phase");
  }
  for (const report::Interruption& it : model.interruptions) {
    for (const Number& each :
         {it.seconds_to_durable, it.window_seconds, it.window_trained, it.down_seconds})
      must_follow(0, each, "no time is negative");
    must(it.repeated_steps.value_or(0) >= 0, "and no count");
    must(!it.why.empty(), "each is explained");
  }
  const auto& goodput = model.goodput;
  must(!goodput.part || (*goodput.part >= 0 && *goodput.part <= 1), "goodput is a part");
  must(std::isfinite(model.cost.instance_seconds) && model.cost.instance_seconds >= 0,
       "machines take time");
}

}  // namespace

void examine(std::string_view bytes) {
  std::array<std::string_view, 5> parts;
  for (std::string_view& part : parts) {
    const auto end = std::min(bytes.find("\n-\n"), bytes.size());
    part = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 3, bytes.size()));
  }
  report::Input input;
  input.job = "job";
  input.now = 1'700'000'500;
  input.sources.push_back(
      {{}, wire::parse_history(parts[0]), wire::parse_curve(parts[1]).curve, {}});
  input.status = parts[2];
  input.log = parts[3];
  if (const auto price = wire::decode<wire::GetProducts>(parts[4])) {
    must(*price > 0 && std::isfinite(*price), "a price is one");
    input.prices.on_demand_of_all = *price;
  }
  const auto model = report::build(input);
  judge(model);
  must(nlohmann::json::accept(report::to_text(model)), "its JSON is JSON");
}

}  // namespace spotter::fuzz
