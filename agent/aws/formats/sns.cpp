#include "agent/aws/formats/sns.hpp"

#include "agent/aws/formats/ec2_xml.hpp"

namespace spotter::wire {
namespace {

// It must begin with a letter, a digit or a mark, and have no line break: else SNS refuses it all.
std::string plain(std::string_view text) {
  constexpr std::size_t longest = 100;
  std::string subject;
  for (const char each : text.substr(0, longest))
    subject += each >= ' ' && each <= '~' ? each : '?';
  return subject;
}

// Of arn:aws:sns:us-west-2:123456789012:training its region.
Region region_of(std::string_view arn) {
  for (int field = 0; field < 3; ++field) arn.remove_prefix(arn.find(':') + 1);
  return Region(arn.substr(0, arn.find(':')));
}

}  // namespace

Query encode(const Publish& request) {
  return {.service = "sns",
          .action = "Publish",
          .version = "2010-03-31",
          // A message that comes twice is better than one that does not come.
          .repeatable = Repeatable::Token,
          .parameters = {{"TopicArn", request.topic},
                         {"Subject", plain(request.subject)},
                         {"Message", request.message}},
          .region = region_of(request.topic)};
}

template <>
Result<std::string> decode<Publish>(std::string_view xml) {
  return read_answer(xml, "Publish", [](const Fields& fields) {
    return fields.child("PublishResult").text("MessageId");
  });
}

}  // namespace spotter::wire
