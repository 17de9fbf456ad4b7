#include "tests/world/batch/ecs_agent.hpp"

#include <charconv>

namespace spotter::world::batch {
namespace {

std::string user_data_of(const State& state, const Host& host) {
  const auto environment = state.environments.find(host.environment);
  if (environment == state.environments.end()) return {};
  const Json& resources = environment->second.resources;
  const auto reference = resources.find("launchTemplate");
  if (reference == resources.end() || !reference->is_object()) return {};
  const std::string id = reference->value("launchTemplateId", "");
  const std::string name = reference->value("launchTemplateName", "");
  for (const auto& [known, it] : state.world.cloud().templates) {
    if (known != id && (name.empty() || it.name != name)) continue;
    const std::string number = reference->value("version", std::to_string(it.default_version));
    for (const TemplateVersion& version : it.versions)
      if (std::to_string(version.number) == number ||
          (number == "$Default" && version.number == it.default_version) ||
          (number == "$Latest" && version.number == it.versions.back().number))
        return version.user_data;
  }
  return {};
}

}  // namespace

bool drains_at_notice(const State& state, const Host& host) {
  if (state.settings.drain_at_notice) return *state.settings.drain_at_notice;
  return user_data_of(state, host).find("ECS_ENABLE_SPOT_INSTANCE_DRAINING=true") !=
         std::string::npos;
}

// Durations are written like Go's; only seconds and minutes are known here.
Duration stop_timeout(const State& state, const Host& host) {
  constexpr std::string_view key = "ECS_CONTAINER_STOP_TIMEOUT=";
  const std::string text = user_data_of(state, host);
  const auto at = text.find(key);
  if (at == text.npos) return state.settings.stop_timeout;
  const char* const end = text.data() + text.size();
  Duration::rep number = 0;
  const auto [unit, error] = std::from_chars(text.data() + at + key.size(), end, number);
  if (error != std::errc{} || unit == end) return state.settings.stop_timeout;
  if (*unit == 's') return Duration{number * 1000};
  return *unit == 'm' ? Duration{number * 60000} : state.settings.stop_timeout;
}

}  // namespace spotter::world::batch
