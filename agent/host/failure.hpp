// What went wrong with a piece of local work: a stable name for the agent to decide on, and words
// for the person who reads the journal.
#pragma once

#include <string>
#include <string_view>
#include <system_error>
#include <tl/expected.hpp>
#include <utility>

namespace spotter::act::host {

struct Failure {
  std::string kind;   // stable, kebab-case: "device-absent"; the headers list them
  std::string error;  // what is wrong, and what to do
};

template <class T>
using Outcome = tl::expected<T, Failure>;

inline tl::unexpected<Failure> fail(std::string_view kind, std::string error) {
  return tl::unexpected<Failure>(Failure{std::string(kind), std::move(error)});
}

// A failed system call. Kinds: "storage-full" (ENOSPC, EDQUOT), "device-read-only" (EROFS),
// "input-output" (EIO), "not-permitted" (EPERM, EACCES), "device-absent" (ENXIO, ENODEV), else
// `otherwise`. `what` reads as "cannot write /mnt/x".
tl::unexpected<Failure> fail_errno(std::error_code code, const std::string& what,
                                   std::string_view otherwise = "host-error");
tl::unexpected<Failure> fail_errno(int error_number, const std::string& what,
                                   std::string_view otherwise = "host-error");

}  // namespace spotter::act::host
