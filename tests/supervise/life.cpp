// A trainer's beginning and end under supervision.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "agent/supervise/processes.hpp"
#include "agent/supervise/run_directory.hpp"
#include "tests/supervise/stage.hpp"

namespace spotter::supervise {
namespace {

class Life : public Stage {
 protected:
  // A trainer that ends, and could not be rid of this process.
  void end_leaving(const Process& process, const std::string& boot) {
    started(spec("exit 0"));
    wait_for_end();
    auto end = nlohmann::json::parse(read_file(path("ended.json")));
    EXPECT_EQ(end["boot_id"], boot_id());
    EXPECT_EQ(end["left_over"], nlohmann::json::array());
    end["boot_id"] = boot;
    end["left_over"].push_back({{"pid", process.pid}, {"start_ticks", process.start_ticks}});
    std::ofstream(path("ended.json")) << end;
  }
};

TEST_F(Life, KeepsTheExitStatusUntilItIsCollected) {
  EXPECT_TRUE(nothing_there());
  const auto trainer = started(spec("exit 75"));
  const Ended end = wait_for_end();
  EXPECT_EQ(end.exit_code, 75);
  EXPECT_FALSE(end.signal);
  EXPECT_EQ(end.trainer_pid, trainer.trainer_pid);
  EXPECT_EQ(end.job, "story");
  EXPECT_GE(end.ran_ms, 0);
  EXPECT_TRUE(end.left_over.empty());
  ASSERT_TRUE(collect(directory()));
  EXPECT_TRUE(nothing_there());
}

TEST_F(Life, NamesTheSignalThatEndedIt) {
  started(spec("kill -KILL $$"));
  const Ended end = wait_for_end();
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_FALSE(end.exit_code);
}

TEST_F(Life, IsSeenWhileItRuns) {
  const auto trainer = started(spec("echo up; exec sleep 1000"));
  ASSERT_TRUE(says("up"));
  const Supervised seen = look(directory()).value();
  const Record running = seen.running() ? *seen.record : Record{};
  EXPECT_EQ(running.trainer_pid, trainer.trainer_pid);
  EXPECT_EQ(running.supervisor_pid, trainer.supervisor_pid);
  EXPECT_EQ(running.job, "story");
  EXPECT_FALSE(collect(directory())) << "a running trainer is not to be forgotten";
}

TEST_F(Life, SaysWhyTheShellCannotBeExecuted) {
  std::ofstream(path("shell")) << "#!/no/such/interpreter\n";
  std::filesystem::permissions(path("shell"), std::filesystem::perms(0755));
  auto broken = spec("true");
  broken.shell = path("shell");
  const auto result = start(directory(), broken);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "cannot run " + path("shell") + ": No such file or directory");
  EXPECT_TRUE(nothing_there());
  EXPECT_TRUE(start(directory(), spec("true"))) << "a failure must leave the way free";
}

TEST_F(Life, RefusesAnUnknownUser) {
  auto nobody = spec("true");
  nobody.user = "no-such-user";
  const auto result = start(directory(), nobody);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "there is no user 'no-such-user' on this machine (trainer.user of job.yaml)");
}

TEST_F(Life, RefusesAMissingWorkingDirectory) {
  auto lost = spec("true");
  lost.working_directory = path("nowhere");
  const auto result = start(directory(), lost);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "the working directory " + path("nowhere") + " does not exist");
}

TEST_F(Life, RefusesASecondSupervisor) {
  started(spec("exec sleep 1000"));
  const auto second = start(directory(), spec("true"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, "running");
  EXPECT_NE(second.error().message.find("another supervisor is at work"), std::string::npos);
  EXPECT_TRUE(look(directory()).value().running() != nullptr);
}

// Such as one that waits for a device for ever: it may write where the next one would.
TEST_F(Life, StartsNoneBesideAProcessThatSigkillDidNotEnd) {
  const pid_t stuck = ::fork();
  if (stuck == 0) {
    ::pause();
    ::_exit(0);
  }
  end_leaving(*find_process(stuck), boot_id());
  EXPECT_TRUE(collect(directory()));
  const auto refused = start(directory(), spec("exit 0"));
  ::kill(stuck, SIGKILL);
  ::waitpid(stuck, nullptr, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, "left");
  EXPECT_EQ(exit_status(refused.error()), processes_left_status);
  EXPECT_NE(refused.error().message.find("(pid " + std::to_string(stuck) + ")"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(nobody_left(directory()));
  started(spec("exit 0"));
  wait_for_end();
}

// Its pid may be another process's by now: since then, or since the machine was restarted.
TEST_F(Life, StartsOneBesideAProcessThatHasThePidOfOneLeftOver) {
  Process other = *find_process(::getpid());
  end_leaving(other, "another-boot");
  EXPECT_TRUE(collect(directory()));
  EXPECT_TRUE(nobody_left(directory()));
  end_leaving(other, boot_id());
  EXPECT_TRUE(collect(directory()));
  EXPECT_FALSE(nobody_left(directory()));
  std::ofstream(path("left-over")) << other.pid << " " << other.start_ticks << " another-boot\n";
  EXPECT_TRUE(nobody_left(directory()));
  --other.start_ticks;
  end_leaving(other, boot_id());
  EXPECT_TRUE(collect(directory()));
  EXPECT_TRUE(nobody_left(directory()));
  started(spec("exit 0"));
  wait_for_end();
}

TEST_F(Life, RefusesToOverwriteAnEndThatNobodyCollected) {
  started(spec("exit 9"));
  wait_for_end();
  ASSERT_TRUE(eventually([&] { return descendants_of(getpid()).empty(); }));
  const auto second = start(directory(), spec("true"));
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("not collected"), std::string::npos);
  ASSERT_TRUE(collect(directory()));
  EXPECT_TRUE(start(directory(), spec("true")));
}

TEST_F(Life, GoesOnWhenTheAgentIsKilled) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t agent = fork();
  if (agent == 0) {
    const bool good = start(directory(), spec("echo up; sleep 1000")).has_value();
    [[maybe_unused]] const auto written = write(ready[1], good ? "y" : "n", 1);
    while (true) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  close(ready[0]);
  close(ready[1]);
  ::kill(agent, SIGKILL);
  waitpid(agent, nullptr, 0);
  ASSERT_EQ(answer, 'y');
  ASSERT_TRUE(says("up"));
  EXPECT_TRUE(runs(look(directory()).value().record.value().trainer_pid));
  ASSERT_TRUE(kill(directory())) << "a new agent finds the supervisor by its directory alone";
  EXPECT_EQ(wait_for_end().signal, SIGKILL);
}

TEST_F(Life, TakesTheTrainerAlongWhenTheSupervisorIsKilled) {
  const auto trainer = started(spec("(trap '' TERM; sleep 1000) & echo up; sleep 1000"));
  ASSERT_TRUE(says("up"));
  ::kill(trainer.supervisor_pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !runs(trainer.trainer_pid); }));
  waitpid(trainer.supervisor_pid, nullptr, 0);
  const Supervised gone = look(directory()).value();
  EXPECT_EQ(gone.vanished() ? gone.record->trainer_pid : 0, trainer.trainer_pid);
  ASSERT_TRUE(eventually([&] { return collect(directory()).has_value(); }));
  EXPECT_TRUE(eventually([&] { return descendants_of(getpid()).empty(); }))
      << "what was left of the trainer's session must be gone";
  EXPECT_TRUE(nothing_there());
}

