#pragma once

#include <string>

namespace spotter::guard {

// JSON can hold it as it is: UTF-8, without control characters and quotes.
bool is_plain(const std::string& text);

}  // namespace spotter::guard
