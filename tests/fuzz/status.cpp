// status.json, as `spotter status` shows it.
#include "agent/wire/status.hpp"

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  const auto text = wire::status_text(bytes, Time(Duration(1'000'000)));
  if (!text) return;
  must(nlohmann::json::parse(bytes, nullptr, false).is_object(), "a status is an object");
  must(text->empty() || text->ends_with('\n'), "and is shown in lines");
  for (const char each : *text)
    must(each == '\n' || static_cast<unsigned char>(each) >= ' ', "none of which moves a cursor");
  std::size_t at = 0;
  for (auto end = text->find('\n'); end != text->npos; at = end + 1, end = text->find('\n', at))
    must(end - at <= 80, "and each fits");
}

}  // namespace spotter::fuzz
