// User data that attacks whoever serves: the whole of it as an ordinary user's, and the same beside
// root's own files, to see that each attack is one.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/emulator/serve_fixture.hpp"

namespace spotter::emulator {
namespace {
namespace fs = std::filesystem;

struct Attack {
  const char* name;
  const char* command;         // ends with 0 where it succeeds
  bool alone_suffices = true;  // without isolation it does
};

// $HOME, $ELSEWHERE: folders of the user who serves. $DIR: the emulator's.
constexpr Attack attacks[] = {
    {"reads-a-secret", "cat \"$HOME/.ssh/id\""},
    {"finds-a-secret-by-another-path", "cat /proc/self/root\"$HOME/.ssh/id\""},
    {"writes-elsewhere", "echo evil >>\"$ELSEWHERE/file\""},
    {"makes-files-elsewhere", "touch \"$ELSEWHERE/new\""},
    {"takes-names-in-tmp", "test -e \"$BESIDE\""},
    {"reads-the-keys", "cat \"$DIR/credentials\""},
    {"reads-the-keys-nearby", "cat ../../credentials"},
    {"writes-an-object", "mkdir \"$DIR/s3/evil\""},
    {"has-the-console-written-elsewhere",
     "rm -f console.log && ln -s \"$ELSEWHERE/file\" console.log"},
    {"removes-devices", "rm -r devices/disk/by-id"},
    {"has-devices-made-elsewhere", "mv devices old && ln -s \"$ELSEWHERE\" devices"},
    {"sees-the-server", "kill -0 \"$SERVER\""},
    {"uncovers-home", "umount \"$HOME\" && cat \"$HOME/.ssh/id\"", false},
    {"uncovers-home-with-rights",
     "unshare --user --map-root-user --mount sh -c 'umount -l \"$HOME\"; cat \"$HOME/.ssh/id\"'",
     false},
    {"makes-it-writable",
     "unshare --user --map-root-user --mount sh -c "
     "'mount -o remount,bind,rw /; echo evil >>\"$ELSEWHERE/file\"'",
     false},
    {"enters-the-first-namespaces", "nsenter --target 1 --mount --user cat \"$HOME/.ssh/id\"",
     false},
};

class Isolation : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, who becomes an ordinary user";
    home_ = made("/tmp/spotter-home-XXXXXX");
    fs::create_directory(home_ / ".ssh");
    write(home_ / ".ssh/id", "a secret");
    write(home_ / ".profile", "mine");
    elsewhere_ = made(fs::path("/srv/spotter-elsewhere-XXXXXX"));
    write(elsewhere_ / "file", "mine");
    before_ = ::getenv("HOME");
    ::setenv("HOME", home_.c_str(), 1);
  }
  void TearDown() override {
    if (home_.empty()) return;
    ::setenv("HOME", before_.c_str(), 1);
    fs::remove_all(home_);
    fs::remove_all(elsewhere_);
  }

  static fs::path made(std::string pattern) {
    const fs::path path = ::mkdtemp(pattern.data());
    own(path);
    return path;
  }
  static void own(const fs::path& path) {
    if (::chown(path.c_str(), 1234, 1234) != 0) throw std::runtime_error("chown");
  }
  static void write(const fs::path& path, const std::string& text) {
    std::ofstream(path) << text;
    own(path);
    own(path.parent_path());
    ::chmod(path.c_str(), 0600);
  }

  // The names of the attacks that succeeded, each on a line.
  std::string carry_out(Served& served) {
    std::string script = "#!/bin/sh\nexec 2>/dev/null\nELSEWHERE=" + elsewhere_.string() +
                         "\nDIR=" + served.folder().string() + "\nBESIDE=" + home_.string() +
                         "/.ssh\nSERVER=" + std::to_string(served.pid()) +
                         "\nexport ELSEWHERE\n"
                         "echo evil >>\"$HOME/.profile\"\n";
    for (const Attack& each : attacks)
      script += std::string("if ( ") + each.command + " ) >/dev/null; then echo " + each.name +
                " >>won; fi\n";
    const std::string id = served.run_instance(script + "touch tried\n");
    EXPECT_TRUE(eventually([&] { return exists(served.instance(id) / "tried"); }))
        << read_file(served.instance(id) / "console.log");
    return read_file(served.instance(id) / "won");
  }

  fs::path home_, elsewhere_;
  std::string before_;
};

TEST_F(Isolation, UserDataReachesNothingOfWhoServes) {
  Served served("isolated");
  EXPECT_EQ(carry_out(served), "");
  EXPECT_EQ(read_file(home_ / ".profile"), "mine");
  EXPECT_EQ(read_file(elsewhere_ / "file"), "mine");
  served.signal(SIGTERM);
  EXPECT_EQ(served.wait(), 0);
}

TEST_F(Isolation, WithoutItTheAttacksSucceed) {
  Served served("user");
  const std::string won = carry_out(served);
  EXPECT_NE(read_file(home_ / ".profile"), "mine");
  for (const Attack& each : attacks)
    EXPECT_EQ(won.find(std::string(each.name) + "\n") != won.npos, each.alone_suffices)
        << each.name;
}

// A folder that its user names is seen, and written to; programs of PATH are seen.
TEST_F(Isolation, WhatIsNamedIsShared) {
  fs::create_directory(home_ / "bin");
  std::ofstream(home_ / "bin/own") << "#!/bin/sh\ntouch \"$SHARED/reached\"\n";
  fs::permissions(home_ / "bin/own", fs::perms::all);
  fs::create_directory(home_ / "shared");
  own(home_ / "shared");
  const std::string path = ::getenv("PATH");
  ::setenv("PATH", ((home_ / "bin").string() + ":" + path).c_str(), 1);
  {
    const std::string shared = (home_ / "shared").string();
    Served served("isolated", {"--bind", shared, "--environment", "SHARED=" + shared});
    served.run_instance("#!/bin/sh\nown\n");
    EXPECT_TRUE(eventually([&] { return exists(home_ / "shared/reached"); }));
  }
  ::setenv("PATH", path.c_str(), 1);
}

TEST_F(Isolation, APathThatIsNotThereOpensNothingElse) {
  Served served("isolated", {"--bind", (home_ / "projcet").string()});
  EXPECT_EQ(WEXITSTATUS(served.wait()), 1) << "it does not serve";
}

}  // namespace
}  // namespace spotter::emulator
