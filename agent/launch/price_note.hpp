// What the watcher writes down of a move for the price (launch/price_move.hpp), as the tag
// spotter:rests of the fleet to which the job goes. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/base/clock_text.hpp"

namespace spotter::launch {

// Its figures: dollars an hour here and there, for so many hours; and what is reckoned for it.
struct PriceNote {
  bool came = false;  // the job is there; else an instance there is waited for
  wire::WallTime since{};
  std::string from;  // a region
  double here = 0, there = 0;
  double hours = 0;
  double cost = 0;   // dollars: of the second instance, and of the transfer
  double saved = 0;  // dollars, less that

  bool operator==(const PriceNote&) const = default;
};

// Letters, digits and +-=._:/@ alone.
std::string tag_of(const PriceNote& note);
std::optional<PriceNote> price_note_of(std::string_view tag);  // none: it says no such thing
// "$0.12 an hour, in us-west-2 $0.58: over 5.2 h that saves $2.29, after the $0.10 of the move"
std::string text_of(const PriceNote& note);
// The same for who looks at a fleet with that tag and target: "tried for its price since ...: ...";
// empty: it says no such thing, or of a move that is over.
std::string words_of_note(std::string_view tag, int target);

}  // namespace spotter::launch
