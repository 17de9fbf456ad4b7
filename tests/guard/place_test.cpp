// Files are reached without ever following a link, also where a sandbox takes openat2(2) away.
#include "agent/guard/place.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

// As RestrictSUIDSGID= of systemd.exec(5).
bool take_openat2_away() {
  sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(steps), steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
         ::syscall(SYS_openat2, -1, "", nullptr, 0) == -1 && errno == ENOSYS;
}

// What was wrong; empty: nothing.
std::string wrong_in(const fs::path& root) {
  const auto place = Place::open({root, "saved/here", "*.bin"});
  if (!place) return place.error().message;
  const auto fails_with = [&place](const std::string& name, int flags, int one, int other) {
    return !place->open(name, flags) && (errno == one || errno == other);
  };
  if (!place->open("", O_RDONLY | O_DIRECTORY)) return "the directory itself is not opened";
  if (!place->open("sub/epoch.bin", O_RDONLY)) return "a file in a folder is not opened";
  const auto seen = place->list();
  if (!seen || seen->size() != 1 || seen->front().name != "sub/epoch.bin") return "not listed";
  if (!fails_with("link.bin", O_RDONLY, ELOOP, ELOOP)) return "a link is followed";
  if (!place->open("link.bin", O_PATH | O_NOFOLLOW)) return "the link itself is not opened";
  if (!fails_with("away/secret.bin", O_RDONLY, ELOOP, ENOTDIR))
    return "a folder's link is followed";
  if (!fails_with("../../../x", O_RDONLY, EXDEV, EXDEV)) return "it leaves the mount";
  if (!fails_with("none.bin", O_RDONLY, ENOENT, ENOENT)) return "what is not there is opened";
  return {};
}

class Places : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/spotter-place-XXXXXX";
    root_ = ::mkdtemp(name);
    fs::create_directories(root_ / "saved/here/sub");
    fs::create_directories(root_ / "outside");
    for (const char* file : {"saved/here/sub/epoch.bin", "outside/secret.bin"})
      std::ofstream(root_ / file) << "x";
    fs::create_symlink(root_ / "outside/secret.bin", root_ / "saved/here/link.bin");
    fs::create_directory_symlink(root_ / "outside", root_ / "saved/here/away");
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path root_;
};

TEST_F(Places, FollowsNoLinkAndStaysBelowTheMount) { EXPECT_EQ(wrong_in(root_), ""); }

TEST_F(Places, DoesSoWithoutOpenat2) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string wrong = take_openat2_away() ? wrong_in(root_) : "it is still there";
    std::cerr << wrong << std::endl;
    ::_exit(wrong.empty() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace spotter::guard
