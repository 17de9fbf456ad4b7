#include "agent/aws/s3/values.hpp"

namespace spotter::s3 {
namespace {

const char* sentence(Failure::Kind kind) {
  switch (kind) {
    case Failure::Kind::NoSuchBucket:
      return "there is no such bucket";
    case Failure::Kind::NoSuchKey:
      return "there is no such object";
    case Failure::Kind::Permission:
      return "permission is denied";
    case Failure::Kind::Untrusted:
      return "its server is not trusted";
    case Failure::Kind::NoCredentials:
      return "it cannot be signed";
    case Failure::Kind::Changed:
      return "the object was replaced by another";
    case Failure::Kind::Exists:
      return "somebody else has written it";
    case Failure::Kind::Corrupt:
      return "the bytes are not those of its checksum";
    case Failure::Kind::Unavailable:
      return "S3 cannot be reached, or does not answer in time";
    case Failure::Kind::GivenUp:
      return "given up";
    case Failure::Kind::Refused:
      break;
  }
  return "S3 refused";
}

}  // namespace

std::string Failure::text() const {
  std::string text = "s3://" + bucket + "/" + key + ": " + sentence(kind);
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
