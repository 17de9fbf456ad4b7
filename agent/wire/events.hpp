// The kinds of journal lines that systemd/spotter.catalog explains to a person: a stable name, and
// the id of its explanation (MESSAGE_ID of systemd.journal-fields(7)).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace spotter::wire {

struct EventKind {
  std::string_view name;
  std::string_view id;  // 32 hexadecimal digits, random, never used for anything else
};

inline constexpr EventKind event_kinds[] = {
#include "agent/wire/event_kinds.hpp"
};

// Does not compile for a name that is not in the table.
consteval EventKind event(std::string_view name) {
  for (const EventKind& kind : event_kinds)
    if (kind.name == name) return kind;
  throw std::invalid_argument("no such kind of event");
}

// What each kind of event means, and what to do about it. Format: https://systemd.io/CATALOG
struct Explanation {
  std::string_view name;  // interruption-notice
  std::string subject;    // in one line
  std::string text;       // paragraphs, with an empty line between two
};
// In the catalog's order. A field that journalctl would fill in appears as its name: VOLUME_ID.
std::vector<Explanation> explanations();

// Parses a text in the catalog's format, of which the names are views.
std::vector<Explanation> read_catalog(std::string_view catalog);

}  // namespace spotter::wire
