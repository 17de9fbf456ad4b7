// Requests to `spotter host` on its standard input, by whoever starts it.
#include "agent/wire/verbs.hpp"

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  const auto request = verbs::parse_request(bytes);
  if (!request) return must(!request.error().message.empty(), "a refusal has a reason");
  const std::string printed = verbs::to_json(*request);
  const auto again = verbs::parse_request(printed);
  must(again && verbs::to_json(*again) == printed, "a request printed reads the same");
}

}  // namespace spotter::fuzz
