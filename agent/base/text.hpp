// A number whose text is nothing else, or by a format; text in pieces, joined, without the space
// around it, in lower case, bytes in hexadecimal, or a word for a POSIX shell.
#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <concepts>
#include <cstdio>
#include <cstdlib>
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
#ifdef SPOTTER_CLIENT
// Apple's std::from_chars() reads no floating numbers, and strtod(3) reads more than it does.
template <std::floating_point Number>
std::optional<Number> number_of_text(std::string_view text) {
  const std::string whole(text);
  char* end = nullptr;
  errno = 0;
  const double value = std::strtod(whole.c_str(), &end);
  const bool other = text.empty() || text.find_first_of("xX \t\r\n") != text.npos || text[0] == '+';
  if (other || errno == ERANGE || end != whole.c_str() + whole.size()) return std::nullopt;
  return static_cast<Number>(value);
}
#endif

// By a format of std::snprintf, however long it becomes.
template <class... Values>
std::string printed(const char* format, Values... values) {
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, values...)), '\0');
  std::snprintf(text.data(), text.size() + 1, format, values...);
  return text;
}

// Takes the text before the next `end` from `rest`, and `end` with it; all where there is none.
inline std::string_view take_until(std::string_view& rest, char end) {
  const auto at = std::min(rest.find(end), rest.size());
  const std::string_view piece = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return piece;
}

// The words have a space between them; an empty word is none of them.
inline bool is_among(std::string_view word, std::string_view words) {
  while (!words.empty())
    if (take_until(words, ' ') == word) return true;
  return false;
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

// "a, b": the texts with `between` between them, and `last` before the last one.
template <class Texts>
std::string joined(const Texts& texts, std::string_view between = ", ",
                   std::optional<std::string_view> last = {}) {
  std::string all;
  for (auto at = std::begin(texts); at != std::end(texts); ++at) {
    const bool is_last = std::next(at) == std::end(texts);
    if (at != std::begin(texts)) all += is_last ? last.value_or(between) : between;
    all += *at;
  }
  return all;
}

// Two digits a byte, in lower case.
inline std::string hexadecimal(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

}  // namespace spotter

namespace spotter::wire {

// In single quotes, so that the shell takes every character as it is.
inline std::string shell_quoted(std::string_view word) {
  std::string quoted = "'";
  for (const char each : word) {
    if (each == '\'')
      quoted += "'\\''";
    else
      quoted += each;
  }
  return quoted + "'";
}

// The same as a person types it: in quotes only where they are needed.
inline std::string shell_word(const std::string& word) {
  const bool plain = std::ranges::all_of(word, [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
           (each >= '0' && each <= '9') ||
           std::string_view("_-+./:=,@%").find(each) != std::string_view::npos;
  });
  return plain && !word.empty() ? word : shell_quoted(word);
}

}  // namespace spotter::wire
