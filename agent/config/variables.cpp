#include "agent/config/variables.hpp"

#include <unistd.h>

#include <string_view>

namespace spotter::config {

std::map<std::string, std::string> variables_of_process() {
  std::map<std::string, std::string> variables;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view variable = *each;
    const auto equals = variable.find('=');
    if (equals != variable.npos)
      variables.emplace(variable.substr(0, equals), variable.substr(equals + 1));
  }
  return variables;
}

}  // namespace spotter::config
