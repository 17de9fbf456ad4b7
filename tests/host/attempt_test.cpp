// Folders of several machines for one experiment: what is taken over, and what counts in the end.
#include "agent/host/attempt.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "agent/host/records.hpp"
#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

class Attempts : public Directory {
 protected:
  fs::path home() const { return directory_ / "job" / "3"; }
  fs::path in(const std::string& name) const { return home() / name; }

  void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(home())) all.push_back(entry.path().filename());
    std::ranges::sort(all);
    return all;
  }
  // Leaves what a machine leaves.
  void work(const std::string& attempt, const std::string& step) {
    write(in(attempt) / "checkpoints" / "last", step);
    write(in(attempt) / "code" / "train.py", "print()");
    write(in(attempt) / "ml" / "input" / "data" / "train" / "part", "much");
    write(in(attempt) / "ml.txt", "kept");
    fs::create_directories(in(attempt) / ".spotter");
    ASSERT_TRUE(write_ledger(in(attempt), {.ledger = {.attempts_without_progress = 2,
                                                      .starts_without_progress = 5,
                                                      .newest_step = 7,
                                                      .seconds = 60}}));
  }
};

TEST_F(Attempts, TheNewestBeforeOnesOwnIsTheParent) {
  EXPECT_EQ(find_parent(home(), 1), "");
  for (const char* name : {"attempt-2", "attempt-9", "attempt-10", "attempt-x", "attempt-", "other",
                           ".attempt-11.copy", "attempt-99999999999999999999999"})
    fs::create_directories(in(name));
  EXPECT_EQ(find_parent(home(), 2), "");
  EXPECT_EQ(find_parent(home(), 10), "attempt-9");
  EXPECT_EQ(find_parent(home(), 12), "attempt-10");
}

TEST_F(Attempts, TakesNoPathForAnAttempt) {
  fs::create_directories(in("attempt-1"));
  const fs::path elsewhere = home().parent_path() / "elsewhere";
  write(elsewhere / "secret", "of another job");
  for (const std::string& parent : {std::string("../elsewhere"), elsewhere.string(),
                                    std::string("attempt-1/../../elsewhere")}) {
    const auto begun = begin_attempt(home(), "attempt-2", parent);
    ASSERT_FALSE(begun) << parent;
    EXPECT_EQ(begun.error().kind, "bad-request") << parent;
  }
  EXPECT_FALSE(begin_attempt(home(), "../elsewhere/attempt-2", ""));
  EXPECT_FALSE(publish_attempt(home(), "../elsewhere"));
  EXPECT_EQ(names(), std::vector<std::string>{"attempt-1"});
}

// A link that leads to itself stands for a server that cannot say what is there.
TEST_F(Attempts, BeginsNothingAgainWhereTheAccountCannotBeLookedAt) {
  fs::create_directories(home());
  fs::create_symlink(".spotter", in(".spotter"));
  EXPECT_FALSE(begin_attempt(home(), "attempt-1", ""));
  EXPECT_EQ(names(), std::vector<std::string>{".spotter"});
  fs::remove(in(".spotter"));
  fs::create_symlink("attempt-1", in("attempt-1"));
  EXPECT_FALSE(begin_attempt(home(), "attempt-1", ""));
}

// Runs as a user who can be refused something: the names are read, the files cannot be looked at.
TEST_F(Attempts, TakesNothingOverInPart) {
  ASSERT_TRUE(begin_attempt(home(), "attempt-1", ""));
  work("attempt-1", "5");
  constexpr uid_t nobody = 65534;
  const bool root = ::geteuid() == 0;
  if (root) must_run({"chown", "-R", std::to_string(nobody), directory_.string()});
  fs::permissions(in("attempt-1") / "checkpoints", fs::perms::owner_read);
  if (root) {
    ASSERT_EQ(::seteuid(nobody), 0);
  }
  const auto begun = begin_attempt(home(), "attempt-2", "attempt-1");
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  fs::permissions(in("attempt-1") / "checkpoints", fs::perms::owner_all);
  EXPECT_FALSE(begun);
  EXPECT_EQ(names(), std::vector<std::string>{"attempt-1"});
}

