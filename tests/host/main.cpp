// Runs the tests in a mount namespace of their own, so that no mount is left behind however they
// end. Called with "host" it is `spotter host`, for the tests that want the verbs in a process.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cstdio>
#include <string_view>

#include "agent/host/host.hpp"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "host") {
    return spotter::command::host(argc - 1, argv + 1);
  }
  testing::InitGoogleTest(&argc, argv);
  if (::unshare(CLONE_NEWNS) == 0 &&
      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    std::perror("cannot make the mount namespace private");
    return 1;
  }
  return RUN_ALL_TESTS();
}
