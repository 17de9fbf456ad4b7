// A guard without patterns: all that is in the directory, unless libspotter saves there; what it
// takes for a log by its growth; and what it says of a trainer that does not go on.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "agent/guard/guard.hpp"
#include "agent/supervise/processes.hpp"
#include "tests/guard/folder.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/writer.hpp"

namespace spotter::guard {
namespace {

class Everything : public Folder {
 protected:
  using Names = std::vector<std::string>;

  Where all(const std::string& directory = "ckpt") const {
    return {mount_, directory, "", false, folders_};
  }
  Keeper fresh() const { return *Keeper::open(all()); }
  void begin(SaidSet set = SaidSet()) {
    guard_.reset();
    keeper_.emplace(fresh());
    guard_.emplace(
        *keeper_, [] { return Deaths(); },
        [this](const Saying& saying) { said_.push_back(saying); }, [this] { return now_; },
        std::move(set), [this] { return reports_; },
        [](const struct stat& file) {
          return supervise::only_append({*supervise::find_process(::getpid())}, file);
        });
    const auto begun = guard_->begin(false);
    ASSERT_TRUE(begun) << begun.error().message;
  }
  void let_pass(std::chrono::seconds time) {
    for (const auto end = now_ + time; now_ < end; now_ += std::chrono::milliseconds(100))
      guard_->look();
  }
  void end(End how) { guard_->end(how, true); }
  Names finished() const {
    Names names;
    for (const Saying& saying : said_)
      if (!saying.path.empty()) names.push_back(saying.path.substr(path("").string().size()));
    return names;
  }
  std::string words() const {
    std::string all;
    for (const Saying& saying : said_) all += saying.words + "\n";
    return all;
  }
  std::size_t generations() const { return fresh().record().generations.size(); }

