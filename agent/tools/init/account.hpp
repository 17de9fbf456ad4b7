// What the account has for a new job: zones and types, by Describe calls alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/aws/aws_calls.hpp"
#include "agent/job/job.hpp"

namespace spotter::command {

class AccountView {
 public:
  // Asks who calls. Without an answer all below answers from what is known without AWS.
  explicit AccountView(const Region& region);

  const std::string& number() const { return number_; }    // empty: unknown
  const std::string& trouble() const { return trouble_; }  // why it is unknown
  // Those of the types that a zone of the region offers; all where that is unknown.
  std::vector<std::string> offered(const std::vector<std::string>& types);
  // The zones that are available, have a default subnet and one of the types. A condition that
  // no zone meets, or that cannot be read, does not count: remarks() says so. Empty: unknown.
  std::vector<std::string> zones(const std::vector<std::string>& types);
  // What is amiss with zones, subnets, types and quotas, a line each, as `spotter doctor` has it.
  std::string remarks(const config::Job& job);

 private:
  std::unique_ptr<AwsCalls> calls_;
  std::string number_;
  std::string trouble_;
};

}  // namespace spotter::command
