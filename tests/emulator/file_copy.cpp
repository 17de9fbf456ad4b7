#include "tests/emulator/file_copy.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace spotter::emulator {

// cp(1) does FICLONE first, then copy_file_range between SEEK_DATA and SEEK_HOLE.
Result<void> copy_as_of_now(const std::filesystem::path& from, const std::filesystem::path& to) {
  const std::string partial = to.string() + ".partial";
  std::error_code failed;
  std::filesystem::remove_all(partial, failed);
  const std::string source = from.string();
  const char* const arguments[] = {"cp", "--archive",    "--reflink=auto", "--sparse=auto",
                                   "--", source.c_str(), partial.c_str(),  nullptr};
  pid_t pid = 0;
  const int problem =
      ::posix_spawnp(&pid, "cp", nullptr, nullptr, const_cast<char* const*>(arguments), environ);
  if (problem != 0) return failure(std::string("cannot run cp: ") + std::strerror(problem));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return failure("cp " + source + " " + partial + " failed; see above");
  std::filesystem::rename(partial, to, failed);
  if (failed) return failure("rename " + partial + ": " + failed.message());
  return {};
}

}  // namespace spotter::emulator
