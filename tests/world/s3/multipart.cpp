#include "tests/world/s3/multipart.hpp"

#include <charconv>

namespace spotter::world::s3 {
namespace {

std::string raw_hexadecimal(const std::string& text) {
  std::string raw;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    int byte = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    raw += static_cast<char>(byte);
  }
  return raw;
}

tl::unexpected<ApiError> invalid_part() {
  return refusal("InvalidPart",
                 "One or more of the specified parts could not be found. The part may not have "
                 "been uploaded, or the specified entity tag may not match the part's entity tag.");
}

bool agrees(const CompletedPart& asked, const PartRow& uploaded) {
  if (asked.etag != uploaded.etag) return false;
  for (const auto& [algorithm, value] : asked.checksums) {
    const auto found = uploaded.checksums.find(algorithm);
    if (found == uploaded.checksums.end() || found->second != value) return false;
  }
  return true;
}

// The checksum of the parts' checksums. Each part has one: see refuse_part.
Checksums composite(const std::vector<const PartRow*>& parts, Algorithm algorithm) {
  std::string raw;
  for (const PartRow* part : parts)
    if (const auto found = part->checksums.find(algorithm); found != part->checksums.end())
      raw += parse_base64(found->second).value_or("");
  return {{algorithm, base64(digest(algorithm, raw)) + "-" + std::to_string(parts.size())}};
}

// "sha256", as S3 names it in its refusals.
std::string short_name(std::optional<Algorithm> algorithm) {
  return algorithm ? checksum_header_of(*algorithm).substr(std::string("x-amz-checksum-").size())
                   : "null";
}

}  // namespace

Expected<Completion> complete(const std::vector<CompletedPart>& asked,
                              const std::map<int, PartRow>& uploaded,
                              const UploadChecksum& checksum) {
  Completion result;
  std::vector<const PartRow*> parts;
  std::string raw;
  for (const CompletedPart& part : asked) {
    if (!result.parts.empty() && part.number <= result.parts.back())
      return refusal("InvalidPartOrder",
                     "The list of parts was not in ascending order. The parts list must be "
                     "specified in order by part number.");
    if (checksum.algorithm && !checksum.full_object &&
        !part.checksums.contains(*checksum.algorithm))
      return refusal("InvalidRequest", "The upload was created using a " +
                                           short_name(checksum.algorithm) +
                                           " checksum. The complete request must include the "
                                           "checksum for each part. It was missing for part " +
                                           std::to_string(part.number) + " in the request.");
    const auto found = uploaded.find(part.number);
    if (found == uploaded.end() || !agrees(part, found->second)) return invalid_part();
    if (!parts.empty() && parts.back()->size < least_part)
      return refusal("EntityTooSmall",
                     "Your proposed upload is smaller than the minimum allowed size");
    parts.push_back(&found->second);
    result.parts.push_back(part.number);
    result.sizes.push_back(found->second.size);
    raw += raw_hexadecimal(found->second.etag);
  }
  if (parts.empty()) return invalid_part();
  result.etag =
      hexadecimal(digest(Algorithm::Md5, raw)) + "-" + std::to_string(result.parts.size());
  if (checksum.algorithm && !checksum.full_object)
    result.checksums = composite(parts, *checksum.algorithm);
  return result;
}

std::optional<ApiError> refuse_part(const UploadChecksum& upload, std::optional<Algorithm> given) {
  if (upload.algorithm == given || (!given && upload.full_object)) return std::nullopt;
  return ApiError{"InvalidRequest", "Checksum Type mismatch occurred, expected checksum Type: " +
                                        short_name(upload.algorithm) +
                                        ", actual checksum Type: " + short_name(given)};
}

Expected<int> part_number(const Request& request) {
  const std::string text = request.parameter("partNumber");
  int number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || end != text.data() + text.size() || number < 1 ||
      number > most_parts)
    return refusal("InvalidArgument",
                   "Part number must be an integer between 1 and 10000, inclusive");
  return number;
}

}  // namespace spotter::world::s3
