// The words of a tag that the watcher writes down: "use=spot left=1/2". Pure.
#pragma once

#include <map>

#include "agent/launch/deadline.hpp"

namespace spotter::launch {

// Word by word, each by what is before its "="; what has none is left out.
std::map<std::string, std::string, std::less<>> words_of_tag(std::string_view tag);

// A watcher's notes between two looks (launch/fallback.hpp decides by them), as tags of the job's
// own fleet. Pure.

// The content of the tag spotter:watched, which `spotter watch` writes to the job's fleet. EC2
// shows ended instances for about an hour only, and a watcher that a timer starts each minute has
// no memory. All times are AWS's, taken from its answers: the watcher's own clock may be wrong.
struct WatchMark {
  // The job's spot instance, or why none is looked for: its fleet is to have no instance (given up,
  // or stopped), the watcher has it rest, or the job is done.
  enum class Spot : std::uint8_t { None, Starts, Runs, Stopped, Done, Rests };
  wire::WallTime looked{};
  Spot spot = Spot::None;
  wire::WallTime since{};          // the first look that saw it so
  InstanceId instance;             // of Runs
  std::optional<Outlook> outlook;  // of a job with a deadline

  bool operator==(const WatchMark&) const = default;
};
std::string tag_of(const WatchMark& mark);
std::optional<WatchMark> mark_of(std::string_view tag);  // none: it is no mark

// A look that changes nothing is written down this often: a call a minute for weeks is noise in the
// account's trail.
inline constexpr std::chrono::minutes marked_every{5};
// A watcher looks at least this often; `doctor` reports it missing after twice that time.
inline constexpr std::chrono::minutes longest_interval{10};

// Is this mark worth a call to AWS?
bool is_news(const std::optional<WatchMark>& before, const WatchMark& now);

// An on-demand instance that lives, but has published nothing for as long as a start takes and
// `silent_for` more, while the job's own fleet rests.
struct Silence {
  wire::WallTime since{};  // nothing until then
  InstanceId instance;
  bool operator==(const Silence&) const = default;
};
inline constexpr std::chrono::minutes silent_for{10};
std::string tag_of(const Silence& silence);
std::optional<Silence> silence_of(std::string_view tag);  // none: it says no such thing

// The tag's content in words, for an agent that has read it; empty: no watcher has looked yet. Adds
// the price of spot capacity beside that on demand, if the job has a deadline.
std::string words_of_watcher(std::string_view tag, wire::WallTime now);

}  // namespace spotter::launch
