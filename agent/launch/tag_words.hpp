// The words of a tag that the watcher writes down: "use=spot left=1/2". Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace spotter::launch {

// Word by word, each by what is before its "="; what has none is left out.
std::map<std::string, std::string, std::less<>> words_of_tag(std::string_view tag);

// As printf has it, of a number that is not long. `format` has one conversion, of a double.
std::string figure(const char* format, double value);

}  // namespace spotter::launch