  Moments::Time now_{std::chrono::hours(1)};
  std::string folders_;
  bool reports_ = false;
  std::vector<Saying> said_;
  std::optional<Keeper> keeper_;
  std::optional<Guard> guard_;
};

TEST_F(Everything, IsRecordedWithoutAPattern) {
  begin();
  write("weights", "first");
  write("run/state.bin", "first");
  let_pass(std::chrono::seconds(3));
  EXPECT_EQ(finished(), (Names{"weights", "run"}));
  write("weights", "second");
  write("run/state.bin", "second");
  end(End::Killed);
  EXPECT_EQ(read("weights"), "second") << "its writer closed it";
  begin();
  std::ofstream half(path("weights"));
  half << "half" << std::flush;
  let_pass(std::chrono::seconds(1));
  end(End::Killed);
  EXPECT_EQ(read("weights"), "second");
}

TEST_F(Everything, ALogThatStaysOpenHindersNothingAndIsNeverMoved) {
  begin();
  std::ofstream log(path("log.txt"), std::ios::app), console;
  for (const char* save : {"first", "second"}) {
    write("weights", save);
    for (int second = 0; second < 3; ++second, let_pass(std::chrono::seconds(1)))
      log << "a line that names weights" << std::endl;
  }
  EXPECT_EQ(finished(), (Names{"weights", "weights"}));
  std::ofstream half(path("weights"));
  half << "half" << std::flush;
  let_pass(std::chrono::seconds(1));
  end(End::Killed);
  said_.clear();
  EXPECT_EQ(read("weights"), "second");
  EXPECT_EQ(read("log.txt").size(), 6 * 26U);
  begin();
  write("weights", "third");
  let_pass(std::chrono::seconds(3));
  EXPECT_EQ(finished(), Names{"weights"}) << "it is open, and nobody has written to it";
}

TEST_F(Everything, AFileThatIsOpenAndAtRestHindersNothingForLong) {
  write("replay.dat", "mapped");
  begin();
  const Descriptor replay(::open(path("replay.dat").c_str(), O_RDWR | O_CLOEXEC));
  write("replay.new", "x");
  const Descriptor other(::open(path("replay.new").c_str(), O_RDWR | O_CLOEXEC));
  write("weights", "first");
  let_pass(std::chrono::seconds(5));
  EXPECT_EQ(finished(), Names{});
  let_pass(std::chrono::seconds(20));
  EXPECT_EQ(finished(), Names{"weights"});
}

TEST_F(Everything, AListThatIsWrittenOverIsNoLog) {
  begin();
  for (const char* list : {"1\n2\n", "1\n2\n3\n", "1\n2\n3\n4\n"}) {
    write("seen.txt", list);
    write("weights", std::to_string(std::string_view(list).size()));
    let_pass(std::chrono::seconds(4));
  }
  std::ofstream half(path("seen.txt"));
  half << "1\n" << std::flush;
  end(End::Killed);
  EXPECT_EQ(read("seen.txt"), "1\n2\n3\n4\n") << words();
}

TEST_F(Everything, WhatIsRenamedOnceItIsWholeHidesNoCheckpoint) {
  begin();
  std::optional<std::ofstream> next;
  for (const char* save : {"first", "second", "third", "fourth"}) {
    next.emplace(path("weights.tmp"));
    *next << save << std::flush;
    let_pass(std::chrono::seconds(2));
    next.reset();
    std::filesystem::rename(path("weights.tmp"), path("weights"));
    next.emplace(path("weights.tmp"));
    let_pass(std::chrono::seconds(1));
  }
  *next << "half" << std::flush;
  let_pass(std::chrono::seconds(1));
  end(End::Killed);
  EXPECT_EQ(read("weights"), "fourth");
  EXPECT_FALSE(exists("weights.tmp"));
}

TEST_F(Everything, AFileWithANumberThatIsWrittenOverIsPutBack) {
  begin();
  for (const char* save : {"fold_0.bin", "fold_1.bin"}) {
    write(save, save);
    let_pass(std::chrono::seconds(4));
  }
  EXPECT_EQ(finished(), (Names{"fold_0.bin", "fold_1.bin"}));
  std::ofstream half(path("fold_1.bin"));
  half << "ha" << std::flush;
  end(End::Killed);
  EXPECT_EQ(read("fold_1.bin"), "fold_1.bin");
}

TEST_F(Everything, AnEmptyFolderThatMarksAWholeCheckpointStays) {
  folders_ = "step_*";
  begin();
  write("step_1/model.bin", "one");
  std::filesystem::create_directory(path("step_1/_COMMITTED"));
  let_pass(std::chrono::seconds(4));
  EXPECT_EQ(finished(), Names{"step_1"});
  std::filesystem::create_directory(path("step_2"));
  std::ofstream half(path("step_2/model.bin"));
  half << "tw" << std::flush;
  let_pass(std::chrono::seconds(1));
  end(End::Killed);
  EXPECT_TRUE(exists("step_1/_COMMITTED"));
  EXPECT_FALSE(exists("step_2"));
}

TEST_F(Everything, IsLibspottersWhereItSaves) {
  begin();
  auto lock = checkpoint::WriterLock::take(path(""));
  ASSERT_TRUE(lock);
  write("weights.pt", zip("one"));
  let_pass(std::chrono::seconds(3));
  EXPECT_EQ(finished(), Names{});
  EXPECT_TRUE(guard_->is_idle());
  write("weights.pt", "half");
  end(End::Killed);
  EXPECT_EQ(read("weights.pt"), "half") << "libspotter's integration knows what it left";
  EXPECT_EQ(words(), "");
  EXPECT_FALSE(fresh().settle(true)->newest);
  EXPECT_EQ(read("weights.pt"), "half");
}

TEST_F(Everything, IsLibspottersWhereItsCheckpointsCameFromElsewhere) {
  write("step-000000001234/manifest.json", "{}");
  write("step-000000001234/model.bin", "one");
  begin();
  EXPECT_TRUE(guard_->is_idle());
  let_pass(std::chrono::seconds(3));
  EXPECT_EQ(finished(), Names{});
  for (const char* other : {"step-1234/manifest.json", "a/manifest.json", "writer", "step-x"})
    EXPECT_FALSE(is_of_libspotter(other)) << other;
}

TEST_F(Everything, OfEarlierRunsIsForgottenWhereLibspotterBeginsToSave) {
  begin();
  write("weights.bin", "one");
  let_pass(std::chrono::seconds(3));
  ASSERT_EQ(finished(), Names{"weights.bin"});
  auto lock = checkpoint::WriterLock::take(path(""));
  ASSERT_TRUE(lock);
  let_pass(std::chrono::seconds(1));
  EXPECT_EQ(generations(), 0U);
  write("weights.bin", "another");
  EXPECT_FALSE(fresh().settle(true)->newest);
  EXPECT_EQ(read("weights.bin"), "another");
}

// By datagrams, without libspotter.
TEST_F(Everything, IsTheTrainersOwnWhereItReportsItsCheckpoints) {
  begin();
  write("state", "one");
  let_pass(std::chrono::seconds(3));
  ASSERT_EQ(finished(), Names{"state"});
  reports_ = true;
  write("state", "half");
  let_pass(std::chrono::seconds(3));
  EXPECT_EQ(finished().size(), 1U);
  end(End::Killed);
  EXPECT_EQ(read("state"), "half");
  reports_ = false;  // on the next machine, until it does
  EXPECT_FALSE(fresh().settle(true)->newest);
  begin();
  EXPECT_TRUE(guard_->is_idle());
  end(End::Killed);
  remove("state");
  begin();
  EXPECT_FALSE(guard_->is_idle()) << "an empty directory is nobody's";
}

TEST_F(Everything, IsNotTheWholeStorage) {
  write("code/main.py", "print()");
  auto keeper = Keeper::open(all("."));
  ASSERT_TRUE(keeper);
  Guard guard(
      *keeper, [] { return Deaths(); }, [this](const Saying& one) { said_.push_back(one); });
  ASSERT_TRUE(guard.begin(false));
  EXPECT_TRUE(guard.is_idle());
  EXPECT_NE(words().find("is not watched: it is all of the storage"), std::string::npos) << words();
}

// Lightning's last.ckpt: the save is over with it.
TEST_F(Everything, ALinkIsFinishedWhenItIsMade) {
  begin(SaidSet("epoch_{step}.bin last.bin"));
  write("epoch_1.bin", "one");
  std::filesystem::create_symlink("epoch_1.bin", path("last.bin"));
  guard_->look();
  EXPECT_EQ(finished(), Names{"epoch_1.bin"}) << "at once";
  EXPECT_EQ(fresh().record().row("last.bin")->link, "epoch_1.bin");
}

// shutil.rmtree(out), os.makedirs(out)
TEST_F(Everything, IsWatchedAlsoWhereItsScriptMakesTheDirectoryAgain) {
  begin();
  let_pass(std::chrono::seconds(1));
  std::filesystem::remove_all(path(""));
  let_pass(std::chrono::seconds(5));
  write("weights.bin", "one");
  let_pass(std::chrono::seconds(5));
  EXPECT_EQ(finished(), Names{"weights.bin"});
  std::filesystem::rename(mount_ / "ckpt", mount_ / "before");
  write("other.bin", "two");
  let_pass(std::chrono::seconds(5));
  EXPECT_EQ(finished(), (Names{"weights.bin", "other.bin"}));
}

// It has another name than `a.log` and is not held open: its script opens it for each line.
TEST_F(Everything, AFileThatOnlyGrowsIsALog) {
  begin();
  std::string lines = "step 1\n";
  write("output.txt", lines);
  write("weights.bin", "one");
  let_pass(std::chrono::seconds(3));
  for (int i = 0; i < 3; ++i) {
    lines += "another line\n";
    write("output.txt", lines);
    let_pass(std::chrono::seconds(3));
  }
  const std::size_t before = finished().size();
  const std::uint64_t newest = fresh().record().newest_number();
  for (int i = 0; i < 20; ++i) {
    lines += "another line\n";
    write("output.txt", lines);
    let_pass(std::chrono::seconds(3));
  }
  EXPECT_EQ(finished().size(), before);
  EXPECT_EQ(fresh().record().newest_number(), newest);
  write("weights.bin", "another");
  let_pass(std::chrono::seconds(3));
  EXPECT_EQ(finished().back(), "weights.bin") << "what is beside it is still seen";
  lines += "the last";
  write("output.txt", lines);
  end(End::Killed);
  EXPECT_EQ(read("output.txt"), lines);
}

// A pickle behind the other: no lines.
TEST_F(Everything, ACheckpointThatIsAddedToIsNoLog) {
  begin();
  for (const char* content : {"one.", "one.two.", "one.two.three."}) {
    write("all.pkl", content);
    let_pass(std::chrono::seconds(4));
  }
  EXPECT_EQ(finished().size(), 3U);
  std::ofstream half(path("all.pkl"), std::ios::app);
  half << "fo" << std::flush;
  end(End::Killed);
  EXPECT_EQ(read("all.pkl"), "one.two.three.") << words();
}

TEST_F(Everything, ALogThatIsWrittenOverIsNoneAnyMore) {
  begin();
  write("state.txt", "a\n");
  let_pass(std::chrono::seconds(3));
  write("state.txt", "a\nb\n");
  let_pass(std::chrono::seconds(3));
  write("state.txt", "xyz, another");
  write("weights.bin", "one");
  let_pass(std::chrono::seconds(3));
  const Keeper now = fresh();
  const Row* row = now.record().row("state.txt");
  ASSERT_NE(row, nullptr);
  EXPECT_FALSE(row->grows);
  EXPECT_EQ(row->bytes, 12U);
}

// It recovers by itself, and may be open for writing all the time.
TEST_F(Everything, ADatabaseThatIsHeldOpenHindersNothing) {
  begin();
  std::ofstream database(path("study.db"));
  database << "SQLite format 3" << std::string(100, 'x') << std::flush;
  write("weights.bin", "one");
  let_pass(std::chrono::seconds(5));
  ASSERT_EQ(finished(), Names{"weights.bin"});
  const std::uint64_t newest = fresh().record().newest_number();
  for (int i = 0; i < 10; ++i) {
    database << "another row" << std::flush;
    let_pass(std::chrono::seconds(3));
  }
  EXPECT_EQ(fresh().record().newest_number(), newest);
  end(End::Killed);
  EXPECT_EQ(read("study.db").size(), 115U + 10 * 11);
}

TEST_F(Everything, ATrainerThatDoesNotGoOnIsNamed) {
  begin();
  for (const char* name : {"checkpoint-400/model.bin", "checkpoint-500/model.bin"}) {
    write(name, name);
    let_pass(std::chrono::seconds(3));
  }
  end(End::Killed);
  said_.clear();
  begin();
  write("checkpoint-100/model.bin", "from scratch");
  let_pass(std::chrono::seconds(40));
  ASSERT_EQ(finished(), Names{"checkpoint-100"});
  EXPECT_NE(words().find("ckpt/checkpoint-100 was saved although ckpt/checkpoint-500 was there"),
            std::string::npos)
      << words();
  EXPECT_EQ(fresh().record().step, 500U) << "no progress";
}

TEST_F(Everything, ATrainerThatGoesOnIsNotNamed) {
  begin();
  for (const char* name : {"ckpt_10_rank3.bin", "loss=0.30-epoch=5.bin"}) write(name, name);
  let_pass(std::chrono::seconds(3));
  end(End::Killed);
  said_.clear();
  begin();
  for (const char* name : {"ckpt_20_rank0.bin", "loss=0.21-epoch=6.bin", "ckpt_20_rank1.bin"})
    write(name, name);
  let_pass(std::chrono::seconds(40));
  EXPECT_EQ(finished().size(), 3U);
  EXPECT_EQ(words().find("was saved although"), std::string::npos) << words();
}

TEST_F(Everything, ASetThatWasSaidIsNotOverBeforeItsLastFile) {
  begin(SaidSet("model_{step}.bin meta_{step}.json optim_{step}.bin"));
  write("model_10.bin", "m");
  let_pass(std::chrono::seconds(10));
  write("meta_10.json", "{}");
  let_pass(std::chrono::seconds(10));
  EXPECT_EQ(finished(), Names{});
  write("optim_10.bin", "o");
  let_pass(std::chrono::seconds(1));
  EXPECT_EQ(finished(), (Names{"model_10.bin", "meta_10.json", "optim_10.bin"}));
  write("model_20.bin", "m");
  let_pass(std::chrono::seconds(10));
  EXPECT_EQ(finished().size(), 3U);
  end(End::Killed);
  EXPECT_FALSE(exists("model_20.bin"));
  EXPECT_TRUE(exists("model_10.bin"));
}

TEST(SaidSets, MatchNamesWithTheNumberOfTheirSave) {
  const SaidSet set("step_{step}/model_{step}.pt optim_{step}_rank*.pt last.pt");
  const auto step = [&set](const std::string& name) {
    const auto one = set.match(name);
    return one ? std::to_string(one->pattern) + ":" + one->step : std::string("none");
  };
  EXPECT_EQ(step("step_10/model_10.pt"), "0:10");
  EXPECT_EQ(step("step_10/model_20.pt"), "none");
  EXPECT_EQ(step("optim_10_rank10.pt"), "1:10");
  EXPECT_EQ(step("optim_20_rank1.pt"), "1:20");
  EXPECT_EQ(step("last.pt"), "2:");
  EXPECT_EQ(step("best.pt"), "none");
  EXPECT_FALSE(set.is_countable());
  EXPECT_TRUE(SaidSet("a_{step}.pt b.pt").is_countable());
}

}  // namespace
}  // namespace spotter::guard
