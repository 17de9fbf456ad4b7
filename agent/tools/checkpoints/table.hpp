// An inventory as text and as JSON. No I/O.
#pragma once

#include <string>

#include "agent/guard/inventory.hpp"

namespace spotter::command {

std::string text_of(const guard::Inventory& inventory);
std::string json_of(const guard::Inventory& inventory);

}  // namespace spotter::command
