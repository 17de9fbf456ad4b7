// The parts of all verbs: how they fail, the user as whom they work, the programs they run.
#pragma once

#include <sys/types.h>

#include "agent/io/safe_directory.hpp"
#include "agent/supervise/account.hpp"

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

// The same Result, whose error, if it has one, is fail_errno()'s.
template <class T>
Result<T> or_fail(Result<T, std::error_code> result, const std::string& what,
                  std::string_view otherwise = "host-error") {
  return std::move(result).map_error(
      [&](std::error_code it) { return fail_errno(it, what, otherwise).value(); });
}
Result<void> make_directories(const fs::path& path, std::string_view otherwise = "host-error");
Result<io::SafeDirectory> open_directory(const fs::path& path);
Result<io::SafeDirectory> make_folder_at(const fs::path& path);  // in the one that is there

// The trainer's user, and doing things as that user.
using User = io::User;

using supervise::find_user;

// While it lives, this process's file accesses are the user's (effective ids and groups); nothing
// changes when we are not root. It holds for all threads: no other one may open files meanwhile.
class AsUser : Pinned {
 public:
  explicit AsUser(const User& user);
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
bool may_redirect(const User& user, const fs::path& path);

// Runs a program and waits for it: mkfs, fsck, git. In our own process group, so that who kills the
// group of `spotter host` kills it, too.
using ToolRequest = io::ToolRequest;
using ToolResult = io::ToolResult;

// Kind: "tool-missing" when there is no such program, with `package` to install; "host-error".
Result<ToolResult> run_tool(const ToolRequest& request, const std::string& package);

// The last lines of what a program said, for an error message.
std::string last_words(const ToolResult& result);

// One of these is in a program's words.
bool says(std::string_view words, std::initializer_list<const char*> phrases);

// Takes apart what git prints with -z: each name ends with a NUL.
std::vector<std::string> names_in(std::string_view text);
// A small file of Git LFS's that stands in the place of another.
bool is_pointer(const fs::path& file);

}  // namespace spotter::act::host
