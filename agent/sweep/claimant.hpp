// One agent's part in sharing out experiments, where there is nothing but S3: which one to claim,
// when to renew, when to stop. Pure: answers and time come in, requests go out; tests/sweep has a
// world of slow, paused and dying agents that looks for two of them publishing one experiment.
//
// What holds it together:
// - Every change of a claim is a write on the condition that nobody else wrote since (If-Match, or
//   If-None-Match), and no two writes have the same content. So a write that S3 has accepted was
//   this agent's alone, and an old one that arrives late is refused.
// - A result counts when the claim says `done`: that write is conditional, too. Whoever was taken
//   over meanwhile cannot make it, whatever its clock says.
// - A holder trains until `span` after it *sent* its last accepted write (its own boot time); the
//   others wait until `span + margin` after S3 *received* it (S3's clock). So clocks that run
//   decide how long two may train side by side (not at all, as a rule), never who publishes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/clock_text.hpp"
#include "agent/sweep/claim.hpp"

namespace spotter::sweep {

struct ClaimSettings {
  std::size_t experiments = 0;
  std::string holder;      // for people: the instance's id
  std::string nonce;       // that no other agent has: random, new with each start
  std::uint64_t seed = 0;  // which free one to take first; agents should differ
  std::vector<bool> near;  // by index: these come first, as what they need is here; empty: none
  Duration lease{60'000};  // between two renewals
  // Without a renewal, so many leases: one or two that S3 did not answer cost nobody an experiment.
  int leases_in_span = 3;
  Duration margin{30'000};  // for clocks, and the second that Last-Modified cuts off
  std::uint32_t most_failures = 3;

  Duration span() const { return lease * leases_in_span; }
};

// --- what goes out. One request at a time; `number` is that of the answer.
struct ListClaims {};
struct ReadClaim {
  std::size_t index;
};
// Which checkpoint of the attempts before `token` is the newest whole one: it alone will count.
struct FindParent {
  std::size_t index;
  std::uint64_t token;
};
struct WriteClaim {
  std::size_t index;
  Claim claim;
  std::string etag;  // of the one that it replaces; empty: there must be none
};
using Ask = std::variant<ListClaims, ReadClaim, FindParent, WriteClaim>;
struct Request {
  std::uint64_t number;
  Ask ask;
};
// Hints for listings, and nothing more: not answered.
struct Mark {
  std::size_t index;
  Hint hint;
  bool there;  // false: take it away
};
struct Begin {  // to train, until told otherwise or `usable_until`
  std::size_t index;
  std::uint64_t token;
  std::string parent;
  Time usable_until;
};
struct Extend {
  Time usable_until;
};
struct End {  // at once: the experiment is somebody else's, or may be
  std::string why;
};
// It has ended: by this agent, or by one that did not live to mark it. What follows from that can
// be done again by others; when it is, the caller marks it as Ended.
struct Published {
  std::size_t index;
  std::uint64_t token;  // whose result it is
  bool done;            // false: given up
};
// Nothing to claim. Others are at work on `unfinished`; 0: the sweep has ended. Looks again by
// itself until told to leave.
struct Idle {
  std::size_t unfinished;
};
struct Left {};  // what was asked for by Leave is done
struct Complaint {
  std::string text;
};
using Order = std::variant<Request, Mark, Begin, Extend, End, Published, Idle, Left, Complaint>;

// --- what comes in.
struct Listed {
  struct Claimed {
    std::size_t index;
    wire::WallTime modified;  // as S3 says
  };
  std::vector<Claimed> claims;            // all in the order of the indices
  std::vector<std::size_t> ended, given;  // the hints
  wire::WallTime date{};                  // S3's, of the answer
};
struct ReadAnswer {
  struct Found {
    Result<Claim> claim;
    std::string etag;
    wire::WallTime modified{};
  };
  std::optional<Found> found;  // nothing: there is no such object
  wire::WallTime date{};
};
struct Parent {
  std::string checkpoint;
};
struct Written {
  std::string etag;
};
struct NotWritten {};  // the condition does not hold (412)
struct NoAnswer {};    // or one that says nothing: it may have been done, or be done yet
using Answer = std::variant<Listed, ReadAnswer, Parent, Written, NotWritten, NoAnswer>;

struct TrainerDone {};  // its result is durable
struct TrainerFailed {
  bool progress;  // since Begin
};
struct Leave {};  // a notice: give back what is held; a lease that S3 refuses that for is enough
struct Tick {};
struct Reply {
  std::uint64_t number;
  Answer answer;
};
using News = std::variant<Reply, TrainerDone, TrainerFailed, Leave, Tick>;

class Claimant {
 public:
  using Orders = std::vector<Order>;

  explicit Claimant(ClaimSettings settings)
      : settings_(std::move(settings)),
        chance_(settings_.seed),
        number_(settings_.seed),
        ended_(settings_.experiments, false),
        failed_here_(settings_.experiments, false) {}

  // The first call starts it, with any Tick. To be called again at wake_at(), at the latest.
  Orders on(Time now, const News& news);
  Time wake_at() const;

 private:
  enum class Phase : std::uint8_t {
    Listing,   // who has what
    Looking,   // at a claim that may be free
    Pinning,   // which checkpoint its next token starts from
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
  void complain(std::string text);
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
  std::uint64_t number_;  // of the last request; from the seed, as the one before had other numbers
  bool awaited_ = false;  // its answer; else the phase goes on at again_
  Time again_{};

  Time listed_at_{};
  int misses_ = 0;  // of that listing: others were first
  // Of it, not tried yet.
  std::vector<std::size_t> unclaimed_;
  std::vector<std::size_t> given_;  // or their holder has not been heard of for too long
  std::vector<bool> ended_;         // by index, as far as is known
  std::vector<bool> failed_here_;   // another machine may fare better: taken last
  std::size_t unfinished_ = 0;

  // The claim that is tried for, or held.
  std::size_t index_ = 0;
  Claim claim_;       // as it is at S3, as far as is known
  std::string etag_;  // its; empty: there is none
  Claim writing_;
  Purpose purpose_ = Purpose::Take;
  Time sent_{};  // writing_, for the first time
  std::uint64_t writes_ = 0;

  bool training_ = false;
  Time usable_until_{};
  std::optional<Claim> last_;  // what is to be written, now that the trainer has ended
  bool leaving_ = false;
  Time leave_by_{};  // told or not: who does not hear of it sees the claim run out
};

}  // namespace spotter::sweep
