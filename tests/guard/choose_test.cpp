// A person's choice among generations and what was put away.
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

#include "agent/guard/inventory.hpp"
#include "agent/guard/place.hpp"
#include "tests/guard/folder.hpp"

namespace {
int renames_left = -1;  // none: as many as there are
}

// In the place of libc's.
extern "C" int renameat(int from, const char* name, int to, const char* to_name) noexcept {
  if (renames_left >= 0 && renames_left-- == 0) ::_exit(1);
  return static_cast<int>(::syscall(SYS_renameat2, from, name, to, to_name, 0));
}

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

class Choosing : public Folder {
 protected:
  // Two checkpoints, each a generation, and what names the newest.
  void two_generations() {
    Keeper watched = keeper();
    ASSERT_TRUE(watched.begin());
    for (const char* name : {"epoch-1.bin", "epoch-2.bin"}) {
      write(name, std::string("content of ") + name);
      write("latest", name);
      auto captured = watched.capture([](const std::string&) { return false; });
      ASSERT_TRUE(captured);
      ASSERT_TRUE(watched.finish(*std::move(captured)));
    }
    ASSERT_TRUE(watched.settle(false));
  }
  // Leaves a file as a crash would; the next start puts it away.
  void put_one_away() {
    Keeper lost = keeper();
    ASSERT_TRUE(lost.begin());
    write("epoch-3.bin", "half of it");
    ASSERT_EQ(settle().torn.size(), 1U);
  }
  Inventory inventory() const {
    auto found = inventory_of(mount_, false);
    EXPECT_TRUE(found) << found.error().message;
    return found.value_or(Inventory{});
  }
  std::string refusal(const std::string& home) const {
    return inventory_of(home, false).error().kind;
  }
  // By a process that ends, as by a loss of power, before it renames for the `count`-th time. True:
  // it came to its end.
  bool returns_with(int count, std::uint64_t generation) const {
    const pid_t child = ::fork();
    if (child == 0) {
      renames_left = count;
      ::_exit(keeper().go_back(generation) ? 0 : 2);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 2);
    return WEXITSTATUS(status) == 0;
  }
  // Counts the name in the directory, and where it is listed as put away and there.
  int found(const std::string& name) const {
    int count = exists(name) ? 1 : 0;
    for (const Away& away : inventory().record.away)
      if (fs::exists(torn(away.number) / name)) ++count;
    return count;
  }
  fs::path torn(std::uint64_t number) const {
    return mount_ / ".spotter" / torn_directory / numbered(number);
  }
};

TEST_F(Choosing, AGenerationIsPutBackWholeAndWhatWasThereIsPutAway) {
  two_generations();
  write("epoch-7.bin", "by hand");
  write("train.log", "a line\n");
  const std::uint64_t second = keeper().record().newest_number();
  Keeper chosen = keeper();
  const auto done = chosen.go_back(second - 1);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->name, "epoch-1.bin");
  EXPECT_EQ(read("epoch-1.bin"), "content of epoch-1.bin");
  EXPECT_EQ(read("latest"), "epoch-1.bin");
  EXPECT_FALSE(exists("epoch-2.bin"));
  EXPECT_FALSE(exists("epoch-7.bin"));
  EXPECT_TRUE(exists("train.log")) << "a log stays";
  const Inventory now = inventory();
  ASSERT_EQ(now.record.away.size(), 1U);
  const Away& away = now.record.away.back();
  EXPECT_EQ(away.names, (std::vector<std::string>{"latest", "epoch-2.bin", "epoch-7.bin"}))
      << "what names a checkpoint goes first";
  EXPECT_TRUE(fs::exists(torn(away.number) / "epoch-7.bin"));
  EXPECT_EQ(now.record.newest_number(), second + 1);
  EXPECT_FALSE(now.record.find(second)->failed);
  EXPECT_TRUE(settle().torn.empty()) << "the next start finds it as it is";
  EXPECT_FALSE(exists("epoch-2.bin"));
}

TEST_F(Choosing, ThereAndBackAgainIsTheSame) {
  two_generations();
  const std::uint64_t second = keeper().record().newest_number();
  ASSERT_TRUE(keeper().go_back(second - 1));
  ASSERT_TRUE(keeper().go_back(second));
  EXPECT_EQ(read("epoch-2.bin"), "content of epoch-2.bin");
  EXPECT_EQ(read("latest"), "epoch-2.bin");
  const auto again = keeper().go_back(second + 2);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(keeper().record().newest_number(), second + 2) << "it is that one already";
}

