// A number whose text is nothing else.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace spotter {

// As std::from_chars has it: no space, no plus sign; "inf" and "nan" of a floating Number. None:
// the text is none, goes on behind it, or it does not fit.
template <class Number>
std::optional<Number> number_of_text(std::string_view text) {
  Number value{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace spotter
