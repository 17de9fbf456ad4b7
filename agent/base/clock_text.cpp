#include "agent/base/clock_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

namespace spotter::wire {
namespace {

using namespace std::chrono;

constexpr std::array<std::string_view, 12> month_names{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// Takes text from the left; every step returns whether it matched.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool literal(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  // Between `least` and `most` decimal digits.
  std::optional<int> digits(std::size_t least, std::size_t most) {
    int value = 0;
    std::size_t count = 0;
    while (count < most && count < rest_.size() && rest_[count] >= '0' && rest_[count] <= '9')
      value = value * 10 + (rest_[count++] - '0');
    if (count < least) return std::nullopt;
    rest_.remove_prefix(count);
    return value;
  }

  void skip_fraction() {
    if (!literal(".")) return;
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') rest_.remove_prefix(1);
  }

  std::optional<unsigned> month_name() {
    for (unsigned index = 0; index < month_names.size(); ++index) {
      if (literal(month_names[index])) return index + 1;
    }
    return std::nullopt;
  }

  bool skip_word() {  // letters
    const auto end = std::ranges::find_if(rest_, [](char letter) {
      return (letter < 'A' || letter > 'Z') && (letter < 'a' || letter > 'z');
    });
    const auto length = static_cast<std::size_t>(end - rest_.begin());
    rest_.remove_prefix(length);
    return length > 0;
  }

  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

std::optional<WallTime> combine(int year_number, unsigned month_number, int day_number,
                                seconds of_day) {
  const year_month_day date{year{year_number}, month{month_number},
                            day{static_cast<unsigned>(day_number)}};
  if (!date.ok()) return std::nullopt;
  return sys_days{date} + of_day;
}

std::optional<seconds> time_of_day(Scanner& scanner) {
  const auto hour = scanner.digits(2, 2);
  if (!hour || *hour > 23 || !scanner.literal(":")) return std::nullopt;
  const auto minute = scanner.digits(2, 2);
  if (!minute || *minute > 59 || !scanner.literal(":")) return std::nullopt;
  const auto second = scanner.digits(2, 2);
  if (!second || *second > 60) return std::nullopt;  // 60: a leap second
  return hours{*hour} + minutes{*minute} + seconds{*second};
}

std::optional<seconds> zone_offset(Scanner& scanner) {
  if (scanner.literal("Z") || scanner.literal("z")) return seconds{0};
  const bool east = scanner.literal("+");
  if (!east && !scanner.literal("-")) return std::nullopt;
  const auto hour = scanner.digits(2, 2);
  if (!hour || *hour > 23 || !scanner.literal(":")) return std::nullopt;
  const auto minute = scanner.digits(2, 2);
  if (!minute || *minute > 59) return std::nullopt;
  const seconds offset = hours{*hour} + minutes{*minute};
  return east ? offset : -offset;
}

std::optional<WallTime> rfc3339(Scanner scanner) {
  const auto year_number = scanner.digits(4, 4);
  if (!year_number || !scanner.literal("-")) return std::nullopt;
  const auto month_number = scanner.digits(2, 2);
  if (!month_number || !scanner.literal("-")) return std::nullopt;
  const auto day_number = scanner.digits(2, 2);
  if (!day_number || !(scanner.literal("T") || scanner.literal("t"))) return std::nullopt;
  const auto of_day = time_of_day(scanner);
  if (!of_day) return std::nullopt;
  scanner.skip_fraction();
  const auto offset = zone_offset(scanner);
  if (!offset || !scanner.at_end()) return std::nullopt;
  return combine(*year_number, static_cast<unsigned>(*month_number), *day_number,
                 *of_day - *offset);
}

std::optional<WallTime> day_month_year(Scanner scanner) {
  const auto day_number = scanner.digits(1, 2);
  if (!day_number || !scanner.literal(" ")) return std::nullopt;
  const auto month_number = scanner.month_name();
  if (!month_number || !scanner.literal(" ")) return std::nullopt;
  const auto year_number = scanner.digits(4, 4);
  if (!year_number || !scanner.literal(" ")) return std::nullopt;
  const auto of_day = time_of_day(scanner);
  if (!of_day || !scanner.literal(" GMT") || !scanner.at_end()) return std::nullopt;
  return combine(*year_number, *month_number, *day_number, *of_day);
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
  return or_error(rfc3339(Scanner(text)), text, "2026-11-21T10:15:30Z");
}

Result<WallTime> parse_http_date(std::string_view text) {
  Scanner scanner(text);
  const bool starts_well = scanner.skip_word() && scanner.literal(", ");
  return or_error(starts_well ? day_month_year(scanner) : std::nullopt, text,
                  "Sat, 21 Nov 2026 10:15:30 GMT");
}

std::string to_rfc3339(WallTime time) { return print(time, "%04d-%02u-%02uT%02d:%02d:%02dZ"); }

std::string to_amz_date(WallTime time) { return print(time, "%04d%02u%02uT%02d%02d%02dZ"); }

}  // namespace spotter::wire
