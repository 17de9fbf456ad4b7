// What agents publish (tools/report/published.hpp has the names), from names and bytes to what a
// report is made of: for whoever reads it through S3, and for the emulator, which has the files. No
// I/O.
#pragma once

#include <string>
#include <string_view>

#include "agent/report/model.hpp"

namespace spotter::report {

struct PublishedName {
  enum class Kind : std::uint8_t { Status, History, Curve, Other };
  Experiment experiment;
  Kind kind = Kind::Other;
  std::string_view rest;  // behind the experiment's index; of `below`
};
// `below`: what is left of the key behind PREFIX/NAME/.
PublishedName parse_published_name(std::string_view below);

// One agent's part of a history or a curve; REQUIRES: in the order of their names. Of another kind
// nothing is added.
void add_published(Source& to, const PublishedName& name, std::string_view bytes);

}  // namespace spotter::report
