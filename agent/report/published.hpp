// Parses what agents publish (names: commands/report_sources.hpp) into a report's input: for
// readers through S3, and for the emulator, which has the files. No I/O.
#pragma once

#include <string_view>

#include "agent/report/model.hpp"

namespace spotter::report {

struct PublishedName {
  enum class Kind : std::uint8_t { Status, History, Curve, Output, Other };
  Experiment experiment;
  Kind kind = Kind::Other;
  std::string_view rest;  // after the experiment's index; a view of `below`
};
// `below`: the key after PREFIX/NAME/.
PublishedName parse_published_name(std::string_view below);

// Adds one agent's part of a history or a curve; ignores other kinds. REQUIRES: parts come in the
// order of their names.
void add_published(Source& to, const PublishedName& name, std::string_view bytes);

}  // namespace spotter::report
