// The files of a folder on their way to S3. Internal to tier.
#pragma once

#include <span>
#include <vector>

#include "agent/aws/s3/client.hpp"
#include "agent/guard/place.hpp"
#include "agent/guard/record.hpp"

namespace spotter::tier {

class Sender {
 public:
  // `to` is a key's beginning. REQUIRES: client and folder outlive this.
  Sender(s3::Client& client, const guard::Beneath& folder, wire::S3Location to)
      : client_(client), folder_(folder), to_(std::move(to)) {}

  // Each file has the recorded size and time before it is sent and after it, and the recorded sum,
  // which is taken meanwhile; else this fails, and no manifest may name what was sent. Large files
  // as multipart uploads, several at once; a file that becomes shorter meanwhile is a SIGBUS.
  Result<void> send(const std::vector<guard::Part>& parts);

 private:
  Result<void> send_together(std::span<const guard::Part> parts);

  s3::Client& client_;
  const guard::Beneath& folder_;
  wire::S3Location to_;
};

}  // namespace spotter::tier
