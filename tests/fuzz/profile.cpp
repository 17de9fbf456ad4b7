// ~/.aws/credentials and ~/.aws/config.
#include "agent/aws/settings/settings.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  for (const std::string_view section : {"default", "profile job"}) {
    const act::Profile profile = act::parse_profile(bytes, section);
    std::string printed = "[" + std::string(section) + "]\n";
    for (const auto& [key, value] : profile) {
      must(key.find('\n') == key.npos && value.find('\n') == value.npos, "a setting is one line");
      printed += key + " = " + value + "\n";
    }
    must(act::parse_profile(printed, section) == profile, "a profile printed reads the same");
    must(act::parse_profile(printed, "another").empty(), "and belongs to its section");
  }
}

}  // namespace spotter::fuzz
