#include "agent/launch/price_move.hpp"

#include <algorithm>

namespace spotter::launch {
namespace {

using PriceAction = PriceStep::Action;
using std::chrono::seconds;

seconds whole_hours(double hours) {
  return std::chrono::ceil<seconds>(std::chrono::duration<double, std::ratio<3600>>(hours));
}

// The bucket may be in a third region, and which of them pays is not known here.
double dearest_transfer(const std::vector<PlaceSeen>& places) {
  double dearest = 0;
  for (const PlaceSeen& it : places) dearest = std::max(dearest, dollars_of_transfer(it.region));
  return dearest;
}

// The other instance is paid while it boots beside the job's, and as long again until it has
// brought the home and repeated what the last checkpoint lacks. That checkpoints go over the border
// counts against the other place alone, as the bucket may be here.
PriceNote reckon(const std::vector<PlaceSeen>& places, const PriceLook& look, double here,
                 double there) {
  const double dearest = dearest_transfer(places);
  PriceNote note{.since = look.now,
                 .from = places[place_of_job(places)].region,
                 .here = here,
                 .there = there + look.transfer.an_hour * dearest,
                 .hours = look.lasts > 0 ? std::min(look.work, look.lasts) : look.work};
  note.cost = 2 * look.start * there + look.transfer.home * dearest;
  note.saved = (note.here - note.there) * note.hours - note.cost;
  return note;
}

bool pays(const PriceNote& it) {
  return it.here > 0 && it.there > 0 && it.there <= worth_moving * it.here &&
         it.saved >= least_part_saved * it.here * it.hours;
}

// When a place was left, or one was tried or entered for its price, last.
bool moved_lately(const std::vector<PlaceSeen>& places, wire::WallTime now) {
  const std::size_t here = place_of_job(places);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i].own) continue;
    const WatchedFleet& own = *places[i].own;
    if (own.note && now - own.note->since < moves_again) return true;
    if (i != here && own.rested && now - *own.rested < moves_again) return true;
  }
  return false;
}

PriceStep begin_move(const std::vector<PlaceSeen>& places, const PriceLook& look) {
  const std::size_t here = place_of_job(places);
  const bool may = look.may_move && look.settled && look.dollars > 0 && look.transfer.known &&
                   look.slack >= 2 * look.start && missing_in(places).empty() &&
                   !moved_lately(places, look.now);
  if (!may) return {};
  PriceStep step;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i == here) continue;
    if (places[i].asks()) return {};  // by a mistake, which is mended first
    const PriceNote note = reckon(places, look, look.dollars, places[i].of_its_type);
    if (!pays(note) || (step.action == PriceAction::Try && note.saved <= step.note.saved)) continue;
    step = {PriceAction::Try, i, note, {}};
  }
  if (step.action == PriceAction::Try)
    step.reason = "spot costs far less in " + places[step.to].region + ", " + text_of(step.note) +
                  ": an instance is asked for there, and the job goes when it runs";
  return step;
}

