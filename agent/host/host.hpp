// `spotter host`: one verb (wire/verbs.hpp), done in a process that may be killed.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::command {

// argv[0] is "host". Does what a request of stdin asks for.
int host(int argc, char** argv);

// Prints one line of JSON: {"ok":true,...} or {"ok":false,"kind":"kebab-name","error":"..."}.
// Returns 0, 1 (ok is false), or 2 (kind "bad-request").
int do_request(std::string_view json);

// Hands a verb of `spotter host` to another process: its request and variables are in a file that
// only root can read, for secrets are among them.

struct VerbRequest {
  pid_t asker = 0;                       // the verb does not outlive it
  std::string answer;                    // a file that is there: what the verb prints
  std::vector<std::string> environment;  // NAME=value: all of it
  std::string json;                      // verbs::Request
};

// Words end with a NUL: asker, answer, the count of variables, these; the rest is the request.
std::string to_bytes(const VerbRequest& request);
Result<VerbRequest> parse_verb_request(std::string_view bytes);

std::vector<std::string> environment_of_this_process();

// Removes the file, becomes what it asks for (stdout, environment), and gives back the request's
// JSON. Ends this process when the asker ends.
Result<std::string> take_verb_request(const std::string& file);

}  // namespace spotter::command
