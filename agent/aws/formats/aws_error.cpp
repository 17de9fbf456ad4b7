#include "agent/aws/formats/aws_error.hpp"

#include <algorithm>
#include <pugixml.hpp>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"

namespace spotter::wire {
namespace {

using Kind = CallError::Kind;

struct Codes {
  Kind kind;
  std::string_view codes;
  int first = 1, last = 0;  // and these statuses, with whichever code
};
// The first that fits decides. The SDKs' list, with EC2's own.
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
constexpr Codes known[] = {
    {Kind::DryRun, "DryRunOperation"},
    {Kind::Throttled,
     "RequestLimitExceeded Throttling ThrottlingException ThrottledException RequestThrottled "
     "RequestThrottledException TooManyRequestsException SlowDown BandwidthLimitExceeded "
     "EC2ThrottledException PriorRequestNotComplete TransactionInProgressException "
     "LimitExceededException ProvisionedThroughputExceededException "
     "SnapshotCreationPerVolumeRateExceeded ScalingActivityInProgress",
     429, 429},
    {Kind::ExpiredCredentials, "ExpiredToken ExpiredTokenException"},
    {Kind::Permission,
     "RequestExpired RequestTimeTooSkewed RequestInTheFuture AuthFailure SignatureDoesNotMatch "
     "InvalidSignatureException UnauthorizedOperation AccessDenied AccessDeniedException "
     "OptInRequired Blocked InvalidClientTokenId PendingVerification MissingAuthenticationToken "
     "UnrecognizedClientException"},
    {Kind::Transient,
     "InternalError InternalFailure InternalServerError ServiceUnavailable Unavailable "
     "RequestTimeout RequestTimeoutException ServerInternal",
     500, 999}};

std::string beginning(std::string_view body) {
  std::string text(body.substr(0, 200));
  std::ranges::replace_if(
      text, [](char letter) { return static_cast<unsigned char>(letter) < 0x20; }, ' ');
  return text;
}

CallError from_json(const Json& object) {
  CallError error;
  error.code = text_field(object, "__type");  // com.amazonaws.ssm#ParameterNotFound
  error.code.erase(0, error.code.find('#') == std::string::npos ? 0 : error.code.find('#') + 1);
  error.message = text_field(object, "message");
  if (error.message.empty()) error.message = text_field(object, "Message");
  return error;
}

CallError from_xml(const pugi::xml_node& root) {
  pugi::xml_node node = root.child("Errors").child("Error");  // EC2
  if (!node) node = root.child("Error");                      // the Query protocol
  CallError error;
  error.code = node.child_value("Code");
  error.message = node.child_value("Message");
  return error;
}

}  // namespace

CallError parse_error(std::string_view body, std::string_view type) {
  CallError error;
  const auto first = body.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && body[first] == '{') {
    const auto object = parse_json_object(body);
    if (object) error = from_json(*object);
    // ClientException:http://internal.amazon.com/coral/...
    if (error.code.empty()) error.code = type.substr(0, type.find(':'));
  } else {
    pugi::xml_document document;
    if (document.load_buffer(body.data(), body.size()))
      error = from_xml(document.document_element());
  }
  // The oldest of EC2's answers say whose fault it is in front.
  for (const std::string_view prefix : {"Client.", "Server."}) {
    if (error.code.starts_with(prefix)) error.code.erase(0, prefix.size());
  }
  if (error.code.empty()) error.message = beginning(body);
  return error;
}

CallError::Kind classify(int status, std::string_view code) {
  for (const Codes& each : known)
    if (is_among(code, each.codes) || (status >= each.first && status <= each.last))
      return each.kind;
  if (code.ends_with("NotFound") || code.ends_with("NotFoundException")) return Kind::NotFound;
  if (!code.empty()) return Kind::Other;
  if (status == 404) return Kind::NotFound;
  return status == 401 || status == 403 ? Kind::Permission : Kind::Other;
}

CallError unreadable(const Error& error, Repeatable repeatable) {
  return {.kind = repeatable == Repeatable::Read ? Kind::Unreadable : Kind::Unknown,
          .message = error.message,
          .status = 200,
          .attempts = 1};
}

}  // namespace spotter::wire
