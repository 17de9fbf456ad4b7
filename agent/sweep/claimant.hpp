// One agent's part in distributing experiments, with S3 alone: which one to claim, when to renew,
// when to stop. Pure: answers and time come in, requests go out. tests/sweep simulates slow, paused
// and dying agents, and searches for a run in which two publish one experiment.
//
// Why it is safe:
// - Every change of a claim is a conditional write (If-Match, or If-None-Match), and no two writes
//   have the same content. So a write that S3 accepts was this agent's alone, and an old one that
//   arrives late is refused.
// - A result counts when the claim says `done`, by a conditional write, too. An agent that lost its
//   claim meanwhile cannot write that, whatever its clock says.
// - A holder trains until `span` after it *sent* its last accepted write (its own boot time); the
//   others wait until `span + margin` after S3 *received* it (S3's clock). So clocks decide only
//   how long two may train side by side (as a rule not at all), never which one publishes.
#pragma once

#include <variant>
#include <vector>

#include "agent/base/clock_text.hpp"
#include "agent/sweep/claim.hpp"

namespace spotter::sweep {

struct ClaimSettings {
  std::size_t experiments = 0;
  std::string holder;      // for people: the instance's id
  std::string nonce;       // unique to this agent: random, new with each start
  std::uint64_t seed = 0;  // which free one to try first; should differ between agents
  std::vector<bool> near;  // by index: tried first, as their data is here; empty: none
  Duration lease{60'000};  // between two renewals
  // The span in leases: one or two renewals that S3 does not answer cost no experiment.
  int leases_in_span = 3;
  Duration margin{30'000};  // for clock errors, and the second that Last-Modified cuts off
  std::uint32_t most_failures = 3;

  Duration span() const { return lease * leases_in_span; }
};

// --- Output. One request at a time; its answer has the same `number`.
struct ListClaims {};
struct ReadClaim {
  std::size_t index;
};
// Asks for the newest complete checkpoint of the attempts before `token`. Only that one counts.
struct FindParent {
  std::size_t index;
  std::uint64_t token;
};
struct WriteClaim {
  std::size_t index;
  Claim claim;
  std::string etag;  // of the claim that it replaces; empty: there must be none
};
using Ask = std::variant<ListClaims, ReadClaim, FindParent, WriteClaim>;
struct Request {
  std::uint64_t number;
  Ask ask;
};
// Only a hint for listings: not answered.
struct Mark {
  std::size_t index;
  Hint hint;
  bool there;  // false: remove it
};
struct Begin {  // training, until End or `usable_until`
  std::size_t index;
  std::uint64_t token;
  std::string parent;
  Time usable_until;
};
struct Extend {
  Time usable_until;
};
// The trainer at once: another machine has, or may have, the experiment. Until TrainerGone the
// claim is kept if it can be: who took it would not wait for what is still on its way to storage.
struct End {
  std::string why;
};
// The experiment has ended: by this agent, or by one that died before it marked it. Others can
// safely repeat what follows; once done, the caller marks it as Ended.
struct Published {
  std::size_t index;
  std::uint64_t token;  // of the attempt with the result
  bool done;            // false: given up
};
// Nothing to claim. Others train `unfinished` experiments; 0: the sweep has ended. It lists again
// by itself until Leave.
struct Idle {
  std::size_t unfinished;
};
struct Left {};  // Leave is carried out
struct Complaint {
  std::string text;
};
using Order = std::variant<Request, Mark, Begin, Extend, End, Published, Idle, Left, Complaint>;

// --- Input.
struct Listed {
  struct Claimed {
    std::size_t index;
    wire::WallTime modified;  // as S3 says
  };
  std::vector<Claimed> claims;            // each list in the order of the indices
  std::vector<std::size_t> ended, given;  // the hints
  wire::WallTime date{};                  // S3's, of the answer
};
struct ReadAnswer {
  struct Found {
    Result<Claim> claim;
    std::string etag;
    wire::WallTime modified{};
  };
  std::optional<Found> found;  // none: there is no such object
  wire::WallTime date{};
};
struct Parent {
  std::string checkpoint;
};
struct Written {
  std::string etag;
};
struct NotWritten {};  // the condition does not hold (412)
struct NoAnswer {};    // or an unclear one: the write may have been done, or be done later
using Answer = std::variant<Listed, ReadAnswer, Parent, Written, NotWritten, NoAnswer>;

struct TrainerDone {};  // its result is durable
struct TrainerFailed {
  bool progress;  // since Begin
};
// End is carried out: nothing of that attempt runs here any more, or brings what it made to its
// storage.
struct TrainerGone {
  std::size_t index;
  std::uint64_t token;
};
struct Leave {};  // a notice: gives back what is held, for at most one lease if S3 refuses
struct Tick {};
struct Reply {
  std::uint64_t number;
  Answer answer;
};
using News = std::variant<Reply, TrainerDone, TrainerFailed, TrainerGone, Leave, Tick>;

class Claimant {
 public:
  using Orders = std::vector<Order>;

  explicit Claimant(ClaimSettings settings)
      : settings_(std::move(settings)),
        chance_(settings_.seed),
        number_(settings_.seed),
        ended_(settings_.experiments, false),
        failed_here_(settings_.experiments, false) {}

  // The first call, with any Tick, starts it. To be called again by wake_at(), at the latest.
  Orders on(Time now, const News& news);
  Time wake_at() const;

 private:
  enum class Phase : std::uint8_t {
    Listing,   // all claims
    Looking,   // reads a claim that may be free
    Pinning,   // finds the checkpoint that its next token starts from
    Writing,   // `writing_`
    Settling,  // whether that was done
    Holding,   // the next renewal is at again_
    Gone
  };
  enum class Purpose : std::uint8_t { Take, Renew, Finish };

  void act();
  void ask(Ask what);
  void at_once(Phase phase);
  void later(Phase phase, Duration pause);
  void reply(const Reply& reply);

  void listed(const Listed& listing);
  void complain(std::string text) { orders_.emplace_back(Complaint{std::move(text)}); }
  bool listing_is_good() const;
  void next_candidate();
  void looked(const ReadAnswer& answer);
  bool may_be_taken(const ReadAnswer::Found& found, wire::WallTime date) const;

  void write(Purpose purpose, Claim claim);
  void settled(const ReadAnswer& answer);
  bool is_mine(const Claim& claim) const;
  void written(const std::string& etag);
  void took();
  void hold();
  void overtaken(const std::string& by);

  void trainer_ended(const TrainerFailed& how);
  void end_trainer(const std::string& why);
  void trainer_gone(const TrainerGone& gone);
  void give_back();
  void finished();
  void leave();
  void gone();
  std::uint64_t random();

  ClaimSettings settings_;
  std::uint64_t chance_;
  Time now_{};
  Orders orders_;

  Phase phase_ = Phase::Listing;
  std::uint64_t number_;  // of the last request; starts at the seed, unlike an earlier process's
  bool awaited_ = false;  // its answer; else the phase continues at again_
  Time again_{};

  Time listed_at_{};
  int misses_ = 0;  // failed claims by that listing: others were first
  // Experiments of that listing that were not tried yet.
  std::vector<std::size_t> unclaimed_;
  std::vector<std::size_t> given_;  // or their holder has not renewed for too long
  std::vector<bool> ended_;         // by index, as far as is known
  std::vector<bool> failed_here_;   // another machine may succeed: taken last
  std::size_t unfinished_ = 0;

  // The claim that is tried, or held.
  std::size_t index_ = 0;
  Claim claim_;       // as S3 has it, as far as is known
  std::string etag_;  // its ETag; empty: there is none
  Claim writing_;
  Purpose purpose_ = Purpose::Take;
  Time sent_{};  // writing_, for the first time
  std::uint64_t writes_ = 0;

  bool training_ = false;
  bool ending_ = false;  // End was ordered, and the claim is ours as far as is known
  Time usable_until_{};
  std::optional<Claim> last_;  // to be written, as the trainer has ended
  bool leaving_ = false;
  Time leave_by_{};  // even if Leave was not carried out: then the claim expires
};

}  // namespace spotter::sweep
