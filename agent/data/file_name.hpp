// The path of an object's file, in mode `file`.
#pragma once

#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::data {

// Relative to the channel's folder: the key without `prefix`, which is the channel's or its
// manifest's. When the prefix ends inside a name ("data/part-"), the name stays whole. Fails for
// keys that cannot be files: "a//b", "../a", "a/", a name of more than 255 bytes.
Result<std::string> file_name(std::string_view prefix, std::string_view key);

}  // namespace spotter::data
