// A login shell whose profile is slow or waits for ever: said, and by name.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/wire/datagram.hpp"
#include "tests/supervise/stage.hpp"

namespace spotter::supervise {
namespace {

constexpr std::int64_t for_ever = 1'000'000'000;

class ShellStarts : public Stage {
 protected:
  // A profile that reads `lines` before the command.
  Spec with_profile(const std::string& lines, const std::string& command) {
    std::ofstream(path(".profile")) << lines;
    Spec what = spec(command);
    what.shell_patience = 0;
    return what;
  }
  bool is_awaited() { return std::filesystem::exists(path("shell-started")); }
  // The user's shell comes to the command at once.
  void expect_silence(const std::string& user) {
    auto quick = with_profile("true\n", "echo up; exec sleep 1000");
    quick.user = user;
    quick.shell_patience = for_ever;
    started(quick);
    ASSERT_TRUE(says("up"));
    EXPECT_TRUE(eventually([&] { return !is_awaited(); }));
    EXPECT_EQ(log(), "up\n");
  }
};

TEST_F(ShellStarts, AHookThatWaitsForEverIsSaidWithTheShellsName) {
  started(with_profile("sleep 1000\n", "echo up"));
  EXPECT_TRUE(says("the login shell /bin/sh of user '" + current_user() + "' runs for"));
  EXPECT_TRUE(says("has not come to trainer.command"));
  EXPECT_TRUE(says("/bin/sh -lxc true")) << "what to do";
  ASSERT_TRUE(kill(directory()));
  wait_for_end();
  EXPECT_FALSE(is_awaited());
  EXPECT_EQ(log().find("up"), std::string::npos);
}

TEST_F(ShellStarts, ASlowOneIsSaidTwiceAndTheCommandRuns) {
  started(with_profile("while [ ! -e \"$HOME/go\" ]; do sleep 0.05; done\n", "echo up"));
  ASSERT_TRUE(says("has not come to trainer.command"));
  std::ofstream(path("go")) << "";
  EXPECT_EQ(wait_for_end().exit_code, 0);
  EXPECT_NE(log().find("up\n"), std::string::npos) << log();
}

TEST_F(ShellStarts, WhatTookLongIsSaidOnceItIsOver) {
  auto slow = with_profile("while [ ! -e \"$HOME/go\" ]; do sleep 0.05; done\n",
                           "echo up; exec sleep 1000");
  started(slow);
  ASSERT_TRUE(says("has not come to trainer.command"));
  std::ofstream(path("go")) << "";
  EXPECT_TRUE(says("has come to trainer.command after"));
  EXPECT_FALSE(is_awaited());
}

TEST_F(ShellStarts, WhoOnlyOpensTheFifoIsNotTheShell) {
  started(with_profile("while [ ! -e \"$HOME/go\" ]; do sleep 0.05; done\n", "echo up"));
  ASSERT_TRUE(says("has not come to trainer.command"));
  for (int round = 0; round < 20; ++round) {  // a supervisor that looks in between sees some
    const int fifo = ::open(path("shell-started").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(fifo, 0) << "it has been taken away";
    ::close(fifo);
    usleep(10'000);
  }
  EXPECT_EQ(log().find("has come to"), std::string::npos) << log();
  std::ofstream(path("go")) << "";
  EXPECT_EQ(wait_for_end().exit_code, 0);
  EXPECT_NE(log().find("up\n"), std::string::npos) << log();
}

// A process may have the path already when the FIFO is removed, such as a second shell.
TEST_F(ShellStarts, WhoOpensTheFifoLateFindsAReader) {
  started(with_profile("while [ ! -e \"$HOME/go\" ]; do sleep 0.05; done\n", "exec sleep 1000"));
  const int found = ::open(path("shell-started").c_str(), O_PATH | O_CLOEXEC);
  ASSERT_GE(found, 0);
  std::ofstream(path("go")) << "";
  ASSERT_TRUE(says("has come to trainer.command after"));
  EXPECT_FALSE(is_awaited());
  const std::string same = "/proc/self/fd/" + std::to_string(found);
  const int fifo = ::open(same.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_GE(fifo, 0) << "it would wait for ever";
  ::close(fifo);
  ::close(found);
}

TEST_F(ShellStarts, NothingIsSaidOfAQuickOneAndNothingIsLeft) { expect_silence(current_user()); }

TEST_F(ShellStarts, AnotherUsersShellReportsToo) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can start a trainer as another user";
  expect_silence("nobody");
}

TEST_F(ShellStarts, TheAgentHasItFromTheSupervisor) {
  const int agent = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path("trainer.sock").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(agent, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const auto trainer = started(with_profile("sleep 1000\n", "true"));
  EXPECT_TRUE(is_ours(directory(), trainer.supervisor_pid));
  EXPECT_FALSE(is_ours(directory(), trainer.trainer_pid));
  std::string text(wire::longest_datagram, '\0');
  ssize_t size = -1;
  ASSERT_TRUE(eventually([&] { return (size = ::recv(agent, text.data(), text.size(), 0)) > 0; }));
  ::close(agent);
  const auto message = wire::parse_datagram(std::string_view(text).substr(0, size));
  ASSERT_TRUE(message);
  EXPECT_TRUE(message->of_guard);
  EXPECT_NE(message->note.value_or("").find("the login shell /bin/sh"), std::string::npos);
}

}  // namespace
}  // namespace spotter::supervise
