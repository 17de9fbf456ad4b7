// Does the same as RestrictSUIDSGID= of systemd.exec(5): openat2(2) is there no more, for good.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <iostream>
#include <iterator>
#include <string>

namespace spotter::io {

inline bool take_openat2_away() {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(steps)), steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
         ::syscall(SYS_openat2, -1, "", nullptr, 0) == -1 && errno == ENOSYS;
}

// Runs it in a child without that call; false, and its words on stderr, when it answers any.
inline bool is_good_without_openat2(const std::function<std::string()>& wrong_in) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string wrong = take_openat2_away() ? wrong_in() : "it is still there";
    std::cerr << wrong << std::endl;
    ::_exit(wrong.empty() ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace spotter::io
