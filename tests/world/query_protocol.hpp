// Answers in the form of AWS's Query protocol, as STS and IAM write them. Source:
// https://smithy.io/2.0/aws/protocols/aws-query-protocol.html
#pragma once

#include <string>

#include "tests/world/world.hpp"
#include "tests/world/xml.hpp"

namespace spotter::world {

// `space`: the service's XML namespace.
inline Reply query_refused(Cloud& cloud, const std::string& space, const ApiError& why) {
  Xml xml;
  xml.element("Error", [&] {
    xml.text("Type", "Sender");
    xml.text("Code", why.code);
    xml.text("Message", why.message);
  });
  xml.text("RequestId", cloud.random.uuid());
  return {.status = why.http_status,
          .body = "<ErrorResponse xmlns=\"" + space + "\">" + xml.str() + "</ErrorResponse>"};
}

// `result`: what is inside of <ACTIONResult>; an operation without an output has none.
inline Reply query_answered(Cloud& cloud, const std::string& space, const std::string& action,
                            const std::string& result) {
  Xml xml;
  xml.element("ResponseMetadata", [&] { xml.text("RequestId", cloud.random.uuid()); });
  const std::string inner =
      result.empty() ? "" : "<" + action + "Result>" + result + "</" + action + "Result>";
  return {.body = "<" + action + "Response xmlns=\"" + space + "\">" + inner + xml.str() + "</" +
                  action + "Response>"};
}

}  // namespace spotter::world
