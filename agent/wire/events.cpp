#include "agent/wire/events.hpp"

#include <map>
#include <optional>

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
  std::map<std::string, Explanation, std::less<>> by_id;
  Explanation* current = nullptr;
  while (!catalog.empty()) {
    const std::string_view line = catalog.substr(0, catalog.find('\n'));
    catalog.remove_prefix(std::min(catalog.size(), line.size() + 1));
    if (const auto id = behind("-- ", line))
      current = &by_id[std::string(*id)];
    else if (current == nullptr || is_header(line))
      continue;
    else if (const auto subject = behind("Subject: ", line))
      current->subject = by_name(*subject);
    else if (!line.empty() || !current->text.empty())
      current->text += by_name(line) + "\n";
  }
  std::vector<Explanation> all;
  for (const EventKind& kind : event_kinds) {
    const auto found = by_id.find(kind.id);
    if (found == by_id.end()) continue;
    Explanation one = std::move(found->second);
    one.name = kind.name;
    while (one.text.ends_with('\n')) one.text.pop_back();
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<Explanation> explanations() { return read_catalog(catalog_text); }

}  // namespace spotter::wire
