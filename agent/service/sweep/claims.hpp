// Runs a Claimant: carries out its requests in a bucket, one at a time, passes answers and time to
// it, and passes its orders to the caller.
#pragma once

#include <deque>
#include <functional>
#include <set>

#include "agent/aws/s3_client.hpp"
#include "agent/config/job.hpp"
#include "agent/io/asio.hpp"
#include "agent/sweep/claimant.hpp"

namespace spotter {

// Settings of a new Claimant for `count` experiments; `holder`: this machine's name.
sweep::ClaimSettings claim_settings(const config::Job& job, std::size_t count, std::string holder);

class Claims {
 public:
  struct Callbacks {
    // Begin, Extend, End, Published, Idle. Must not call deliver() itself.
    std::function<void(sweep::Order)> carry_out;
    // Answered later, by deliver() with a Reply of that number.
    std::function<void(std::uint64_t number, const sweep::FindParent&)> find_parent;
    // The trouble with the claims, for a person; empty: none any more.
    std::function<void(const std::string&)> complain;
  };
  // First checks that the claims are `owner`'s; until then it reads, writes and removes nothing
  // else there. Must outlive the io_context's run.
  Claims(asio::io_context& context, const config::Job& job, sweep::Owner owner,
         Callbacks callbacks);

  // Begins again, with nothing held. REQUIRES: has_left().
  void begin(sweep::ClaimSettings settings);
  void deliver(const sweep::News& news);
  // It holds nothing, and claims nothing until begin().
  bool has_left() const { return left_; }
  // The claims are another job's of this name, as was reported: it has left, for good.
  bool are_foreign() const { return foreign_; }
  // Something is not written to S3 yet.
  bool is_busy() const { return working_; }

  // Marks an experiment as ended, once all that follows from it is done. `summary`: the outcome,
  // for readers without the storage, is stored before that: an agent that finds no mark does the
  // same again. Empty: unknown.
  void mark_ended(std::size_t index, std::string summary);

 private:
  struct Record {
    std::size_t index;
    std::string summary;
  };
  using Work = std::variant<sweep::Request, sweep::Mark, Record>;
  struct Done {
    sweep::Answer answer = sweep::NoAnswer{};
    std::string trouble{};  // for the log, if S3 did not do what was asked; else empty
  };
  using Doing = asio::awaitable<Done>;

  void send(Work work);
  asio::awaitable<void> work();
  asio::awaitable<std::string> own();
  Doing answer(sweep::Request request);
  Doing list();
  Doing read(std::size_t index);
  Doing write(sweep::WriteClaim write);
  asio::awaitable<bool> mark(sweep::Mark mark);
  asio::awaitable<void> record(Record record);
  asio::awaitable<bool> put(std::string name, std::string bytes);
  wire::S3Location at(const std::string& name) const;
  void report_trouble(const Done& done);
  void carry_out(sweep::Order order);
  void set_timer();

  asio::io_context& context_;
  wire::S3Location prefix_;
  Duration limit_;  // of a request
  sweep::Owner owner_;
  Callbacks callbacks_;
  act::S3Client s3_;
  std::deque<Work> work_;
  bool working_ = false;
  bool owns_ = false;
  asio::steady_timer timer_;
  std::optional<sweep::Claimant> claimant_;
  bool left_ = true;
  bool foreign_ = false;
  std::string trouble_;          // of S3: logged once
  std::set<std::string> wrong_;  // objects that are ignored: logged once each
};

}  // namespace spotter
