// This process's environment, by name. Of a name that occurs twice the first counts.
#pragma once

#include <map>
#include <string>

namespace spotter::config {

std::map<std::string, std::string> variables_of_process();

}  // namespace spotter::config
