// Long writes: multipart uploads, several objects at once.
// Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/aws/s3/objects.hpp"

namespace spotter::s3 {

struct NewObject {
  wire::S3Location location;
  std::string_view bytes;  // must stay until upload() returns
  Condition condition;
};

// Objects up to this size are put at once. S3 takes parts of 5 MiB and more, 10,000 at most.
inline constexpr std::size_t part_bytes = 16U << 20;

// The ETags of the new objects, in their order. After a failure some of them may have been made;
// what was begun of the others is removed, as far as S3 can be reached. An object that S3 refuses
// to complete because of another's write (409) is uploaded again from its start, a few times. Gives
// up soon after `stop`, when given, answers true.
Result<std::vector<std::string>, Failure> upload(Client& client, std::span<const NewObject> objects,
                                                 const std::function<bool()>& stop = {});

}  // namespace spotter::s3
