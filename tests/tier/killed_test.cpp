// The real program, killed at each of its requests in turn.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "agent/io/child.hpp"
#include "tests/tier/fixture.hpp"

namespace spotter::tier {
namespace {

class Killed : public InS3 {
 protected:
  // Its exit status; -1: it was killed at that request, before it was answered.
  int run_program(const std::vector<std::string>& words, int request, bool carried_out) {
    std::atomic<pid_t> program = 0;
    std::atomic<int> count = 0;
    const auto kill = [&] {
      while (program == 0) ::usleep(100);
      ::kill(program, SIGKILL);
    };
    server_.refuse([&](const auto&) -> std::optional<s3_test::Reply> {
      const bool now = ++count == request;
      if (now) kill();
      if (now && !carried_out) return s3_test::refusal(400, "Killed");
      return std::nullopt;
    });
    std::vector<std::string> all = {SPOTTER_PROGRAM, "tier"};
    all.insert(all.end(), words.begin(), words.end());
    const io::Program executed(
        all, std::vector<std::string>{"AWS_ENDPOINT_URL_S3=" + server_.url(),
                                      "AWS_ACCESS_KEY_ID=AKID", "AWS_SECRET_ACCESS_KEY=secret",
                                      "HOME=/nonexistent", "PATH=/usr/bin:/bin"});
    program = io::fork_child([&] {
      executed.execute();
      return 127;
    });
    int status = 0;
    ::waitpid(program, &status, 0);
    server_.refuse({});
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::vector<std::string> words(const std::string& verb) const {
    return {
        verb,           "--mount", mount_.string(),           "--directory", "ckpt", "--folders",
        "checkpoint-*", "--to",    "s3://bucket/runs/one 1/", "--job",       "mine"};
  }
  int copying(int request, bool carried_out) {
    auto all = words("copy");
    all.insert(all.end(), {"--as", "root"});
    return run_program(all, request, carried_out);
  }
  int fetching(int request) {
    auto all = words("fetch");
    all.insert(all.end(), {"--", "/bin/true"});
    return run_program(all, request, true);
  }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "becomes a user by name: root";
  }
};

// S3 has then what it had before, or all of it: to a machine without the storage a checkpoint, and
// never a part of one.
TEST_F(Killed, ACopyIsThereWholeOrNot) {
  save("checkpoint-5");
  record_one("checkpoint-6", transformers("checkpoint-6"));
  const auto five = contents("checkpoint-5");
  const auto six = contents("checkpoint-6");
  const auto storage = mount_;
  int status = -1;
  int request = 0;
  for (bool carried_out = false; status != 0 && request < 200; carried_out = !carried_out) {
    request += carried_out ? 0 : 1;
    status = copying(request, carried_out);
    ASSERT_TRUE(status == 0 || status == -1) << status;
    lose_the_storage();
    const std::string name = fetched();
    ASSERT_TRUE(name == "checkpoint-5" || name == "checkpoint-6") << name;
    EXPECT_EQ(contents(name), name == "checkpoint-5" ? five : six) << request;
    expect_whole(name);
    EXPECT_TRUE(status != 0 || name == "checkpoint-6");
    std::filesystem::remove_all(mount_);
    mount_ = storage;
    lost_.pop_back();
    if (name == "checkpoint-6") break;
  }
  EXPECT_GT(request, static_cast<int>(six.size()));
  EXPECT_EQ(copying(0, false), 0);
}

TEST_F(Killed, AFolderIsFetchedWholeOrNot) {
  save("checkpoint-5");
  const auto five = contents("checkpoint-5");
  lose_the_storage();
  int status = -1;
  int request = 0;
  while (status != 0 && request < 200) {
    EXPECT_FALSE(exists("checkpoint-5")) << request;
    status = fetching(++request);
  }
  EXPECT_GT(request, static_cast<int>(five.size()));
  EXPECT_EQ(contents("checkpoint-5"), five);
  expect_whole("checkpoint-5");
}

// The command's words come through as they are: CLI11 takes some for lists.
TEST_F(Killed, ItBecomesTheCommand) {
  lose_the_storage();
  auto all = words("fetch");
  all.insert(all.end(), {"--", "/bin/sh", "-c", "[ \"$1$2\" = '[a,b]--' ]", "sh", "[a,b]", "--"});
  EXPECT_EQ(run_program(all, 0, true), 0);
  all.back() = "-";
  EXPECT_EQ(run_program(all, 0, true), 1);
}

// Its command is not begun.
TEST_F(Killed, WhatCannotBeFetchedStartsNoTrainer) {
  lose_the_storage();
  server_.trouble([](const auto&, auto& reply) { reply = s3_test::refusal(403, "AccessDenied"); });
  EXPECT_EQ(fetching(0), 74);
}

}  // namespace
}  // namespace spotter::tier
