// Amazon SNS, its Publish alone: a topic is a file that is there already, DIR/sns/NAME, and each
// message one more line of it: {"Subject": ..., "Message": ..., "MessageId": ...}.
// https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
#pragma once

#include <filesystem>
#include <string>

#include "tests/world/access.hpp"
#include "tests/world/world.hpp"

namespace spotter::emulator {

class Topics {
 public:
  explicit Topics(std::filesystem::path directory) : directory_(std::move(directory)) {}

  static world::AccessRequest needed_access(const world::Call& call);
  // `region`: whose endpoint is asked. It knows no topic of another, nor of
  // another account's.
  world::Reply answer(const world::Call& call, const std::string& region,
                      const std::string& account);
  static world::Reply refuse(int status, const std::string& code, const std::string& message);

 private:
  std::filesystem::path directory_;
  unsigned published_ = 0;
};

}  // namespace spotter::emulator
