// Does a Claimant's requests in a bucket, one after the other, on a thread of its own: S3 may hang
// without anybody waiting for it.
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
  // patience limits each request. Nothing is read, written or removed there before it is certain
  // that they are `owner`'s.
  ClaimClerk(s3::Settings settings, wire::S3Location prefix, sweep::Owner owner);
  // Waits for the request that is under way; what else was sent is dropped.
  ~ClaimClerk();
  ClaimClerk(const ClaimClerk&) = delete;
  ClaimClerk& operator=(const ClaimClerk&) = delete;

  // Not FindParent, which is no matter of S3's.
  void send(sweep::Request request);
  void send(const sweep::Mark& mark);
  // What became of it, beside its claim; then, not before, it is marked as Ended: who finds it
  // without the mark does the same again. Empty: the mark alone.
  struct Record {
    std::size_t index;
    std::string summary;
  };
  void send(Record record);
  // Something of what was sent is not done yet.
  bool is_busy();

  // Readable while there is something to hear.
  int descriptor() const { return event_; }
  struct Heard {
    sweep::Reply reply;
    std::string trouble;   // for the log, where S3 did not do what was asked; else empty
    bool foreign = false;  // they are the claims of another job, as `trouble` says
  };
  std::optional<Heard> hear();

 private:
  using Work = std::variant<sweep::Request, sweep::Mark, Record>;
  void run();
  Result<sweep::Owner> owner_there();
  void own(Heard& heard);
  Heard answer(const sweep::Request& request);
  sweep::Answer list(std::string& trouble);
  sweep::Answer read(std::size_t index, std::string& trouble);
  sweep::Answer write(const sweep::WriteClaim& write, std::string& trouble);
  void mark(const sweep::Mark& mark);
  void record(const Record& record);
  wire::S3Location at(const std::string& name) const;

  wire::S3Location prefix_;
  sweep::Owner owner_;
  bool owns_ = false;  // the thread's
  s3::Client client_;  // the thread's
  int event_ = -1;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work> work_;
  std::deque<Heard> heard_;
  bool stopping_ = false;
  bool working_ = false;
  std::thread thread_;
};

}  // namespace spotter::command
