#include "tests/emulator/form.hpp"

namespace spotter::emulator {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

}  // namespace

std::string percent_decode(std::string_view text, Plus plus) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    if (escape) {
      result += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      result += text[i] == '+' && plus == Plus::IsSpace ? ' ' : text[i];
    }
  }
  return result;
}

std::string percent_encode(std::string_view text, std::string_view keep) {
  static constexpr char hexadecimal[] = "0123456789ABCDEF";
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    if (unreserved(c) || keep.find(c) != std::string_view::npos) {
      result += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      result += {'%', hexadecimal[byte >> 4], hexadecimal[byte & 15]};
    }
  }
  return result;
}

FormFields parse_form(std::string_view text, Plus plus) {
  FormFields fields;
  while (!text.empty()) {
    const auto end = text.find('&');
    const auto part = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (part.empty()) continue;
    const auto equals = part.find('=');
    const auto value =
        equals == std::string_view::npos ? std::string_view{} : part.substr(equals + 1);
    fields.emplace_back(percent_decode(part.substr(0, equals), plus), percent_decode(value, plus));
  }
  return fields;
}

}  // namespace spotter::emulator
