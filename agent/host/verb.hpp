// The parts of all verbs: how they fail, the user as whom they work, the programs they run.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::act::host {

inline tl::unexpected<Error> fail(std::string_view kind, std::string message) {
  return failure(std::move(message), std::string(kind));
}

// A failed system call. Kinds: "storage-full" (ENOSPC, EDQUOT), "device-read-only" (EROFS),
// "input-output" (EIO), "not-permitted" (EPERM, EACCES), "device-absent" (ENXIO, ENODEV), else
// `otherwise`. `what` reads as "cannot write /mnt/x".
tl::unexpected<Error> fail_errno(std::error_code code, const std::string& what,
                                 std::string_view otherwise = "host-error");
tl::unexpected<Error> fail_errno(int error_number, const std::string& what,
                                 std::string_view otherwise = "host-error");

// The trainer's user, and doing things as that user.

struct User {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string home;
  std::vector<gid_t> groups;
};

// Kinds: "user-missing"; "not-permitted" when we are neither root nor that user.
Result<User> find_user(const std::string& name);

// While it lives, this process's file accesses are the user's (effective ids and groups); nothing
// changes when we are not root. The process must have one thread, as `spotter host` has.
class AsUser {
 public:
  explicit AsUser(const User& user);
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;
  ~AsUser();

  // While there is one, what is done is done with its user's rights alone (where that is root, with
  // root's).
  static bool active();

 private:
  bool changed_ = false;
  std::vector<gid_t> groups_;
};

// Could that user put a link, or another folder, in the place of a part of this path? Also where a
// part is not there yet. Then root does nothing by this path that the user may not do himself.
bool may_redirect(const User& user, const std::filesystem::path& path);

// Runs a program and waits for it: mkfs, fsck, git. In our own process group, so that who kills the
// group of `spotter host` kills it, too; and it dies with us.

struct ToolRequest {
  std::vector<std::string> argv;  // argv[0] is looked for in PATH and the sbin directories
  std::map<std::string, std::string> environment;  // the whole of it, but for PATH
  std::optional<User> user;                        // with its groups; none: as we are
  bool own_session = false;  // what it leaves behind (a file system's daemon) outlives our group
  int inherited_fd = -1;     // one that the program may use, by its number
};

struct ToolResult {
  int status = 0;      // exit status, or 128 + signal
  std::string output;  // the first MiB of stdout
  std::string errors;  // the first MiB of stderr
};

// Kind: "tool-missing" when there is no such program, with `package` to install; "host-error".
Result<ToolResult> run_tool(const ToolRequest& request, const std::string& package);

// The last lines of what a program said, for an error message.
std::string last_words(const ToolResult& result);

}  // namespace spotter::act::host
