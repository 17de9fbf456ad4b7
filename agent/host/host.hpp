// `spotter host VERB ...`: one piece of blocking local work, in a process that may be killed.
#pragma once

namespace spotter::command {

// argv[0] is the verb's predecessor ("host"). Prints one line of JSON: {"ok":true,...} or
// {"ok":false,"kind":"kebab-name","error":"..."}. Returns 0, 1 (ok is false), or 2 (kind
// "bad-request").
int host(int argc, char** argv);

}  // namespace spotter::command
