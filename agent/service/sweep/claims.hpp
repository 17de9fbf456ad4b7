// A Claimant at work: its requests go to S3, its answers come back, its clock ticks. What it orders
// beyond that is the owner's to obey.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "agent/io/asio.hpp"
#include "agent/job/job.hpp"
#include "agent/service/sweep/claim_clerk.hpp"

namespace spotter {

Time now();  // since boot: what leases are measured by

// A new Claimant's, of the job's `count` experiments; `holder`: this machine's name.
sweep::ClaimSettings claim_settings(const config::Job& job, std::size_t count, std::string holder);

class Claims {
 public:
  struct Hands {
    // Begin, Extend, End, Published, Idle. Not to be answered by tell() from within.
    std::function<void(sweep::Order)> obey;
    // Answered later, by tell() with a Reply of that number.
    std::function<void(std::uint64_t number, const sweep::FindParent&)> find_parent;
    // What keeps us from the claims now, for a person; empty: nothing any more.
    std::function<void(const std::string&)> complain;
  };
  Claims(asio::io_context& context, const config::Job& job, sweep::Owner owner, Hands hands);

  // Anew, with nothing held. REQUIRES: has_left().
  void begin(sweep::ClaimSettings settings);
  void tell(const sweep::News& news);
  // It holds nothing, and takes nothing until begin().
  bool has_left() const { return left_; }
  // They are of another job of this name, as was complained: it has left, for good.
  bool are_foreign() const { return foreign_; }
  // S3 has not been told of everything yet.
  bool is_busy() { return clerk_.is_busy(); }

  // This one has ended, and all that follows from it is done. `summary`: what became of it, for
  // whoever does not see the storage; empty: that is not known.
  void mark_ended(std::size_t index, std::string summary);

 private:
  asio::awaitable<void> hear();
  void obey(sweep::Order order);
  void hear_of(const command::ClaimClerk::Heard& heard);
  void set_timer();

  std::string place_;
  Hands hands_;
  command::ClaimClerk clerk_;
  asio::posix::stream_descriptor heard_;
  asio::steady_timer timer_;
  std::optional<sweep::Claimant> claimant_;
  bool left_ = true;
  bool foreign_ = false;
  std::string trouble_;          // of S3: said once
  std::set<std::string> wrong_;  // objects that are left alone: said once each
};

}  // namespace spotter
