// A number whose text is nothing else, and text without the space around it or in lower case.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace spotter {

// Reads like std::from_chars: no space, no plus sign; "inf" and "nan" of a floating Number. None:
// the text is no number, goes on behind it, or does not fit.
template <class Number>
std::optional<Number> number_of_text(std::string_view text) {
  Number value{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Spaces, tabs and ends of lines.
inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  const auto first = text.find_first_not_of(space);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(space) + 1 - first);
}

// ASCII's letters alone are changed.
inline std::string lower_case(std::string_view text) {
  std::string small(text);
  for (char& each : small)
    if (each >= 'A' && each <= 'Z') each = static_cast<char>(each - 'A' + 'a');
  return small;
}

}  // namespace spotter
