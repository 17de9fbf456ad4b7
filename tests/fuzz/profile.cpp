// ~/.aws/credentials and ~/.aws/config.
#include "agent/aws/settings/settings.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  for (const std::string section : {"default", "profile job"}) {
    const act::Profile profile = act::parse_sections(bytes)[section];
    std::string printed = "[" + section + "]\n";
    for (const auto& [key, value] : profile) {
      must(key.find('\n') == key.npos && value.find('\n') == value.npos, "a setting is one line");
      printed += key + " = " + value + "\n";
    }
    must(act::parse_sections(printed)[section] == profile, "a profile printed reads the same");
    must(act::parse_sections(printed).size() == 1, "and belongs to its section");
  }
}

}  // namespace spotter::fuzz
