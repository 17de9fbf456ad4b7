#include "agent/launch/price_note.hpp"

#include <utility>

#include "agent/base/number_text.hpp"
#include "agent/launch/tag_words.hpp"

namespace spotter::launch {
namespace {

constexpr std::string_view tries_word = "tries", came_word = "came";

}  // namespace

std::string tag_of(const PriceNote& it) {
  return std::string(it.came ? came_word : tries_word) + " since=" + wire::to_rfc3339(it.since) +
         " from=" + it.from + " here=" + figure("%.4g", it.here) +
         " there=" + figure("%.4g", it.there) + " hours=" + figure("%.4g", it.hours) +
         " cost=" + figure("%.4g", it.cost) + " saved=" + figure("%.4g", it.saved);
}

std::optional<PriceNote> price_note_of(std::string_view tag) {
  const std::string_view word = tag.substr(0, tag.find(' '));
  if (word != tries_word && word != came_word) return std::nullopt;
  PriceNote note{.came = word == came_word, .since = {}, .from = {}};
  auto all = words_of_tag(tag);
  const auto since = wire::parse_rfc3339(all["since"]);
  if (!since || all["from"].empty()) return std::nullopt;
  note.since = *since;
  note.from = all["from"];
  for (const auto& [name, to] : {std::pair("here", &note.here), std::pair("there", &note.there),
                                 std::pair("hours", &note.hours), std::pair("cost", &note.cost),
                                 std::pair("saved", &note.saved)}) {
    const auto value = number_of_text<double>(all[name]);
    if (!value || !(*value >= 0) || *value > 1e9) return std::nullopt;
    *to = *value;
  }
  return note;
}

std::string text_of(const PriceNote& it) {
  return "$" + figure("%.4g", it.there) + " an hour, in " + it.from + " $" +
         figure("%.4g", it.here) + ": over " + figure("%.1f", it.hours) + " h that saves $" +
         figure("%.2f", it.saved) + ", after the $" + figure("%.2f", it.cost) + " of the move";
}

std::string words_of_note(std::string_view tag, int target) {
  const auto note = price_note_of(tag);
  if (!note || target == 0) return "";
  return (note->came ? "taken for its price at " : "tried for its price since ") +
         wire::to_rfc3339(note->since) + ": spot at " + text_of(*note);
}

}  // namespace spotter::launch
