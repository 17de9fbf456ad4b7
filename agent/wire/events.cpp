#include "agent/wire/events.hpp"

#include <optional>

#include "agent/base/text.hpp"
#include "agent/wire/catalog_text.hpp"

namespace spotter::wire {
namespace {

// "@VOLUME_ID@" -> "VOLUME_ID"
std::string by_name(std::string_view line) {
  std::string text;
  for (const char each : line)
    if (each != '@') text += each;
  return text;
}

std::optional<std::string_view> behind(std::string_view start, std::string_view line) {
  if (!line.starts_with(start)) return std::nullopt;
  return line.substr(start.size());
}

bool is_header(std::string_view line) {
  return line.starts_with("Defined-By:") || line.starts_with("Documentation:");
}

}  // namespace

std::vector<Explanation> read_catalog(std::string_view catalog) {
  std::vector<Explanation> all;
  std::string_view name;
  while (!catalog.empty()) {
    const std::string_view line = take_until(catalog, '\n');
    if (const auto comment = behind("# ", line))
      name = *comment;
    else if (line.starts_with("-- "))
      all.push_back({.name = name, .subject = {}, .text = {}});
    else if (all.empty() || is_header(line))
      continue;
    else if (const auto subject = behind("Subject: ", line))
      all.back().subject = by_name(*subject);
    else if (!line.empty() || !all.back().text.empty())
      all.back().text += by_name(line) + "\n";
  }
  for (Explanation& one : all)
    while (one.text.ends_with('\n')) one.text.pop_back();
  return all;
}

std::vector<Explanation> explanations() { return read_catalog(catalog_text); }

}  // namespace spotter::wire
