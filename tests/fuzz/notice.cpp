// The notice and the pace, as libspotter reads them in the trainer. It reads files, so the input is
// put in one: in the working directory, which scripts/fuzz makes for the run and removes.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.hpp"
#include "trainer/library/link.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  std::ofstream("notice", std::ios::binary | std::ios::trunc) << bytes;
  const checkpoint::Link link("", "notice", "notice");
  const auto advice = link.advice();
  must(!advice.every || advice.every->count() >= 0, "no interval is negative");
  const auto notice = link.notice();
  const auto document = nlohmann::json::parse(bytes, nullptr, false);
  must(notice.has_value() == document.is_object(), "a notice is a JSON object, whole");
  if (!notice) return;
  if (notice->deadline) {
    const nlohmann::json written = document.value("deadline_boottime_ms", nlohmann::json());
    must(written == notice->deadline->count(), "the deadline is the one that is written");
  }
}

}  // namespace spotter::fuzz
