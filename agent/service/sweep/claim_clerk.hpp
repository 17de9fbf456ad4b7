// Carries out a Claimant's requests in a bucket, one at a time, on its own thread: nothing else
// waits when S3 hangs.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>

#include "agent/aws/s3/client.hpp"
#include "agent/job/parameters.hpp"
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
