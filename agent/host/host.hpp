// `spotter host`: one verb (wire/verbs.hpp), done in a process that may be killed.
#pragma once

#include "agent/host/verb.hpp"
#include "agent/wire/verbs.hpp"

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

// Words end with a NUL: asker, answer, the variables; the rest is the request, which has none.
std::string to_bytes(const VerbRequest& request);
Result<VerbRequest> parse_verb_request(std::string_view bytes);

std::vector<std::string> environment_of_this_process();

// Removes the file, becomes what it asks for (stdout, environment), and gives back the request's
// JSON. Ends this process when the asker ends.
Result<std::string> take_verb_request(const std::string& file);

}  // namespace spotter::command

// Finds the checkpoint that the trainer would resume from.
namespace spotter::act::host {

struct Verified {
  std::optional<std::uint64_t>
      newest;  // none: no checkpoint of ours that verifies; start from scratch
  std::filesystem::path path;
  std::vector<std::string> torn;  // where they are now, with the reason
  std::vector<std::string> said;  // what else a person should read
};

// If the trainer has no libspotter, the guard's record decides (guard/keeper.hpp): the directory
// becomes its newest generation, unless it is read-only. Here `newest` counts finished files, or is
// the number in a folder's name; none without a record of them. Without a guard, and if libspotter
// saves, it is verify_checkpoints().
Result<Verified> verify(const verbs::Verify& request);

// Reads every byte of the newest checkpoint, and of older ones as long as they are torn. Torn ones
// are moved aside to `torn-...`, unless it is read-only. A missing directory is one without
// checkpoints. With the rights of the trainer's user, since the directory is the trainer's; of a
// copy, which another image may have written, with those of the directory's owner. Kind:
// "verify-failed" (nothing is known: it cannot be read, or a newer Spotter wrote it).
Result<Verified> verify_checkpoints(const verbs::Verify& request);

}  // namespace spotter::act::host
