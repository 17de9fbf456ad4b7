// This process's environment, by name. The first counts of a name that occurs twice.
#pragma once

#include <map>
#include <string>

namespace spotter::config {

std::map<std::string, std::string> variables_of_process();

}  // namespace spotter::config
