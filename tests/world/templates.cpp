#include "tests/world/templates.hpp"

#include <algorithm>
#include <charconv>

namespace spotter::world {

Expected<LaunchTemplate> Templates::create(const std::string& name, TemplateVersion data,
                                           Tags tags) {
  if (find({.id = {}, .name = name})) {
    return refusal("InvalidLaunchTemplateName.AlreadyExistsException",
                   "Launch template name already in use.");
  }
  data.created = cloud_.now;
  LaunchTemplate made{.id = "lt-0" + cloud_.random.hex(16),
                      .name = name,
                      .created = cloud_.now,
                      .versions = {std::move(data)},
                      .tags = std::move(tags)};
  cloud_.record("template-created", made.id, name);
  return cloud_.templates[made.id] = made;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateLaunchTemplateVersion.html
Expected<TemplateVersion> Templates::add_version(const TemplateReference& of,
                                                 TemplateVersion data) {
  const auto found = find(of);
  if (!found) return tl::unexpected(found.error());
  LaunchTemplate& it = cloud_.templates[found->id];
  data.number = it.versions.back().number + 1;
  data.created = cloud_.now;
  cloud_.record("template-version-created", it.id, std::to_string(data.number));
  it.versions.push_back(data);
  return data;
}

Expected<LaunchTemplate> Templates::remove(const TemplateReference& reference) {
  auto found = find(reference);
  if (!found) return found;
  cloud_.record("template-deleted", found->id, found->name);
  cloud_.templates.erase(found->id);
  return found;
}

Expected<LaunchTemplate> Templates::find(const TemplateReference& reference) const {
  for (const auto& [id, it] : cloud_.templates) {
    if (id == reference.id || (reference.id.empty() && it.name == reference.name)) return it;
  }
  if (!reference.id.empty()) {
    return refusal(
        "InvalidLaunchTemplateId.NotFound",
        "The specified launch template, with template ID " + reference.id + ", does not exist.");
  }
  return refusal(
      "InvalidLaunchTemplateName.NotFoundException",
      "The specified launch template, with template name " + reference.name + ", does not exist.");
}

Expected<TemplateVersion> Templates::version(const TemplateReference& reference) const {
  const auto found = find(reference);
  if (!found) return tl::unexpected(found.error());
  const std::string& wanted = reference.version;
  int number = found->default_version;
  if (wanted == "$Latest") {
    number = found->versions.back().number;
  } else if (wanted != "$Default" && !wanted.empty()) {
    number = -1;
    const char* const end = wanted.data() + wanted.size();
    if (std::from_chars(wanted.data(), end, number).ptr != end) number = -1;
  }
  const auto version = std::find_if(found->versions.begin(), found->versions.end(),
                                    [&](const TemplateVersion& it) { return it.number == number; });
  if (version != found->versions.end()) return *version;
  return refusal("InvalidLaunchTemplateId.VersionNotFound",
                 "Could not find the specified version " + wanted + " for the launch template.");
}

}  // namespace spotter::world
