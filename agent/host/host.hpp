// `spotter host`: one verb (wire/verbs.hpp), done in a process that may be killed.
#pragma once

#include <string_view>

namespace spotter::command {

// argv[0] is "host". Does what a request of stdin asks for.
int host(int argc, char** argv);

// Prints one line of JSON: {"ok":true,...} or {"ok":false,"kind":"kebab-name","error":"..."}.
// Returns 0, 1 (ok is false), or 2 (kind "bad-request").
int do_request(std::string_view json);

}  // namespace spotter::command
