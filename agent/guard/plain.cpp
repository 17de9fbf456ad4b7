#include "agent/guard/plain.hpp"

#include <nlohmann/json.hpp>

namespace spotter::guard {

bool is_plain(const std::string& text) {
  return text.find_first_of("\"\\") == std::string::npos &&
         nlohmann::json::accept("\"" + text + "\"");
}

}  // namespace spotter::guard
