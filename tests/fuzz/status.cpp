// status.json, as `spotter status` shows it.
#include "agent/status.hpp"

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  const auto text = status_text(bytes, Time(Duration(1'000'000)));
  if (!text) return;
  must(nlohmann::json::parse(bytes, nullptr, false).is_object(), "a status is an object");
  must(text->starts_with("job") && text->ends_with('\n'), "and is shown in lines");
}

}  // namespace spotter::fuzz