PriceStep go_on(const std::vector<PlaceSeen>& places, std::size_t to, const PriceLook& look,
                Duration settling) {
  const PlaceSeen &here = places[place_of_job(places)], &there = places[to];
  const PriceNote& begun = *there.own->note;
  const auto step = [&](PriceAction action, const std::string& reason) {
    PriceNote note = begun;
    note.came = action == PriceAction::Go;
    if (note.came) note.since = look.now;
    return PriceStep{action, to, note, reason};
  };
  const auto waited = look.now - begun.since;
  const auto start = whole_hours(look.start);
  const auto limit = tried_for + 2 * std::max(start, std::chrono::ceil<seconds>(settling));
  if (!here.spot && there.spot)
    return step(PriceAction::Go, "the spot instance in " + here.region +
                                     " has gone: the job goes to " + there.region +
                                     ", where one is: " + text_of(begun));
  if (here.spot && !look.may_move)
    return step(PriceAction::Withdraw, "the job does not go to " + there.region +
                                           " after all: launch.price_moves is false");
  if (here.spot && there.spot && here.spot->type != there.spot->type)
    return step(PriceAction::Withdraw, "the job does not go to " + there.region +
                                           " after all: the instance there is a " +
                                           there.spot->type + ", and the job runs on a " +
                                           here.spot->type + ", so its price says little");
  const bool known =
      look.transfer.known && look.dollars > 0 && (!there.spot || there.spot->dollars > 0);
  const double its = there.spot ? there.spot->dollars : there.of_its_type;
  const PriceNote now = reckon(places, look, look.dollars, its > 0 ? its : begun.there);
  if (here.spot && known && !pays(now))
    return step(PriceAction::Withdraw, "the job does not go to " + there.region +
                                           " after all, as that pays no more: " + text_of(now));
  const auto runs = there.spot ? there.spot->runs_since : std::nullopt;
  if (here.spot && known && runs && look.now - *runs >= start)
    return step(PriceAction::Go, "the job goes to " + there.region + ", " + text_of(now));
  if (!there.spot && waited >= tried_for)
    return step(PriceAction::Withdraw, "no spot instance came in " + there.region + " since " +
                                           wire::to_rfc3339(begun.since) +
                                           ": the job does not go there for its price");
  if (waited >= limit)
    return step(PriceAction::Withdraw, "the job does not go to " + there.region +
                                           ": what it costs could not be known since " +
                                           wire::to_rfc3339(begun.since));
  return step(
      PriceAction::Wait,
      std::string(there.spot ? "a spot instance starts in " : "a spot instance is waited for in ") +
          there.region + ", to which the job goes for its price: " + text_of(begun));
}

// The job has come, and the instance has published nothing since: whether it trains nobody knows.
// What the old one published last, when it stopped, is not of it; what came later, after another
// had its place, is of a job that does train there.
std::optional<PriceStep> go_back(const std::vector<PlaceSeen>& places, const PriceLook& look) {
  const PlaceSeen& here = places[place_of_job(places)];
  const auto& note = here.own->note;
  if (!note || !note->came || !look.publication_known || !missing_in(places).empty()) return {};
  if (!here.spot || !here.spot->runs_since) return {};
  const auto from = std::ranges::find(places, note->from, &PlaceSeen::region);
  if (from == places.end() || from->region == here.region) return {};
  const auto limit = whole_hours(look.start) + silent_for;
  if (look.now - std::max(note->since, *here.spot->runs_since) < limit) return {};
  if (const auto& last = look.publication)
    if (last->at > note->since &&
        (last->instance == here.spot->id || last->at > note->since + limit))
      return {};
  return PriceStep{PriceAction::Return, static_cast<std::size_t>(from - places.begin()), *note,
                   "the instance " + here.spot->id.str() + " in " + here.region +
                       " has published nothing since the job went there at " +
                       wire::to_rfc3339(note->since) + ": it goes back to " + from->region};
}

}  // namespace

Transfer transfer_of(const config::Job& job, const Committed& it) {
  if (!job.channels.all.empty()) return {.known = false};
  constexpr double gigabyte = 1e9, least = 1.0 / 6;
  return {.home = it.bytes / gigabyte,
          .an_hour = it.last_bytes / gigabyte * it.commits / std::max(it.trained, least)};
}

double dollars_of_transfer(std::string_view region) {
  for (const std::string_view begin : {"us-", "ca-", "eu-"})
    if (region.starts_with(begin)) return 0.02;
  return 0.15;
}

PriceStep decide_price_move(const std::vector<PlaceSeen>& places, const PriceLook& look, bool waits,
                            Duration settling) {
  const std::size_t here = place_of_job(places);
  if (!waits || places.size() < 2 || !places[here].asks()) return {};
  for (std::size_t i = 0; i < places.size(); ++i)
    if (i != here && places[i].asks() && is_tried(*places[i].own))
      return go_on(places, i, look, settling);
  if (const auto back = go_back(places, look)) return *back;
  return begin_move(places, look);
}

}  // namespace spotter::launch
