// Runs a Claimant: sends its requests to S3, passes answers and time to it, and passes its orders
// to the caller.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "agent/io/asio.hpp"
#include "agent/job/job.hpp"
#include "agent/service/sweep/claim_clerk.hpp"

namespace spotter {

Time now();  // since boot: the clock of leases

// Settings of a new Claimant for `count` experiments; `holder`: this machine's name.
sweep::ClaimSettings claim_settings(const config::Job& job, std::size_t count, std::string holder);

class Claims {
 public:
  struct Callbacks {
    // Begin, Extend, End, Published, Idle. Must not call deliver() itself.
    std::function<void(sweep::Order)> carry_out;
    // Answered later, by deliver() with a Reply of that number.
    std::function<void(std::uint64_t number, const sweep::FindParent&)> find_parent;
    // What is wrong with the claims, for a person; empty: nothing any more.
    std::function<void(const std::string&)> complain;
  };
  Claims(asio::io_context& context, const config::Job& job, sweep::Owner owner,
         Callbacks callbacks);

  // Begins again, with nothing held. REQUIRES: has_left().
  void begin(sweep::ClaimSettings settings);
  void deliver(const sweep::News& news);
  // It holds nothing, and claims nothing until begin().
  bool has_left() const { return left_; }
  // The claims are another job's of this name, as was reported: it has left, for good.
  bool are_foreign() const { return foreign_; }
  // Not everything is written to S3 yet.
  bool is_busy() { return clerk_.is_busy(); }

  // Marks an experiment as ended, once all that follows from it is done. `summary`: the outcome,
  // for readers without the storage; empty: unknown.
  void mark_ended(std::size_t index, std::string summary);

 private:
  asio::awaitable<void> read_answers();
  void carry_out(sweep::Order order);
  void report_trouble(const command::ClaimClerk::Outcome& outcome);
  void set_timer();

  std::string place_;
  Callbacks callbacks_;
  command::ClaimClerk clerk_;
  asio::posix::stream_descriptor readable_;
  asio::steady_timer timer_;
  std::optional<sweep::Claimant> claimant_;
  bool left_ = true;
  bool foreign_ = false;
  std::string trouble_;          // of S3: logged once
  std::set<std::string> wrong_;  // objects that are ignored: logged once each
};

}  // namespace spotter
