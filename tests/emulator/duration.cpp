#include "tests/emulator/duration.hpp"

#include <charconv>
#include <map>
#include <string_view>

namespace spotter::emulator {

Result<Duration> parse_duration(const std::string& text) {
  static const std::map<std::string_view, double> milliseconds = {
      {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}};
  double count = 0;
  const char* const last = text.data() + text.size();
  const auto [end, problem] = std::from_chars(text.data(), last, count);
  const auto unit = milliseconds.find(std::string_view(end, static_cast<std::size_t>(last - end)));
  constexpr double limit = 1e9;  // eleven days: beyond it is a mistake
  if (problem != std::errc{} || unit == milliseconds.end() || count < 0 ||
      count * unit->second > limit)
    return failure("'" + text + "' is not a duration, as in 500ms, 120s, 2m");
  return Duration{static_cast<Duration::rep>(count * unit->second)};
}

}  // namespace spotter::emulator
