// The path of a key's object below its bucket's folder. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spotter::world::s3 {

// The file names on the way to it, or nothing: such a key has no file of its name (an empty part,
// "." or "..", a part longer than a file name may be, a NUL), it is kept aside. So a key never
// leaves the folder.
std::optional<std::vector<std::string>> path_of(std::string_view key);

}  // namespace spotter::world::s3
