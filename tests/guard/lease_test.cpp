// Leases say who writes to a file, where the file system gives them; elsewhere the close says it.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

#include "agent/guard/copying.hpp"
#include "tests/guard/folder.hpp"

namespace spotter::guard {
namespace {

// From here on no lease is given: the kernel answers as NFSv4's does without a delegation, or as
// FUSE's.
bool refuse_leases(unsigned answer) {
  constexpr unsigned command = offsetof(seccomp_data, args) + sizeof(std::uint64_t);
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, command),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETLEASE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(steps)), steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

class Leases : public Folder {
 protected:
  // Tells what a guard in a process without leases records of a file that is closed.
  int recorded_without(unsigned answer) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (!refuse_leases(answer)) ::_exit(9);
      Keeper mine = keeper();
      if (mine.is_written("last.bin")) ::_exit(1);
      auto captured = mine.capture([](const std::string&) { return false; });
      if (!captured) ::_exit(2);
      if (!mine.finish(*std::move(captured))) ::_exit(3);
      ::_exit(mine.record().row("last.bin") != nullptr ? 0 : 4);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

TEST_F(Leases, SayWhoWritesHere) {
  ASSERT_TRUE(has_leases(*keeper().place().own()));
  write("last.bin", "all of it");
  Keeper mine = keeper();
  EXPECT_FALSE(mine.is_written("last.bin"));
  const Descriptor writer(::open(path("last.bin").c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_TRUE(mine.is_written("last.bin"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(mount_ / ".spotter"),
                          std::filesystem::directory_iterator()),
            0)
      << "nothing is left of the question";
}

TEST_F(Leases, AFileSystemWithoutThemHidesNoCheckpoint) {
  for (const unsigned answer : {EAGAIN, EINVAL, ENOLCK}) {
    write("last.bin", "written, and closed");
    ASSERT_TRUE(keeper().begin());
    EXPECT_EQ(recorded_without(answer), 0) << answer;
  }
}

}  // namespace
}  // namespace spotter::guard
