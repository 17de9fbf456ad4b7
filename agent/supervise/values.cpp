#include "agent/supervise/values.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace spotter::supervise {

void ReportedValues::add(const ReportedValue& value) {
  // A clock that was set back begins another series.
  if (!all_.empty() && value.time < all_.back().time) all_.clear();
  if (all_.size() > 1 && value.time - all_[all_.size() - 2].time < spacing) {
    all_.back() = value;
    return;
  }
  all_.push_back(value);
  if (all_.size() > most) all_.pop_front();
}

std::string to_json(const ReportedValues& values) {
  auto json = nlohmann::json::array();
  for (const ReportedValue& each : values.all()) json.push_back({each.time, each.step, each.value});
  return json.dump() + "\n";
}

Result<ReportedValues> parse_values(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  ReportedValues values;
  if (!json.is_array()) return failure("no list of values");
  for (const auto& each : json) {
    if (!each.is_array() || each.size() != 3 || !each[0].is_number() ||
        !each[1].is_number_unsigned() || !each[2].is_number())
      return failure("no value: " + each.dump());
    values.add({each[0].get<double>(), each[1].get<std::uint64_t>(), each[2].get<double>()});
  }
  return values;
}

}  // namespace spotter::supervise
