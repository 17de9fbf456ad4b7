#include "tests/supervise/stage.hpp"

#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace spotter::supervise {

void Stage::SetUp() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  char name[] = "/tmp/spotter-supervise-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  directory_ = name;
  std::filesystem::permissions(directory_, std::filesystem::perms(0755));
}

void Stage::TearDown() {
  const auto gone = [] {
    signal_descendants(getpid(), SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return descendants_of(getpid()).empty();
  };
  EXPECT_TRUE(eventually(gone));
  EXPECT_TRUE(end_vanished(directory_));  // of a supervisor that was killed: its control group
  std::filesystem::remove_all(directory_);
}

void Stage::pause_briefly() { usleep(10'000); }

Spec Stage::spec(const std::string& command) const {
  return {.command = command,
          .shell = "/bin/sh",
          .user = current_user(),
          .environment = {{"HOME", directory_}},  // or the shell reads this user's own profile
          .working_directory = directory_,
          .log_file = log_file(),
          .job = "story"};
}

std::string Stage::log() const { return read_file(log_file()); }

Record Stage::started(const Spec& what) {
  const auto result = start(directory_, what);
  EXPECT_TRUE(result) << result.error().message;
  return parse_record(read_file(path("supervisor.json"))).value_or(Record{});
}

Ended Stage::wait_for_end() {
  std::optional<Ended> end;
  const auto ended = [&] {
    return (end = look(directory_).value_or(Supervised{}).ended).has_value();
  };
  EXPECT_TRUE(eventually(ended)) << "the trainer did not end";
  return end.value_or(Ended{});
}

bool Stage::says(const std::string& text) {
  return eventually([&] { return log().find(text) != std::string::npos; });
}

std::string current_user() { return getpwuid(geteuid())->pw_name; }

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool runs(int pid) { return find_process(pid).has_value(); }

}  // namespace spotter::supervise
