// A worker's operations on the storage for the job's experiments, each attempt in a folder of its
// own (host/attempt.hpp). With a volume for each experiment, or a home in a bucket, most do
// nothing: the agent that attaches or brings it finds all in it. Nothing here throws; failures have
// a message for a person.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/decide/policy.hpp"
#include "agent/job/job.hpp"
#include "agent/service/act/local.hpp"
#include "agent/sweep/claimant.hpp"

namespace spotter {

class Attempts {
 public:
  // `sets`: of the job's sweep; empty without one.
  Attempts(const config::Job& job, const decide::Policy& policy, std::vector<sweep::Set> sets,
           const std::string& run_directory);

  std::size_t count() const { return job_.sweep ? sets_.size() : 1; }
  std::string name(std::size_t index) const;  // "experiment 3 of 8", "the job"

  asio::awaitable<Result<void>> mount_storage();
  asio::awaitable<void> release_storage();
  // The owner of this job's claims. REQUIRES: mount_storage() succeeded.
  sweep::Owner owner() const;

  asio::awaitable<Result<std::string>> find_parent(sweep::FindParent ask);
  asio::awaitable<Result<std::string>> begin(sweep::Begin begin);
  // The experiment's agent has ended: before the next one takes the folder of its working copy
  // (Job::folder_in_turn()), what sum_up() is to say is read.
  asio::awaitable<void> end(sweep::Begin begun);
  asio::awaitable<Result<std::string>> publish(sweep::Published published);
  // The outcome, a sweep::Summary as JSON; empty: the storage does not have it.
  asio::awaitable<std::string> sum_up(sweep::Published published);

 private:
  bool in_folders() const { return job_.storage.share && !job_.storage.in_bucket(); }
  std::string home(std::size_t index) const;
  // The home in the bucket, as a URL; none: the storage is another one.
  std::optional<std::string> home_in_bucket(std::size_t index) const;

  const config::Job& job_;
  const decide::Policy& policy_;
  std::vector<sweep::Set> sets_;
  act::Local local_;
  struct Read {
    std::uint64_t token = 0;  // of the attempt
    std::string text;
  };
  std::map<std::size_t, Read> read_;  // by end(), and not asked for yet
};

}  // namespace spotter
