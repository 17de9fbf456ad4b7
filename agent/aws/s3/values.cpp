#include "agent/aws/s3/values.hpp"

namespace spotter::s3 {
namespace {

// In the order of Failure::Kind.
constexpr const char* sentences[] = {"there is no such bucket",
                                     "there is no such object",
                                     "permission is denied",
                                     "its server is not trusted",
                                     "it cannot be signed",
                                     "the object was replaced by another",
                                     "somebody else has written it",
                                     "the bytes are not those of its checksum",
                                     "S3 cannot be reached, or does not answer in time",
                                     "given up",
                                     "S3 refused"};

}  // namespace

std::string Failure::text() const {
  std::string text =
      "s3://" + bucket + "/" + key + ": " + sentences[static_cast<std::size_t>(kind)];
  std::string why = code;
  if (status != 0) why += (why.empty() ? "HTTP " : ", HTTP ") + std::to_string(status);
  if (!message.empty()) why += (why.empty() ? "" : ": ") + message;
  return why.empty() ? text : text + " (" + why + ")";
}

std::string_view Answer::header(std::string_view name) const {
  for (const auto& [each, value] : headers) {
    if (each == name) return value;
  }
  return {};
}

}  // namespace spotter::s3
