#include "agent/launch/watch_mark.hpp"

#include <algorithm>
#include <utility>

#include "agent/base/text.hpp"

namespace spotter::launch {

std::map<std::string, std::string, std::less<>> words_of_tag(std::string_view tag) {
  std::map<std::string, std::string, std::less<>> words;
  while (!tag.empty()) {
    const std::string_view word = take_until(tag, ' ');
    if (const auto equals = word.find('='); equals != word.npos)
      words.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return words;
}

namespace {

using Spot = WatchMark::Spot;

constexpr Spot all_spots[] = {Spot::None,    Spot::Starts, Spot::Runs,
                              Spot::Stopped, Spot::Done,   Spot::Rests};
constexpr const char* spot_words[] = {"no spot", "spot starts", "spot runs",
                                      "stopped", "done",        "spot rests"};
constexpr std::string_view silent_word = "silent ";

const char* word_of(Spot spot) { return spot_words[static_cast<std::size_t>(spot)]; }

}  // namespace

std::string tag_of(const WatchMark& mark) {
  return wire::to_rfc3339(mark.looked) + " " + word_of(mark.spot) + " since " +
         wire::to_rfc3339(mark.since) + (mark.instance.empty() ? "" : " " + mark.instance.str()) +
         (mark.outlook ? " " + tag_of(*mark.outlook) : "");
}

std::string tag_of(const Silence& silence) {
  return std::string(silent_word) + wire::to_rfc3339(silence.since) + " " + silence.instance.str();
}

std::optional<Silence> silence_of(std::string_view tag) {
  if (!tag.starts_with(silent_word)) return std::nullopt;
  tag.remove_prefix(silent_word.size());
  const auto since = wire::parse_rfc3339(take_until(tag, ' '));
  if (!since || !tag.starts_with("i-") || !InstanceId::fits(tag)) return std::nullopt;
  return Silence{*since, InstanceId(tag)};
}

std::optional<WatchMark> mark_of(std::string_view tag) {
  for (const Spot spot : all_spots) {
    const std::string between = " " + std::string(word_of(spot)) + " since ";
    const auto at = tag.find(between);
    if (at == tag.npos) continue;
    std::string_view rest = tag.substr(at + between.size());
    const auto looked = wire::parse_rfc3339(tag.substr(0, at));
    const auto since = wire::parse_rfc3339(rest.substr(0, rest.find(' ')));
    if (!looked || !since) continue;
    rest.remove_prefix(std::min(rest.find(' '), rest.size() - 1) + 1);
    WatchMark mark{*looked, spot, *since, {}, outlook_of(rest)};
    if (const auto id = rest.substr(0, rest.find(' '));
        id.starts_with("i-") && InstanceId::fits(id))
      mark.instance = InstanceId(id);
    return mark;
  }
  return std::nullopt;
}

bool is_news(const std::optional<WatchMark>& before, const WatchMark& now) {
  const auto said = [](const WatchMark& it) {
    return it.outlook ? std::pair(it.outlook->choice, it.outlook->trouble)
                      : std::pair(capacity::Use::Nothing, Outlook::Trouble::None);
  };
  return !before || before->spot != now.spot || before->since != now.since ||
         before->instance != now.instance || said(*before) != said(now) ||
         now.looked - before->looked >= marked_every;
}

std::string words_of_watcher(std::string_view tag, wire::WallTime now) {
  const auto mark = mark_of(tag);
  if (!mark) return "";
  const std::string looked = wire::to_rfc3339(mark->looked);
  if (now - mark->looked > 2 * longest_interval)
    return "nobody has watched since " + looked + ": no on-demand instance comes";
  return "watched at " + looked + ": " + word_of(mark->spot) + " since " +
         wire::to_rfc3339(mark->since) + (mark->outlook ? "; " + text_of(*mark->outlook) : "");
}

}  // namespace spotter::launch
