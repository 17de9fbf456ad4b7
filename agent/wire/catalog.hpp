// systemd/spotter.catalog, compiled into the program: what each kind of event (events.hpp) means,
// and what to do about it. No I/O. Format: https://systemd.io/CATALOG
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spotter::wire {

struct Explanation {
  std::string_view name;  // interruption-notice
  std::string subject;    // in one line
  std::string text;       // paragraphs, with an empty line between two
};
// In the order of events.hpp. A field that journalctl would fill in appears as its name: VOLUME_ID.
std::vector<Explanation> explanations();

// Parses a text in the catalog's format. Leaves out kinds of events that it does not explain.
std::vector<Explanation> read_catalog(std::string_view catalog);

}  // namespace spotter::wire
