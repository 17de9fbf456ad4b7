// What an answer of S3 that is no success means. No I/O. Private to agent/aws/s3.
// Source: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
#pragma once

#include <cstdint>
#include <string>

#include "agent/aws/s3/values.hpp"

namespace spotter::s3 {

struct Judgement {
  enum class Next : std::uint8_t {
    Fail,       // with `failure`
    Retry,      // S3's own trouble
    SlowDown,   // later, and fewer at once
    Elsewhere,  // the bucket is in `region`, or at `endpoint` for now
    NewKeys,    // they have expired
    NewClock,   // ours is wrong: the answer's Date is right
  };
  Next next = Next::Fail;
  Failure failure;
  std::string region;
  std::string endpoint;
};

Judgement judge(const Request& request, const Answer& answer);

}  // namespace spotter::s3
