// AWS's refusals: EC2's XML, the Query protocol's, JSON, or a proxy's page; and Parameter Store's
// answer, whose content is a secret.
#include "agent/aws/formats/aws_error.hpp"

#include <algorithm>

#include "agent/aws/formats/services.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  const CallError error = wire::parse_error(bytes);
  for (const int status : {0, 200, 400, 403, 404, 429, 500, 503}) {
    const auto kind = wire::classify(status, error.code);
    must(status != 429 || error.code == "DryRunOperation" || kind == CallError::Kind::Throttled,
         "429 is a throttle");
  }
  if (error.code.empty()) {
    must(error.message.size() <= 200, "of garbage only the beginning is kept");
    must(std::ranges::none_of(error.message, [](unsigned char byte) { return byte < 0x20; }),
         "and it stays one line");
  }
  const auto parameter = wire::decode<wire::GetParameter>(bytes);
  must(parameter || parameter.error().message.starts_with("the answer of GetParameter"),
       "a secret is never shown");
}

}  // namespace spotter::fuzz
