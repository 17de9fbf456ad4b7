#include "agent/aws/settings/shared_config.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "agent/base/number_text.hpp"

namespace spotter::act {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string file_path(const Environment& environment, std::string_view variable,
                      std::string_view name) {
  const std::string given = environment.get(variable);
  if (!given.empty()) return given;
  return environment.get("HOME") + "/.aws/" + std::string(name);
}

std::string profile_name(const Environment& environment) {
  const std::string given = environment.get("AWS_PROFILE");
  return given.empty() ? "default" : given;
}

}  // namespace

Profile parse_profile(std::string_view text, std::string_view section) {
  Profile profile;
  bool inside = false;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = trimmed(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      inside = trimmed(line.substr(1, line.find(']') - 1)) == section;
      continue;
    }
    const auto equals = line.find('=');
    const bool nested = raw.front() == ' ' || raw.front() == '\t';
    if (!inside || nested || equals == std::string_view::npos) continue;
    const std::string_view name = trimmed(line.substr(0, equals));
    if (!name.empty()) profile[std::string(name)] = std::string(trimmed(line.substr(equals + 1)));
  }
  return profile;
}

Profile credentials_profile(const Environment& environment) {
  const std::string path = file_path(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
  return parse_profile(contents(path), profile_name(environment));
}

Profile config_profile(const Environment& environment) {
  const std::string text = contents(file_path(environment, "AWS_CONFIG_FILE", "config"));
  const std::string name = profile_name(environment);
  if (name != "default") return parse_profile(text, "profile " + name);
  Profile profile = parse_profile(text, "default");
  return profile.empty() ? parse_profile(text, "profile default") : profile;
}

}  // namespace spotter::act
