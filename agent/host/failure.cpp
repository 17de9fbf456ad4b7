#include "agent/host/failure.hpp"

#include <unistd.h>

#include <cerrno>

namespace spotter::act::host {
namespace {

struct Known {
  int error_number;
  const char* kind;
  const char* advice;  // nullptr: who_may()
};

constexpr Known known[] = {
    {ENOSPC, "storage-full", "; make room on it or enlarge the volume"},
    {EDQUOT, "storage-full", "; the quota is used up"},
    {EROFS, "device-read-only", "; the file system is read-only, see the kernel's log for why"},
    {EIO, "input-output", "; the disk does not answer properly, see the kernel's log"},
    {EPERM, "not-permitted", nullptr},
    {EACCES, "not-permitted", nullptr},
    {ENXIO, "device-absent", "; the disk is gone"},
    {ENODEV, "device-absent", "; the disk is gone"},
};

const char* who_may() {
  if (::getuid() != 0) return "; this needs root";
  if (::geteuid() != 0) return "; the trainer's user may not (on a share, the server decides that)";
  return "; not even root may (a share's server may know no root)";
}

}  // namespace

tl::unexpected<Error> fail_errno(std::error_code code, const std::string& what,
                                 std::string_view otherwise) {
  const std::string text = what + ": " + code.message();
  for (const auto& entry : known) {
    if (code.value() != entry.error_number) continue;
    return fail(entry.kind, text + (entry.advice != nullptr ? entry.advice : who_may()));
  }
  return fail(otherwise, text);
}

tl::unexpected<Error> fail_errno(int error_number, const std::string& what,
                                 std::string_view otherwise) {
  return fail_errno(std::error_code(error_number, std::generic_category()), what, otherwise);
}

}  // namespace spotter::act::host
