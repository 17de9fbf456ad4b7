// Children that end well, badly, late, or not at all: none of them blocks us or is left behind.
#include "agent/io/process.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <memory>

#include "agent/io/files.hpp"

namespace spotter::io {
namespace {

using namespace std::chrono_literals;
using End = ProcessResult::End;

asio::awaitable<void> keep(ProcessRequest request, std::optional<ProcessResult>& result) {
  auto running = run(std::move(request));
  result = co_await std::move(running);
}

ProcessResult run_alone(ProcessRequest request) {
  asio::io_context context;
  std::optional<ProcessResult> result;
  asio::co_spawn(context, keep(std::move(request), result), asio::detached);
  context.run();
  EXPECT_TRUE(result.has_value());
  return result.value_or(ProcessResult{});
}

ProcessResult shell(const std::string& script) {
  return run_alone({.argv = {"/bin/sh", "-c", script}});
}

bool no_child_left() {
  errno = 0;
  return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
}

// A process that has ended but is nobody's child yet reaped still answers kill(0).
bool gone(pid_t pid) {
  for (int i = 0; i < 500; ++i) {
    if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
    const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
    if (stat && stat->find(") Z") != std::string::npos) return true;
    ::usleep(10'000);
  }
  return false;
}

TEST(Process, KeepsTheTwoStreamsApart) {
  const auto result = shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(result.end, End::Exited);
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_TRUE(no_child_left());
}

TEST(Process, ThatDoesNotExistIsReportedAsSuch) {
  const auto result = run_alone({.argv = {"/no/such/program"}});
  EXPECT_EQ(result.end, End::NotStarted);
  EXPECT_EQ(result.status, ENOENT);
  EXPECT_EQ(run_alone({}).end, End::NotStarted);
  EXPECT_TRUE(no_child_left());
}

TEST(Process, GetsItsInputEnvironmentAndDirectory) {
  const auto result =
      run_alone({.argv = {"/bin/sh", "-c", "cat; echo $COLOUR; pwd; echo ${HOME-none}"},
                 .environment = std::vector<std::string>{"COLOUR=green"},
                 .stdin_text = "hello\n",
                 .directory = "/usr"});
  EXPECT_EQ(result.output, "hello\ngreen\n/usr\nnone\n");
}

TEST(Process, OutputBeyondTheLimitIsReadAndDropped) {
  const auto result = run_alone(
      {.argv = {"/bin/sh", "-c", "yes | head -c 1000000; echo done >&2"}, .output_limit = 1000});
  EXPECT_EQ(result.end, End::Exited);
  EXPECT_EQ(result.output.size(), 1000U);
  EXPECT_TRUE(result.output_cut);
  EXPECT_FALSE(result.errors_cut);
  EXPECT_EQ(result.errors, "done\n");
}

TEST(Process, KilledBySomebodyElseSaysTheSignal) {
  const auto result = shell("kill -9 $$");
  EXPECT_EQ(result.end, End::Signalled);
  EXPECT_EQ(result.status, SIGKILL);
}

TEST(Process, PastItsTimeIsAskedToEnd) {
  const auto result =
      run_alone({.argv = {"/bin/sh", "-c", "trap 'echo bye; exit 5' TERM; sleep 60 & wait"},
                 .timeout = 300ms,
                 .kill_grace = 20s});
  EXPECT_EQ(result.end, End::TimedOut);
  EXPECT_EQ(result.status, 5);
  EXPECT_EQ(result.output, "bye\n");
  EXPECT_TRUE(no_child_left());
}

TEST(Process, ThatIgnoresTheRequestIsKilledWithItsChildren) {
  const auto result = run_alone(
      {.argv = {"/bin/sh", "-c", "trap '' TERM; sleep 600 & echo $!; while :; do sleep 1; done"},
       .timeout = 300ms,
       .kill_grace = 100ms});
  EXPECT_EQ(result.end, End::TimedOut);
  EXPECT_EQ(result.status, SIGKILL);
  ASSERT_FALSE(result.output.empty());
  EXPECT_TRUE(gone(std::atoi(result.output.c_str())));
  EXPECT_TRUE(no_child_left());
}

TEST(Process, ItsBackgroundChildrenEndWithIt) {
  const auto result = shell("sleep 600 & echo $!");
  EXPECT_EQ(result.end, End::Exited);
  EXPECT_TRUE(gone(std::atoi(result.output.c_str())));
}

TEST(Process, CancelledBetweenIsEndedAndReaped) {
  asio::io_context context;
  asio::cancellation_signal abandon;
  std::optional<ProcessResult> result;
  asio::co_spawn(context, keep({.argv = {"sleep", "600"}}, result),
                 asio::bind_cancellation_slot(abandon.slot(), asio::detached));
  asio::steady_timer timer(context, 100ms);
  timer.async_wait([&](auto) { abandon.emit(asio::cancellation_type::terminal); });
  context.run();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->end, End::Cancelled);
  EXPECT_EQ(result->status, SIGTERM);
  EXPECT_TRUE(no_child_left());
}

TEST(Process, DoesNotOutliveItsContext) {
  auto context = std::make_unique<asio::io_context>();
  std::optional<ProcessResult> result;
  asio::co_spawn(*context, keep({.argv = {"sleep", "600"}}, result), asio::detached);
  context->run_for(100ms);
  context.reset();
  EXPECT_FALSE(result.has_value());
  EXPECT_TRUE(no_child_left());
}

TEST(Process, ManyAtOnceDoNotMixUpTheirAnswers) {
  asio::io_context context;
  std::vector<std::optional<ProcessResult>> results(20);
  for (std::size_t i = 0; i < results.size(); ++i) {
    ProcessRequest request{.argv = {"/bin/sh", "-c", "echo " + std::to_string(i)}};
    asio::co_spawn(context, keep(std::move(request), results[i]), asio::detached);
  }
  context.run();
  for (std::size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(results[i].has_value());
    EXPECT_EQ(results[i]->output, std::to_string(i) + "\n");
  }
}

TEST(LastLines, AreWholeAndSayWhyAProgramFailed) {
  EXPECT_EQ(last_lines("", 10), "");
  EXPECT_EQ(last_lines("one\n", 10), "one");
  EXPECT_EQ(last_lines("one\ntwo\nthree\n\n", 100), "one\ntwo\nthree");
  EXPECT_EQ(last_lines("one\ntwo\nthree\n", 9), "two\nthree");
  EXPECT_EQ(last_lines("one\ntwo\nthree\n", 8), "three");
  EXPECT_EQ(last_lines("one\nthe user is not there", 8), "the user");
  const std::string loader =
      "/usr/bin/spotter: /lib64/libcurl.so.4: no version information available (required by "
      "/usr/bin/spotter)\n";
  EXPECT_EQ(last_lines(loader + loader + "spotter supervise: no user ml", 100),
            "spotter supervise: no user ml");
}

}  // namespace
}  // namespace spotter::io