TEST_F(Choosing, AReturnThatIsBrokenOffAnywhereLosesNothing) {
  int broken_off = 0, forward = 0;
  for (int count = 0;; ++count) {
    fs::remove_all(mount_ / "ckpt");
    fs::remove_all(mount_ / ".spotter");
    fs::create_directories(mount_ / ".spotter");
    two_generations();
    write("epoch-7.bin", "by hand");
    const std::uint64_t first = keeper().record().newest_number() - 1;
    const bool ended = returns_with(count, first);
    settle();
    const std::string newest = read("latest");
    ASSERT_TRUE(newest == "epoch-1.bin" || newest == "epoch-2.bin") << count << ": " << newest;
    EXPECT_EQ(read("epoch-1.bin"), "content of epoch-1.bin") << count;
    EXPECT_EQ(exists("epoch-2.bin"), newest == "epoch-2.bin") << count;
    EXPECT_EQ(found("epoch-7.bin"), 1) << count << ": here, or put away and named";
    if (ended) break;
    ++broken_off;
    if (newest == "epoch-1.bin") ++forward;
  }
  EXPECT_GE(broken_off, 5);
  EXPECT_GE(forward, 3) << "the next start went on";
}

TEST_F(Choosing, WhatHasNoCopyIsNotPutBackAndNothingIsMoved) {
  two_generations();
  Keeper chosen = keeper();
  const std::uint64_t second = chosen.record().newest_number();
  fs::remove_all(mount_ / ".spotter" / kept_directory);
  fs::create_directories(mount_ / ".spotter" / kept_directory);
  remove("epoch-1.bin");
  const auto done = chosen.go_back(second - 1);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("epoch-1.bin"), std::string::npos) << done.error().message;
  EXPECT_TRUE(exists("epoch-2.bin"));
  EXPECT_EQ(read("latest"), "epoch-2.bin");
}

TEST_F(Choosing, ACopyWithOtherBytesIsNone) {
  two_generations();
  Keeper chosen = keeper();
  const std::uint64_t second = chosen.record().newest_number();
  remove("epoch-1.bin");
  for (const auto& each : fs::directory_iterator(mount_ / ".spotter" / kept_directory))
    std::ofstream(each.path(), std::ios::in) << "X";
  EXPECT_FALSE(chosen.go_back(second - 1));
  EXPECT_TRUE(exists("epoch-2.bin"));
}

TEST_F(Choosing, AnUnknownNumberIsAnsweredWithThoseThatThereAre) {
  two_generations();
  const std::uint64_t newest = keeper().record().newest_number();
  const auto none = keeper().go_back(99);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find(std::to_string(newest)), std::string::npos);
  EXPECT_FALSE(keeper().bring_back(99));
  EXPECT_FALSE(keeper().remove_away(99, true));
}

TEST_F(Choosing, WhatIsBeingWrittenIsLeft) {
  two_generations();
  const Descriptor writer(::open(path("epoch-2.bin").c_str(), O_WRONLY | O_CLOEXEC));
  const auto done = keeper().go_back(keeper().record().newest_number() - 1);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("being written"), std::string::npos);
  EXPECT_TRUE(exists("epoch-2.bin"));
}

TEST_F(Choosing, WhatWasPutAwayComesBackAndTheNextStartTakesIt) {
  two_generations();
  put_one_away();
  const Inventory before = inventory();
  ASSERT_EQ(before.record.away.size(), 1U);
  EXPECT_EQ(before.record.away[0].bytes, std::string_view("half of it").size());
  const std::uint64_t number = before.record.away[0].number;
  write("epoch-3.bin", "another");
  const auto refused = keeper().bring_back(number);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("ckpt/epoch-3.bin"), std::string::npos);
  EXPECT_EQ(read("epoch-3.bin"), "another");
  remove("epoch-3.bin");
  const auto done = keeper().bring_back(number);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(read("epoch-3.bin"), "half of it");
  EXPECT_FALSE(fs::exists(torn(number)));
  EXPECT_TRUE(inventory().record.away.empty());
  const Settled next = settle();
  EXPECT_TRUE(next.torn.empty());
  EXPECT_EQ(next.name, "epoch-3.bin");
}

TEST_F(Choosing, WhatIsBroughtBackAfterACrashIsNotPutAwayAgain) {
  two_generations();
  put_one_away();
  const std::uint64_t number = inventory().record.away[0].number;
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  ASSERT_TRUE(keeper().bring_back(number));
  EXPECT_TRUE(settle().torn.empty());
  EXPECT_EQ(read("epoch-3.bin"), "half of it");
}

TEST_F(Choosing, TheLastOfSomethingIsRemovedOnlyOnPurpose) {
  two_generations();
  put_one_away();
  const std::uint64_t number = inventory().record.away[0].number;
  const auto refused = keeper().remove_away(number, false);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("epoch-3.bin"), std::string::npos);
  EXPECT_TRUE(fs::exists(torn(number)));
  ASSERT_TRUE(keeper().remove_away(number, true));
  EXPECT_FALSE(fs::exists(torn(number)));
  ASSERT_TRUE(keeper().go_back(keeper().record().newest_number() - 1));
  const std::uint64_t copied = inventory().record.away.back().number;
  EXPECT_TRUE(keeper().remove_away(copied, false)) << "generations have files of these names";
}

