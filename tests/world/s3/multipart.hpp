// Completes an upload in parts. Pure.
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_CompleteMultipartUpload.html
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/world/s3/documents.hpp"

namespace spotter::world::s3 {

constexpr int most_parts = 10'000;
constexpr std::uint64_t least_part = 5 * 1024 * 1024;  // bytes; the last may be smaller

struct Completion {
  std::vector<int> parts;  // in their order in the object
  std::vector<std::uint64_t> sizes;
  std::string etag;     // md5 of the parts' MD5s, "-" and their number
  Checksums checksums;  // of the parts' checksums; none where it is to be of the whole object
};
// `uploaded`: by number. Refuses with InvalidPartOrder, InvalidPart, EntityTooSmall, and with
// InvalidRequest where a checksum of parts is to be without theirs.
Expected<Completion> complete(const std::vector<CompletedPart>& asked,
                              const std::map<int, PartRow>& uploaded,
                              const UploadChecksum& checksum = {});

// A part that brings another checksum than its upload was created for, or none.
std::optional<ApiError> refuse_part(const UploadChecksum& upload, std::optional<Algorithm> given);

// 1 to 10,000, or InvalidArgument.
Expected<int> part_number(const Request& request);

}  // namespace spotter::world::s3
