#include "agent/launch/places.hpp"

#include <algorithm>
#include <sstream>
#include <tuple>

#include "agent/base/text.hpp"

namespace spotter::launch {
namespace {

using std::chrono::seconds;

constexpr std::string_view lacks_word = "lacks ";

// It asks; and when it was looked at last.
auto rank_of(const PlaceSeen& it) {
  const wire::WallTime last = it.mark ? it.mark->looked : wire::WallTime{};
  return std::tuple(it.own.has_value(), it.asks(), last);
}

// It was left because it had no capacity, and not long ago.
bool lacks_capacity(const PlaceSeen& it, wire::WallTime now, Duration patience) {
  return it.mark && it.mark->spot == WatchMark::Spot::None && now >= it.mark->looked &&
         now - it.mark->looked < 2 * patience;
}

std::string dollars_text(double dollars) {
  if (dollars <= 0) return "whose price is not known";
  return printed("at $%.4g an hour", dollars);
}

std::string history_of(const PlaceSeen& it) {
  if (!it.mark) return "where it was not yet";
  return "where it was until " + wire::to_rfc3339(it.mark->looked);
}

}  // namespace

std::size_t place_of_job(const std::vector<PlaceSeen>& places) {
  const auto best = std::ranges::max_element(places, {}, rank_of);
  return static_cast<std::size_t>(best - places.begin());
}

std::string missing_in(const std::vector<PlaceSeen>& places) {
  std::string regions;
  if (places.size() > 1)
    for (const PlaceSeen& it : places)
      if (!it.own) regions += (regions.empty() ? "" : " and ") + it.region;
  return regions;
}

std::string tag_of_regions(const std::vector<std::string>& regions) {
  std::string tag;
  for (const std::string& it : regions) tag += (tag.empty() ? "" : " ") + it;
  return tag;
}

std::string regions_beyond(const std::string& tag, const std::vector<std::string>& known) {
  std::string beyond;
  std::istringstream words(tag);
  for (std::string region; words >> region;)
    if (std::ranges::find(known, region) == known.end())
      beyond += (beyond.empty() ? "" : " and ") + region;
  return beyond;
}

bool lacks(const PaidPlace& place, wire::WallTime now) {
  return place.lacked && now - *place.lacked < lacks_for;
}

std::size_t place_on_demand(const std::vector<PaidPlace>& places, std::size_t here,
                            wire::WallTime now) {
  const auto rank = [&](std::size_t i) {
    const PaidPlace& it = places[i];
    const bool lacking = lacks(it, now);
    return std::tuple(!it.has_fleet, lacking, lacking ? *it.lacked : wire::WallTime{},
                      !it.dollars.has_value(), it.dollars.value_or(0));
  };
  std::size_t best = here;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (rank(i) < rank(best)) best = i;
  return best;
}

std::string tag_of_lack(wire::WallTime at) {
  return std::string(lacks_word) + wire::to_rfc3339(at);
}

std::optional<wire::WallTime> lack_of(const std::string& tag) {
  if (!tag.starts_with(lacks_word)) return std::nullopt;
  const auto at = wire::parse_rfc3339(tag.substr(lacks_word.size()));
  return at ? std::optional(*at) : std::nullopt;
}

MoveMarks marks_of_move(const WatchMark& mark) {
  MoveMarks marks{mark, mark};
  marks.entered.looked = marks.entered.since = mark.looked + seconds(1);
  marks.refused.looked = marks.refused.since = mark.looked - seconds(1);
  return marks;
}

std::optional<Move> decide_move(const std::vector<PlaceSeen>& places, const WatchMark& mark,
                                Duration patience) {
  const std::size_t here = place_of_job(places);
  if (!places[here].asks() || mark.spot != WatchMark::Spot::None || !missing_in(places).empty())
    return std::nullopt;
  if (mark.looked - mark.since < std::chrono::ceil<seconds>(patience)) return std::nullopt;
  std::optional<std::size_t> best;
  const auto cost = [&](std::size_t i) {
    return std::pair(places[i].dollars <= 0, places[i].dollars);
  };
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i == here || !places[i].own || lacks_capacity(places[i], mark.looked, patience)) continue;
    if (!best || cost(i) < cost(*best)) best = i;
  }
  if (!best) return std::nullopt;
  const PlaceSeen& there = places[*best];
  return Move{*best, "no spot instance in " + places[here].region + " since " +
                         wire::to_rfc3339(mark.since) + ": the job goes to " + there.region + ", " +
                         dollars_text(there.dollars) + ", " + history_of(there)};
}

}  // namespace spotter::launch