TEST_F(Choosing, WhatNoRecordNamesIsListedAllTheSame) {
  two_generations();
  fs::create_directories(torn(77));
  const Inventory found = inventory();
  ASSERT_EQ(found.record.away.size(), 1U);
  EXPECT_EQ(found.record.away[0].number, 77U);
  EXPECT_FALSE(keeper().remove_away(77, false));
  EXPECT_TRUE(keeper().remove_away(77, true));
  EXPECT_TRUE(inventory().record.away.empty());
}

TEST_F(Choosing, AnInventoryNeedsOneRecordThatCanBeRead) {
  EXPECT_EQ(refusal(mount_), no_record);
  two_generations();
  EXPECT_EQ(inventory().where.directory, "ckpt");
  EXPECT_EQ(inventory().where.files, where().files);
  const fs::path file = mount_ / ".spotter" / record_name;
  std::ifstream in(file);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  std::ofstream(file) << newer_record(whole);
  EXPECT_EQ(refusal(mount_), wire::newer_format);
  std::ofstream(file) << whole.substr(0, whole.size() / 2);
  EXPECT_EQ(refusal(mount_), record_damaged);
  EXPECT_NE(refusal(mount_ / "nowhere"), no_record) << "what cannot be looked at is not absent";
}

TEST_F(Choosing, AnInventoryOfFoldersHasTheirPatterns) {
  Where folders = where();
  folders.files.clear();
  folders.folders = "checkpoint-* step_*";
  auto watched = Keeper::open(folders);
  ASSERT_TRUE(watched && watched->begin());
  write("checkpoint-500/weights.bin", "w");
  record(*watched, "checkpoint-500");
  const Inventory found = inventory();
  EXPECT_EQ(found.where.folders, folders.folders);
  EXPECT_EQ(found.where.files, "");
  EXPECT_EQ(found.record.newest()->name, "checkpoint-500");
  EXPECT_EQ(found.contents.at(found.record.newest_number()).files, 1U);
}

TEST_F(Choosing, NobodyChoosesWhileAGuardIsAtWork) {
  const auto place = Place::open(where());
  ASSERT_TRUE(place);
  {
    const auto guard = lock_as_guard(*place, {});
    ASSERT_TRUE(guard && *guard);
    const auto person = lock_as_person(*place);
    ASSERT_FALSE(person);
    EXPECT_NE(person.error().message.find("a guard watches"), std::string::npos);
  }
  const auto person = lock_as_person(*place);
  ASSERT_TRUE(person) << person.error().message;
  EXPECT_FALSE(lock_as_person(*place));
  EXPECT_FALSE(lock_as_guard(*place, {})) << "nor does a guard begin meanwhile";
}

// A file that is long and has no blocks: as if the next checkpoint had no room.
TEST_F(Choosing, RoomIsMadeOldestFirstAndNeverOfTheNewestOrAGeneration) {
  two_generations();
  Where logs = where();
  logs.files += " *.log";
  auto watched = Keeper::open(logs);
  ASSERT_TRUE(watched && watched->begin());
  struct statvfs volume {};
  ASSERT_EQ(::statvfs(mount_.c_str(), &volume), 0);
  write("huge.log", "");
  const auto more = static_cast<off_t>(std::uint64_t{volume.f_blocks} * volume.f_frsize);
  ASSERT_EQ(::truncate(path("huge.log").c_str(), more), 0);
  record(*watched, "huge.log");
  for (const char* name : {"epoch-3.bin", "epoch-4.bin", "epoch-5.bin"}) {
    ASSERT_TRUE(watched->begin());
    write(name, "half of it");
    ASSERT_TRUE(watched->settle(false));
  }
  ASSERT_EQ(set_aside(), 3U) << "none of the last hour goes";
  const std::uint64_t first = watched->record().away.front().number;
  std::vector<std::string> said;
  watched->forget_away(std::time(nullptr), said);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(
      said[0].find("spotter checkpoints " + mount_.string() + " --delete " + std::to_string(first)),
      std::string::npos)
      << said[0];
  said.clear();
  watched->forget_away(std::time(nullptr) + 7200, said);
  ASSERT_EQ(said.size(), 3U) << "two that went, and what a person can remove";
  EXPECT_NE(said[0].find(numbered(first)), std::string::npos) << said[0];
  EXPECT_EQ(watched->record().away.size(), 1U);
  EXPECT_TRUE(exists("epoch-2.bin"));
  EXPECT_FALSE(watched->record().generations.empty());
}

}  // namespace
}  // namespace spotter::guard
