// Launch templates and their versions.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateLaunchTemplate.html
#pragma once

#include "tests/world/cloud.hpp"

namespace spotter::world {

struct TemplateReference {
  std::string id;  // or
  std::string name;
  std::string version = "$Default";  // a number, $Default or $Latest
};

class Templates {
 public:
  explicit Templates(Cloud& cloud) : cloud_(cloud) {}

  Expected<LaunchTemplate> create(const std::string& name, TemplateVersion data, Tags tags);
  // The next version; the default one stays what it is.
  Expected<TemplateVersion> add_version(const TemplateReference& of, TemplateVersion data);
  Expected<LaunchTemplate> remove(const TemplateReference& reference);
  Expected<LaunchTemplate> find(const TemplateReference& reference) const;
  Expected<TemplateVersion> version(const TemplateReference& reference) const;

 private:
  Cloud& cloud_;
};

}  // namespace spotter::world
