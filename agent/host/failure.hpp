// What went wrong with a piece of local work: an Error with a stable kind for the agent to decide
// on (kebab-case: "device-absent"; the headers list them), and words for the person who reads the
// journal.
#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <utility>

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

}  // namespace spotter::act::host