TEST_F(Attempts, BeginsWithWhatItsParentHadAndLeavesItAlone) {
  ASSERT_TRUE(begin_attempt(home(), "attempt-1", ""));
  work("attempt-1", "5");
  const auto written = fs::file_time_type::clock::now() - std::chrono::hours(1);
  fs::last_write_time(in("attempt-1") / "checkpoints" / "last", written);
  ASSERT_TRUE(begin_attempt(home(), "attempt-2", "attempt-1"));
  EXPECT_EQ(read(in("attempt-2") / "checkpoints" / "last"), "5");
  EXPECT_EQ(fs::last_write_time(in("attempt-2") / "checkpoints" / "last"),
            fs::last_write_time(in("attempt-1") / "checkpoints" / "last"))
      << "it is the file that is on record (agent/guard/record.hpp)";
  EXPECT_EQ(read(in("attempt-2") / "ml.txt"), "kept");
  EXPECT_FALSE(fs::exists(in("attempt-2") / "code")) << "it is fetched";
  EXPECT_FALSE(fs::exists(in("attempt-2") / "ml"));
  const auto ledger = read_ledger(in("attempt-2"))->file.ledger;
  EXPECT_EQ(ledger.attempts_without_progress, 0U);
  EXPECT_EQ(ledger.starts_without_progress, 0U);
  EXPECT_EQ(ledger.seconds, 60);
  // The old machine wakes up; the new one is started again.
  write(in("attempt-1") / "checkpoints" / "last", "6");
  write(in("attempt-2") / "checkpoints" / "last", "8");
  ASSERT_TRUE(begin_attempt(home(), "attempt-2", "attempt-1"));
  EXPECT_EQ(read(in("attempt-2") / "checkpoints" / "last"), "8");
}

TEST_F(Attempts, TheFirstBeginsWithWhatARunWithoutClaimsLeft) {
  work("", "5");
  fs::create_directory(in(".attempt-7.copy"));
  ASSERT_TRUE(begin_attempt(home(), "attempt-1", ""));
  EXPECT_EQ(read(in("attempt-1") / "checkpoints" / "last"), "5");
  EXPECT_FALSE(fs::exists(in("attempt-1") / "code"));
  for (const auto& entry : fs::directory_iterator(in("attempt-1")))
    EXPECT_EQ(entry.path().filename().string().find("attempt"), std::string::npos) << entry.path();
}

TEST_F(Attempts, OneWhoseParentIsGoneIsNotBegunFromNothing) {
  work("attempt-1", "5");
  const auto begun = begin_attempt(home(), "attempt-3", "attempt-2");
  ASSERT_FALSE(begun);
  EXPECT_EQ(begun.error().kind, "attempt-gone");
  EXPECT_EQ(names(), (std::vector<std::string>{"attempt-1"}));
}

TEST_F(Attempts, WhatIsOlderThanTheParentGoes) {
  for (const char* name : {"attempt-1", "attempt-2", "attempt-4"}) work(name, name);
  ASSERT_TRUE(begin_attempt(home(), "attempt-5", "attempt-4"));
  EXPECT_EQ(names(), (std::vector<std::string>{"attempt-4", "attempt-5"}));
}

TEST_F(Attempts, ACopyThatBrokeOffIsMadeAgain) {
  work("attempt-1", "5");
  write(in(".attempt-2.copy") / "checkpoints" / "last", "half");
  ASSERT_TRUE(begin_attempt(home(), "attempt-2", "attempt-1"));
  EXPECT_EQ(read(in("attempt-2") / "checkpoints" / "last"), "5");
  EXPECT_EQ(names(), (std::vector<std::string>{"attempt-1", "attempt-2"}));
}

TEST_F(Attempts, CopiesOfMachinesThatAreGoneGoAndALaterOnesStays) {
  work("attempt-1", "5");
  for (const char* name : {".attempt-2.copy", ".attempt-9.copy"})
    write(in(name) / "checkpoints" / "last", "half");
  ASSERT_TRUE(begin_attempt(home(), "attempt-3", "attempt-1"));
  EXPECT_EQ(names(), (std::vector<std::string>{".attempt-9.copy", "attempt-1", "attempt-3"}));
}

TEST_F(Attempts, OnlyTheOneThatCountsIsLeft) {
  for (const char* name : {"attempt-1", "attempt-2"}) work(name, name);
  write(in("attempt-2") / "model" / "weights", "w");
  write(in("attempt-2") / "DONE", "{}");
  write(in(".attempt-1.copy") / "checkpoints" / "last", "half");
  for (int twice = 0; twice < 2; ++twice) {
    ASSERT_TRUE(publish_attempt(home(), "attempt-2"));
    EXPECT_EQ(names(), (std::vector<std::string>{"DONE", "attempt-2", "checkpoints", "code", "ml",
                                                 "ml.txt", "model"}));
    EXPECT_EQ(read(home() / "model" / "weights"), "w");
    EXPECT_EQ(fs::read_symlink(home() / "model"), "attempt-2/model") << "wherever it is mounted";
  }
}

TEST_F(Attempts, WhatARunWithoutClaimsHasLeftIsKeptBeside) {
  work("attempt-1", "5");
  write(in("attempt-1") / "DONE", "{}");
  write(home() / "checkpoints" / "last", "old");
  write(home() / "DONE", "old");
  ASSERT_TRUE(publish_attempt(home(), "attempt-1"));
  EXPECT_EQ(read(home() / "checkpoints" / "last"), "5");
  EXPECT_EQ(read(home() / "DONE"), "{}");
  EXPECT_EQ(read(home() / "checkpoints.without-claims" / "last"), "old");
  EXPECT_EQ(read(home() / "DONE.without-claims"), "old");
}

}  // namespace
}  // namespace spotter::act::host
