// Carries out a Claimant's requests in a bucket, one at a time, on its own thread: nothing else
// waits when S3 hangs.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>

#include "agent/aws/s3/client.hpp"
#include "agent/config/job.hpp"
#include "agent/config/parameters.hpp"
#include "agent/io/asio.hpp"
#include "agent/sweep/claimant.hpp"

namespace spotter::command {

class ClaimClerk {
 public:
  // Claims are objects below `prefix`, whose key ends with a slash or is empty. The settings'
  // patience limits each request. First checks that the claims are `owner`'s; until then it reads,
  // writes and removes nothing else there.
  ClaimClerk(s3::Settings settings, wire::S3Location prefix, sweep::Owner owner);
  // Waits for the request under way; drops all others.
  ~ClaimClerk();
  ClaimClerk(const ClaimClerk&) = delete;
  ClaimClerk& operator=(const ClaimClerk&) = delete;

  // REQUIRES: it is no FindParent, which does not concern S3.
  void send(sweep::Request request);
  void send(const sweep::Mark& mark);
  // Stores the outcome beside the claim, and only then marks it as Ended: an agent that finds no
  // mark does the same again. An empty summary: only marks.
  struct Record {
    std::size_t index;
    std::string summary;
  };
  void send(Record record);
  // True: not all that was sent is done.
  bool is_busy();

  // Readable while next_answer() returns something.
  int descriptor() const { return event_; }
  struct Outcome {
    sweep::Reply reply;
    std::string trouble;   // for the log, if S3 did not do what was asked; else empty
    bool foreign = false;  // the claims are another job's, as `trouble` says
  };
  std::optional<Outcome> next_answer();

 private:
  using Work = std::variant<sweep::Request, sweep::Mark, Record>;
  void run();
  Result<sweep::Owner> owner_there();
  void own(Outcome& outcome);
  Outcome answer(const sweep::Request& request);
  sweep::Answer list(std::string& trouble);
  sweep::Answer read(std::size_t index, std::string& trouble);
  sweep::Answer write(const sweep::WriteClaim& write, std::string& trouble);
  void mark(const sweep::Mark& mark);
  void record(const Record& record);
  wire::S3Location at(const std::string& name) const;

  wire::S3Location prefix_;
  sweep::Owner owner_;
  bool owns_ = false;  // used by the thread only
  s3::Client client_;  // used by the thread only
  int event_ = -1;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work> work_;
  std::deque<Outcome> outcomes_;
  bool stopping_ = false;
  bool working_ = false;
  std::thread thread_;
};

}  // namespace spotter::command

namespace spotter {

// Runs a Claimant: sends its requests to S3, passes answers and time to it, and passes its orders
// to the caller.

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
    // The trouble with the claims, for a person; empty: none any more.
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
  // Something is not written to S3 yet.
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
