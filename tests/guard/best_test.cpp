// The best checkpoint, and that its copy is what was recorded, whatever happens to it.
#include <filesystem>
#include <fstream>

#include "agent/guard/best.hpp"
#include "tests/guard/units.hpp"

namespace spotter::guard {
namespace {

using std::chrono::seconds;
namespace fs = std::filesystem;

constexpr Best::Clock::time_point began{seconds(1'000'000)};
constexpr auto late = began + seconds(1000);

double at(int second) { return 1'000'000.0 + second; }

struct Reports {
  supervise::ReportedValues values;
  void report(int second, std::uint64_t step, double value) {
    values.add({at(second), step, value});
  }
  Best::Values source() const {
    return [this] { return values; };
  }
};

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<BestRecord> best_of(const fs::path& mount) {
  return decode_best(content(mount / ".spotter" / best_name));
}

std::size_t copies(const fs::path& mount) {
  const fs::path folder = mount / ".spotter" / best_directory;
  if (!fs::exists(folder)) return 0;
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

class BestFile : public Folder, public Reports {
 protected:
  BestFile() : keeper_(keeper()) { EXPECT_TRUE(keeper_.begin()); }
  Best best(bool largest = true) { return {keeper_, BestRule{"val", largest}, source(), began}; }
  // Written and recorded; it was closed then.
  void save(Best& best, const std::string& name, const std::string& bytes, int second) {
    write(name, bytes);
    record(keeper_, name);
    best.offer(name, began + seconds(second));
  }
  void save_first(Best& best) {
    report(5, 1, 0.5);
    save(best, "e-1.pt", "first", 5);
  }
  std::string kept() const {
    const auto record = best_of(mount_);
    return record ? content(mount_ / ".spotter" / best_directory / record->kept) : "none";
  }
  Keeper keeper_;
};

TEST_F(BestFile, IsTheOneWithTheBestValueWhateverItsTrainerRemoves) {
  Best one = best();
  const double values[] = {0.5, 0.9, 0.7, 0.9};
  for (int epoch = 0; epoch < 4; ++epoch) {
    report(10 * epoch, static_cast<std::uint64_t>(epoch), values[epoch]);
    save(one, "e-" + std::to_string(epoch) + ".pt", "weights " + std::to_string(epoch),
         10 * epoch + 1);
    one.look(late);
    if (epoch > 0) remove("e-" + std::to_string(epoch - 1) + ".pt");
  }
  EXPECT_EQ(kept(), "weights 1") << "an equal one is no better";
  EXPECT_EQ(best_of(mount_)->value, 0.9);
  EXPECT_EQ(best_of(mount_)->step, 1U);
  EXPECT_EQ(best_of(mount_)->name, "e-1.pt");
  EXPECT_EQ(copies(mount_), 1U) << "an older best is removed";
}

TEST_F(BestFile, OfALossIsTheSmallest) {
  Best one = best(false);
  for (int epoch = 0; epoch < 3; ++epoch) {
    report(10 * epoch, static_cast<std::uint64_t>(epoch), epoch == 1 ? 0.25 : 0.5);
    save(one, "e-" + std::to_string(epoch) + ".pt", std::to_string(epoch), 10 * epoch);
    one.look(late);
  }
  EXPECT_EQ(kept(), "1");
}

TEST_F(BestFile, HasTheValueThatIsReportedAMomentAfterIt) {
  Best one = best();
  report(0, 1, 0.5);
  save(one, "e-1.pt", "first", 5);
  // Ten seconds later the trainer saves, and the row of its log comes then.
  save(one, "e-2.pt", "second", 15);
  report(15, 2, 0.8);
  EXPECT_TRUE(one.look(began + seconds(15) + Best::moment / 2).size() == 1) << "the first alone";
  EXPECT_EQ(kept(), "first");
  EXPECT_EQ(one.wait(began + seconds(15)), Best::moment);
  one.look(began + seconds(15) + Best::moment);
  EXPECT_EQ(kept(), "second");
  EXPECT_FALSE(one.wait(late));
}

TEST_F(BestFile, HasNoValueThatCameLaterOrBeforeTheTrainerStarted) {
  Best one = best();
  report(-5, 9, 0.99);
  save(one, "e-1.pt", "first", 5);
  report(20, 2, 0.8);
  EXPECT_TRUE(one.look(late).empty());
  EXPECT_FALSE(best_of(mount_));
}

TEST_F(BestFile, IsOfferedAgainWhereAGuardDiedBeforeItLooked) {
  write("e-1.pt", "first");
  record(keeper_, "e-1.pt");
  const auto now = Best::Clock::now();
  values.add({std::chrono::duration<double>(now.time_since_epoch()).count(), 1, 0.5});
  Best before_it(keeper_, BestRule{"val", true}, source(), now + seconds(60));
  EXPECT_TRUE(before_it.look(now, true).empty()) << "an earlier run's";
  Best again(keeper_, BestRule{"val", true}, source(), now - seconds(60));
  EXPECT_EQ(again.look(now, true).size(), 1U);
  EXPECT_EQ(kept(), "first");
}

TEST_F(BestFile, HasTheValueThatWasReportedLastWhateverDigitsItsNameHas) {
  Best one = best();
  report(10, 1, 0.5);
  report(20, 2, 0.9);
  report(30, 50, 0.95);
  save(one, "e-2.pt", "first", 10);
  save(one, "resnet50.pt", "second", 20);
  one.look(late);
  EXPECT_EQ(kept(), "second");
  EXPECT_EQ(best_of(mount_)->value, 0.9);
  save(one, "resnet50.pt", "third", 31);
  one.look(late);
  EXPECT_EQ(kept(), "third");
}

TEST_F(BestFile, IsNotCopiedWhereTheTrainersEndWaitsAndIsOfferedStill) {
  Best one = best();
  report(5, 1, 0.5);
  save(one, "e-1.pt", std::string(20U << 20, 'x'), 5);
  int asked = 0;
  const auto words = one.look(late, false, [&asked] { return ++asked > 2; });
  EXPECT_TRUE(words.empty());
  EXPECT_TRUE(one.is_busy());
  EXPECT_FALSE(best_of(mount_));
  EXPECT_EQ(copies(mount_), 0U);
  EXPECT_EQ(one.look(late).size(), 1U);
  EXPECT_EQ(kept().size(), 20U << 20);
}

TEST_F(BestFile, IsDecidedAtTheEndAtOnce) {
  Best one = best();
  save_first(one);
  EXPECT_TRUE(one.look(began + seconds(5)).empty());
  EXPECT_EQ(one.look(began + seconds(5), true).size(), 1U);
  EXPECT_EQ(kept(), "first");
}

TEST_F(BestFile, IsWhatWasRecordedThoughItsTrainerWritesOverIt) {
  Best one = best();
  report(5, 1, 0.5);
  save(one, "last.pt", "what was recorded", 5);
  write("last.pt", "what comes next, not finished");
  one.look(late);
  EXPECT_EQ(kept(), "what was recorded");
}

TEST_F(BestFile, IsFoundAgainByTheNextGuard) {
  Best one = best();
  save_first(one);
  one.look(late);
  Keeper next = keeper();
  Best other(next, BestRule{"val", true}, source(), began);
  report(20, 2, 0.4);
  write("e-2.pt", "second");
  record(next, "e-2.pt");
  other.offer("e-2.pt", began + seconds(21));
  EXPECT_TRUE(other.look(late).empty());
  EXPECT_EQ(kept(), "first");
  settle();
  EXPECT_EQ(kept(), "first") << "what a start removes is not the best";
}

TEST_F(BestFile, ByAnotherMetricReplacesIt) {
  Best one = best();
  save_first(one);
  one.look(late);
  Best other(keeper_, BestRule{"loss", false}, source(), began);
  report(20, 2, 0.4);
  save(other, "e-2.pt", "second", 21);
  EXPECT_EQ(other.look(late).size(), 1U);
  EXPECT_EQ(kept(), "second");
  EXPECT_EQ(copies(mount_), 1U);
}

TEST_F(BestFile, OfARecordThatCannotBeReadIsNotReplaced) {
  Best one = best();
  save_first(one);
  one.look(late);
  std::ofstream(mount_ / ".spotter" / best_name) << "{\"format\":2}";
  report(20, 2, 0.9);
  save(one, "e-2.pt", "second", 21);
  const auto words = one.look(late);
  ASSERT_EQ(words.size(), 1U);
  EXPECT_NE(words[0].text.find("until it and the folder best beside it are"), std::string::npos);
  EXPECT_EQ(copies(mount_), 1U);
  save(one, "e-3.pt", "third", 22);
  EXPECT_TRUE(one.look(late).empty()) << "said once";
}

TEST_F(BestFile, IsKeptUntilABetterOneIsThereThoughItsRecordWasMovedAway) {
  Best one = best();
  save_first(one);
  one.look(late);
  fs::remove(mount_ / ".spotter" / best_name);
  report(20, 2, 0.9);
  write("e-2.pt", "second");
  record(keeper_, "e-2.pt");
  remove("e-2.pt");
  fs::remove_all(mount_ / ".spotter" / kept_directory);
  one.offer("e-2.pt", began + seconds(20));
  EXPECT_EQ(one.look(late).size(), 1U) << "it cannot be copied";
  EXPECT_EQ(copies(mount_), 1U);
}

TEST_F(BestFile, LeavesNothingOfAGuardThatWasKilled) {
  fs::create_directories(mount_ / ".spotter" / best_directory / "half" / "inner");
  std::ofstream(mount_ / ".spotter" / best_directory / "half" / "inner" / "file") << "x";
  Best one = best();
  save_first(one);
  one.look(late);
  EXPECT_EQ(copies(mount_), 1U);
}

TEST_F(BestFile, WithoutARuleNothingIsKept) {
  Best one(keeper_, std::nullopt, source(), began);
  save_first(one);
  EXPECT_FALSE(one.wait(late));
  EXPECT_TRUE(one.look(late, true).empty());
  EXPECT_FALSE(best_of(mount_));
}

class BestFolder : public Units, public Reports {
 protected:
  BestFolder() : keeper_(keeper()) { EXPECT_TRUE(keeper_.begin()); }
  void save(Best& best, const std::string& name, int second) {
    run(transformers(name, true));
    record(keeper_, name);
    best.offer(name, began + seconds(second));
  }
  Keeper keeper_;
};

TEST_F(BestFolder, IsCopiedAsOneAndHasTheValueOfItsStep) {
  Best one(keeper_, BestRule{"eval_loss", false}, source(), began);
  report(10, 500, 0.25);
  report(20, 1000, 0.5);
  save(one, "checkpoint-500", 21);  // recorded late: the newest value is another step's
  one.look(late);
  const auto record = best_of(mount_);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->value, 0.25);
  for (const auto& each : fs::recursive_directory_iterator(path("checkpoint-500"))) {
    if (!each.is_regular_file()) continue;
    const fs::path copy = mount_ / ".spotter" / best_directory / record->kept /
                          fs::relative(each.path(), path("checkpoint-500"));
    EXPECT_EQ(content(copy), content(each.path())) << copy;
  }
  save(one, "checkpoint-1000", 22);
  EXPECT_TRUE(one.look(late).empty());
  EXPECT_EQ(copies(mount_), 1U);
}

TEST_F(BestFolder, ThatWasChangedMeanwhileIsKeptAsItWasRecorded) {
  Best one(keeper_, BestRule{"eval_loss", false}, source(), began);
  report(10, 500, 0.25);
  save(one, "checkpoint-500", 10);
  const fs::path some = *fs::directory_iterator(path("checkpoint-500"));
  const std::string before = content(some);
  std::ofstream(some, std::ios::app) << "more";
  EXPECT_EQ(one.look(late).size(), 1U);
  const auto record = best_of(mount_);
  ASSERT_TRUE(record);
  EXPECT_EQ(content(mount_ / ".spotter" / best_directory / record->kept / some.filename()), before);
}

TEST(BestRecords, AreReadAsTheyWereWrittenAndNothingElse) {
  const BestRecord record{"val", "min", 0.125, 7, "a/\xe9-7.pt", "12345678-\xe9-7.pt"};
  const std::string bytes = encode(record);
  EXPECT_EQ(decode_best(bytes), record);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(decode_best(bytes.substr(0, i))) << i;
    std::string other = bytes;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_FALSE(decode_best(other)) << other;
  }
  BestRecord outside = record;
  outside.kept = "..";
  EXPECT_FALSE(decode_best(encode(outside)));
}

TEST(ReportedValues, OfAMomentKeepTheNewest) {
  supervise::ReportedValues values;
  for (int i = 0; i < 100'000; ++i)
    values.add({1e9 + i / 1000.0, static_cast<std::uint64_t>(i), i * 1.0});
  EXPECT_LE(values.all().size(), 202U);
  EXPECT_EQ(values.all().back().step, 99'999U);
  for (std::size_t i = 2; i < values.all().size(); ++i)
    EXPECT_GE(values.all()[i].time - values.all()[i - 2].time, supervise::ReportedValues::spacing);
  const auto read = supervise::parse_values(to_json(values));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->all(), values.all());
  EXPECT_FALSE(supervise::parse_values("[[1,2]]"));
  EXPECT_FALSE(supervise::parse_values("{}"));
}

}  // namespace
}  // namespace spotter::guard
