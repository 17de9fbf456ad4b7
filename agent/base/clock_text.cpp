#include "agent/base/clock_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>

namespace spotter::wire {
namespace {

using namespace std::chrono;

constexpr std::array<std::string_view, 12> month_names{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// Takes from the left what the pattern says: 0 is a digit, all else itself. Each row of digits is a
// number. Nothing is taken where it does not match.
bool take(std::string_view& text, std::string_view pattern, std::span<int> numbers) {
  std::string_view rest = text;
  int number = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i, rest.remove_prefix(1)) {
    if (rest.empty()) return false;
    const char next = rest.front();
    if (pattern[i] != '0') {
      if (next != pattern[i]) return false;
      continue;
    }
    if (next < '0' || next > '9') return false;
    number = number * 10 + (next - '0');
    if (pattern.substr(i + 1).starts_with('0')) continue;
    numbers.front() = std::exchange(number, 0);
    numbers = numbers.subspan(1);
  }
  text = rest;
  return true;
}

using Parts = std::array<int, 6>;  // year, month, day, hour, minute, second

std::optional<WallTime> combine(const Parts& of) {
  const year_month_day date{year{of[0]}, month{static_cast<unsigned>(of[1])},
                            day{static_cast<unsigned>(of[2])}};
  if (!date.ok() || of[3] > 23 || of[4] > 59 || of[5] > 60) return {};  // 60: a leap second
  return sys_days{date} + hours{of[3]} + minutes{of[4]} + seconds{of[5]};
}

std::optional<WallTime> rfc3339(std::string_view text) {
  Parts parts{};
  if (!take(text, "0000-00-00", parts)) return {};
  if (!take(text, "T", {}) && !take(text, "t", {})) return {};
  if (!take(text, "00:00:00", std::span(parts).subspan(3))) return {};
  if (take(text, ".", {}))
    text.remove_prefix(std::min(text.find_first_not_of("0123456789"), text.size()));
  const auto time = combine(parts);
  if (text == "Z" || text == "z") return time;
  const bool east = text.starts_with('+');
  std::array<int, 2> zone{};
  if (!take(text, east ? "+00:00" : "-00:00", zone) || !text.empty()) return {};
  if (!time || zone[0] > 23 || zone[1] > 59) return {};
  const seconds offset = hours{zone[0]} + minutes{zone[1]};
  return *time - (east ? offset : -offset);
}

std::optional<WallTime> http_date(std::string_view text) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const auto word = std::min(text.find_first_not_of(letters), text.size());
  text.remove_prefix(word);
  Parts parts{};
  const auto day_of_month = std::span(parts).subspan(2);
  if (word == 0 || !take(text, ", ", {})) return {};
  if (!take(text, "00 ", day_of_month) && !take(text, "0 ", day_of_month)) return {};
  const auto name = std::ranges::find(month_names, text.substr(0, 3));
  if (name == month_names.end()) return {};
  text.remove_prefix(3);
  if (!take(text, " 0000", parts)) return {};
  if (!take(text, " 00:00:00 GMT", std::span(parts).subspan(3)) || !text.empty()) return {};
  parts[1] = static_cast<int>(name - month_names.begin()) + 1;
  return combine(parts);
}

Result<WallTime> or_error(std::optional<WallTime> time, std::string_view text, const char* form) {
  if (time) return *time;
  return failure("not a time of the form " + std::string(form) + ": \"" +
                 std::string(text.substr(0, 64)) + "\"");
}

std::string print(WallTime time, const char* format) {
  const auto midnight = floor<days>(time);
  const year_month_day date{midnight};
  const hh_mm_ss clock{time - midnight};
  std::array<char, 64> text{};
  const int length = std::snprintf(
      text.data(), text.size(), format, static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count()));
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace

Result<WallTime> parse_rfc3339(std::string_view text) {
  return or_error(rfc3339(text), text, "2026-11-21T10:15:30Z");
}

Result<WallTime> parse_http_date(std::string_view text) {
  return or_error(http_date(text), text, "Sat, 21 Nov 2026 10:15:30 GMT");
}

std::string to_rfc3339(WallTime time) { return print(time, "%04d-%02u-%02uT%02d:%02d:%02dZ"); }

std::string to_amz_date(WallTime time) { return print(time, "%04d%02u%02uT%02d%02d%02dZ"); }

}  // namespace spotter::wire
