#include "agent/wire/prometheus.hpp"

#include <cmath>
#include <cstdio>

namespace spotter::wire {
namespace {

std::string escaped(std::string_view value) {
  std::string text;
  for (const char each : value) {
    if (each == '\\' || each == '"') text += '\\';
    if (each == '\n')
      text += "\\n";
    else
      text += each;
  }
  return text;
}

// Whole numbers without a fraction, all others with every digit that they need.
std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  constexpr double exact = 9007199254740992.0;  // 2^53
  const bool whole = std::abs(value) < exact && std::floor(value) == value;
  char text[64];
  std::snprintf(text, sizeof text, whole ? "%.0f" : "%.17g", value);
  return text;
}

}  // namespace

void Exposition::begin(std::string_view name, std::string_view type, std::string_view help) {
  name_ = "spotter_" + std::string(name);
  head_ = "# HELP " + name_ + " " + std::string(help) + "\n# TYPE " + name_ + " " +
          std::string(type) + "\n";
}

void Exposition::sample(double value, const Labels& labels) {
  text_ += std::exchange(head_, {});
  text_ += name_;
  const char* before = "{";
  for (const auto& [label, of_it] : labels) {
    text_ += before + std::string(label) + "=\"" + escaped(of_it) + "\"";
    before = ",";
  }
  text_ += (labels.empty() ? " " : "} ") + number(value) + "\n";
}

}  // namespace spotter::wire
