// AWS Batch, pure and on virtual time, seeded, like the world of which its hosts are instances.
// The emulator adds HTTP, signatures and processes. After every call, after every change of the
// world and at next() it calls advance(now), and carries out what that answers; it tells how each
// job that it was asked to run has ended.
#pragma once

#include "tests/world/batch/state.hpp"

namespace spotter::world::batch {

// https://docs.aws.amazon.com/batch/latest/APIReference/: POST /v1/ACTION with a JSON object;
// /v1/tags/ARN also with GET and DELETE.
struct Request {
  std::string method;
  std::string path;                // decoded: /v1/submitjob
  std::vector<std::string> names;  // the query's tagKeys
  std::string body;
  std::string caller;
};

class Batch {
 public:
  // The world outlives it.
  explicit Batch(World& world, Settings settings = {}, std::uint64_t seed = 0);

  Reply answer(const Request& request, Time now);
  // An answer to what never got as far as that: SignatureDoesNotMatch, ...
  static Reply refuse(const ApiError& error);

  std::vector<Order> advance(Time now);
  std::optional<Time> next() const;
  // `ending`: Batch finds the status reason itself. Does nothing for a run that is over already.
  void ended(const Run& run, const Ending& ending, Time now);

  // {"environments": [...], "queues", "hosts", "jobs": counts by status}, for people and tests.
  Json describe() const;

  // A setting by name, for tests that want a certain order of things: see setting_names().
  Expected<void> set(const std::string& name, const std::map<std::string, std::string>& arguments);
  static std::vector<std::string> setting_names();  // "batch-start of=1s", one line each

 private:
  void enter(Time now);
  Reply carry_out(const Request& request);

  State state_;
};

}  // namespace spotter::world::batch
