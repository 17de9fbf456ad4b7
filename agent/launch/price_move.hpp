// A job with pools in several regions (launch/places.hpp) whose spot instance runs, while spot
// capacity costs far less in another place: whether it goes there, and how. Pure.
//
// A price says nothing of capacity, so the job leaves nothing before it has something: the fleet of
// the other place gets the target 1, and the job's instance trains on. When an instance has run
// there for as long as a start takes, the fleet that the job leaves gets the target 0: its agent
// has the trainer write a checkpoint, and the bucket lets the other instance go on. If none comes,
// or one in a pool that is not cheap, the other fleet gets the target 0 again. An agent that waits
// for the bucket publishes nothing, so whether the other instance trains shows only then: if it
// publishes nothing, the job goes back.
//
// Only pools of the type on which the job runs are compared: nobody knows how fast it is on others.
//
// What is tried is written down at the fleet of that place, in the tag spotter:rests, as any
// watcher may do the next step. It stays there when the job has come, and until then says of a
// second fleet that asks that it is no mistake.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/job/job.hpp"
#include "agent/launch/places.hpp"
#include "agent/launch/price_note.hpp"

namespace spotter::launch {

// Each of these limits is a guard against moves that gain little. An hour elsewhere costs at most
// that much of an hour here: prices of spot capacity differ by a few per cent all the time.
inline constexpr double worth_moving = 0.75;
// What a move saves is at least this part of what the job would pay meanwhile where it is.
inline constexpr double least_part_saved = 0.1;
inline constexpr std::chrono::hours moves_again{4};   // after a move, or one that came to nothing
inline constexpr std::chrono::minutes tried_for{15};  // without an instance

// What goes over the border between two regions, in gigabytes: the home once, and checkpoints.
struct Transfer {
  double home = 0;
  double an_hour = 0;
  bool known = true;  // false: the bucket could not be read, or what the trainer reads counts, too
};
// What was committed to the bucket until now.
struct Committed {
  double bytes = 0;       // of the home
  double commits = 0;     // how many
  double last_bytes = 0;  // of the last one
  double trained = 0;     // hours
};
// Not known of a job with channels: nobody counts what they bring over the border.
Transfer transfer_of(const config::Job& job, const Committed& committed);
// Dollars for a gigabyte that leaves the region: the highest price of those that begin so.
// https://aws.amazon.com/ec2/pricing/on-demand/#Data_Transfer
double dollars_of_transfer(std::string_view region);

// Of the job where it is, at a look.
struct PriceLook {
  wire::WallTime now{};
  bool may_move = true;  // launch.price_moves; what is tried already is then given up
  bool settled = false;  // its spot instance has run for a while, and nothing else is asked for
  double dollars = 0;    // an hour, in the pool of that instance; 0: not known
  double work = 0;       // hours
  double lasts = 0;      // hours that a spot instance lasted on average; 0: not known
  double start = 0.25;   // hours
  double slack = 0;      // hours until an on-demand instance has to be asked for
  Transfer transfer;
  // As in Watched.
  bool publication_known = false;
  std::optional<Publication> publication = {};
};

struct PriceStep {
  enum class Action : std::uint8_t {
    None,
    Try,       // `to` gets the target 1 and the note
    Wait,      // it has it, and keeps it
    Go,        // the job goes there: the place where it is gets the target 0
    Withdraw,  // `to` gets the target 0
    Return,    // the same as Go, to the place that the job left, and it has no note
  };
  Action action = Action::None;
  std::size_t to = 0;
  PriceNote note;
  std::string reason;  // a sentence for a person, with the figures
};
// `waits`: the watcher does nothing else at this look, and the job is to be on spot.
// `settling`: for how long an instance has to be seen running (settling_time()).
PriceStep decide_price_move(const std::vector<PlaceSeen>& places, const PriceLook& look, bool waits,
                            Duration settling);

}  // namespace spotter::launch