TEST_F(Life, EndsWhatTheTrainerLeftBehind) {
  started(
      spec("setsid sh -c 'trap \"\" TERM; echo $$ > grandchild; while :; do sleep 1; done' &\n"
           "while [ ! -s grandchild ]; do sleep 0.01; done"));
  const Ended end = wait_for_end();
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_TRUE(end.left_over.empty());
  const int grandchild = std::stoi(read_file(path("grandchild")));
  EXPECT_FALSE(runs(grandchild)) << "it would keep the mount busy";
}

TEST_F(Life, AsksLeftBehindProcessesToEndBeforeItKillsThem) {
  started(
      spec("setsid sh -c 'trap \"echo goodbye; exit\" TERM; echo $$ > grandchild;"
           "while :; do sleep 0.05; done' &\n"
           "while [ ! -s grandchild ]; do sleep 0.01; done"));
  wait_for_end();
  EXPECT_NE(log().find("goodbye"), std::string::npos);
}

TEST_F(Life, KeepsTheLastWords) {
  std::ofstream(log_file()) << "words of an earlier run\n";
  started(
      spec("i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo line $i; done; echo why >&2; exit 1"));
  const Ended end = wait_for_end();
  EXPECT_TRUE(end.last_words.starts_with("line 12\n")) << end.last_words;
  EXPECT_TRUE(end.last_words.ends_with("line 30\nwhy")) << end.last_words;
  EXPECT_TRUE(log().starts_with("words of an earlier run\nline 1\n")) << "the log is appended to";
}

TEST_F(Life, MasksSecretsInTheLastWords) {
  Spec with_secret = spec("echo key=$API_KEY, plain=$PLAIN; exit 1");
  with_secret.environment["API_KEY"] = "s3cr3t-value";
  with_secret.environment["PLAIN"] = "visible";
  with_secret.secrets = "API_KEY ";
  started(with_secret);
  EXPECT_EQ(wait_for_end().last_words, "key=***, plain=visible");
}

TEST_F(Life, LimitsTheLastWordsAndLeavesOutEarlierRuns) {
  std::ofstream(log_file()) << "words of an earlier run\n";
  started(spec("exit 1"));
  EXPECT_EQ(wait_for_end().last_words, "");
  ASSERT_TRUE(collect(directory()));
  started(spec("head -c 100000 /dev/zero | tr '\\0' x; printf '\\377'"));
  const Ended end = wait_for_end();
  EXPECT_LE(end.last_words.size(), 4096u + 2) << "a byte that is no UTF-8 becomes three";
  EXPECT_TRUE(end.last_words.starts_with("xxxx"));
}

TEST_F(Life, RefusesALogThatIsALink) {
  std::filesystem::create_symlink("/etc/passwd", log_file());
  const auto result = start(directory(), spec("true"));
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("cannot open the log file"), std::string::npos);
}

TEST_F(Life, EndsThePidfdAfterTheEndWasWritten) {
  const auto trainer = started(spec("exit 3"));
  const auto file = open_pidfd(trainer.supervisor_pid);
  if (file) {  // none: it has ended already
    pollfd watched{*file, POLLIN, 0};
    EXPECT_EQ(poll(&watched, 1, 20'000), 1);
    close(*file);
  }
  EXPECT_EQ(look(directory()).value().ended.value().exit_code, 3);
  EXPECT_FALSE(open_pidfd(1 << 30));
}

}  // namespace
}  // namespace spotter::supervise
