// Checkpoints behind the training's back: copied, written, linked, kept, and reported.
#include "trainer/library/saver.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

#include "tests/trainer/parts.hpp"
#include "tests/trainer/scratch.hpp"
#include "tests/trainer/short_memory.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/files.hpp"

namespace spotter::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::Scratch;

// Bytes that do not repeat: an offset that is wrong by anything shows.
std::string content(std::size_t bytes, std::uint64_t seed) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    text[i] = static_cast<char>(seed >> 56);
  }
  return text;
}

class Saving : public ::testing::Test {
 protected:
  std::unique_ptr<Saver> open(Retention retention = {.last = 10}) {
    return open_places({{directory(), retention}});
  }
  std::unique_ptr<Saver> open_places(std::vector<Place> places) {
    Saver::Settings settings{std::move(places), {}};
    settings.durable = [this](const Durable& durable) {
      const std::scoped_lock lock(mutex_);
      durable_.push_back(durable);
      if (goes_on_.valid()) goes_on_.wait();
    };
    settings.room = [this] { return room_; };
    auto saver = Saver::open(std::move(settings));
    EXPECT_TRUE(saver) << saver.error().message;
    return saver ? std::move(*saver) : nullptr;
  }
  static Result<void> save(Saver& saver, std::uint64_t step, const std::string& model,
                           std::optional<double> metric = std::nullopt) {
    const std::vector<Source> sources = {{"model", {model}}, {"log", {"step"}}};
    return saver.save(step, sources, {{"epoch", 3}}, metric);
  }
  static std::vector<std::string> names(const fs::path& directory) {
    auto listed = list_names(directory);
    if (!listed) return {listed.error().message};
    std::erase(*listed, ".writer");
    return *listed;
  }
  std::vector<Durable> durable() {
    const std::scoped_lock lock(mutex_);
    return durable_;
  }
  static ino_t inode(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_ino;
  }
  fs::path directory() const { return scratch_.path() / "c"; }
  Scratch scratch_;
  std::uint64_t room_ = UINT64_MAX;   // for a second copy
  std::shared_future<void> goes_on_;  // what became durable stays in flight until then

 private:
  std::mutex mutex_;
  std::vector<Durable> durable_;
};

// Sizes on both sides of each border: page, direct, piece of 8 MiB.
TEST_F(Saving, EveryByteOfEveryPieceArrives) {
  const std::vector<std::size_t> sizes = {
      0, 1, 4095, 4096, 5000, 1 << 20, (1 << 20) + 1, 8 << 20, 8388609, 20'000'001};
  std::vector<std::string> contents;
  std::vector<Source> sources;
  for (const auto size : sizes) contents.push_back(content(size, size));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::string_view all = contents[i];
    const auto half = all.size() / 3;
    sources.push_back({"part" + std::to_string(i), {all.substr(0, half), all.substr(half)}});
  }
  auto saver = open();
  ASSERT_TRUE(saver->save(5, sources, {}, std::nullopt));
  ASSERT_TRUE(saver->flush());
  const std::vector<fs::path> places = {directory()};
  for (const char* cached : {"nothing", "a little", "all"}) {
    const auto restored = restore(places);
    ASSERT_TRUE(restored && restored->newest);
    ASSERT_EQ(restored->newest->parts.size(), sizes.size());
    for (const auto& part : restored->newest->parts) {
      const auto i = std::stoul(part.name.substr(4));
      EXPECT_TRUE(part.bytes == contents[i]) << part.name << " of " << sizes[i] << ", " << cached;
      std::ifstream file(restored->newest->checkpoint.path / part.name);
      std::string some(std::min<std::size_t>(part.bytes.size(), 100'000), '\0');
      file.read(some.data(), static_cast<std::streamsize>(some.size()));
      if (cached == std::string("nothing")) continue;
      EXPECT_EQ(read_part(restored->newest->checkpoint, part.name).value(), contents[i]);
    }
  }
  EXPECT_TRUE(latest(directory())->newest) << "the sum taken in pieces is that of the whole";
}

TEST_F(Saving, TheStateMayChangeAsSoonAsSaveReturns) {
  auto saver = open();
  std::string model = content(30 << 20, 1);
  const std::string before = model;
  ASSERT_TRUE(save(*saver, 1, model));
  std::fill(model.begin(), model.end(), 'x');
  ASSERT_TRUE(saver->flush());
  EXPECT_TRUE(read_part(*latest(directory())->newest, "model").value() == before);
}

TEST_F(Saving, ManySavesInARowAllBecomeDurableInOrderAndTwoAtMostAreInFlight) {
  auto saver = open();
  for (std::uint64_t step = 1; step <= 8; ++step) {
    ASSERT_TRUE(save(*saver, step, content(3 << 20, step)));
    EXPECT_LE(saver->pending(), 2U);
  }
  ASSERT_TRUE(saver->flush());
  EXPECT_EQ(saver->pending(), 0U);
  ASSERT_EQ(durable().size(), 8U);
  for (std::uint64_t step = 1; step <= 8; ++step) {
    const auto one = durable()[step - 1];
    EXPECT_EQ(one.step, step);
    EXPECT_GT(one.stall.count(), 0);
    const auto verified = verify(one.path);
    ASSERT_TRUE(verified) << verified.error().message;
    EXPECT_EQ(read_part(*verified, "model").value(), content(3 << 20, step));
  }
}

// A device writes late, after save() has returned, and that is found: there is no other copy.
TEST_F(Saving, WhatIsFetchedToItsPlaceIsWrittenFromThere) {
  std::promise<void> promise;
  goes_on_ = promise.get_future();
  auto saver = open();
  ASSERT_TRUE(save(*saver, 1, "in flight"));
  const std::string log = content(5000, 1);
  constexpr std::size_t kModel = 10'000;
  const auto placed = saver->place(kAlignment * 3 + log.size());
  ASSERT_TRUE(placed) << placed.error().message;
  std::memset(*placed, 'a', kModel);
  const std::vector<Source> sources = {
      {"model", {{*placed, 5000}, {*placed + 5000, kModel - 5000}}}, {"log", {log}}};
  ASSERT_TRUE(saver->save(2, sources, {}, {}));
  std::memset(*placed, 'b', kModel);
  promise.set_value();
  ASSERT_TRUE(saver->flush());
  const auto newest = latest(directory())->newest;
  ASSERT_TRUE(newest && newest->step == 2);
  EXPECT_EQ(read_part(*newest, "model").value(), std::string(kModel, 'b'));
  EXPECT_TRUE(read_part(*newest, "log").value() == log);
}

TEST_F(Saving, APlaceIsAskedForAgainAndMayBeTooSmall) {
  auto saver = open();
  const auto placed = saver->place(5000);
  ASSERT_TRUE(placed);
  EXPECT_EQ(saver->place(5000).value(), *placed) << "nothing was saved from there";
  const std::string large = content(50'000, 1);
  EXPECT_FALSE(save(*saver, 1, large)) << "it would move what lies there";
  ASSERT_TRUE(saver->place(60'000));
  EXPECT_TRUE(save(*saver, 1, large));
}

TEST_F(Saving, WithoutRoomForASecondCopyASaveWaitsForTheFirst) {
  room_ = 0;
  auto saver = open();
  for (std::size_t step = 1; step <= 4; ++step) {
    ASSERT_TRUE(save(*saver, step, content(3 << 20, step)));
    EXPECT_GE(durable().size(), step - 1);
  }
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_F(Saving, MemoryIsThatOfOneCopyUnlessTwoAreInFlight) {
  constexpr std::size_t kState = std::size_t{64} << 20;
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::size_t all = 0;
    std::size_t pages = 0;
    file >> all >> pages;
    return pages * kAlignment;
  };
  const std::string state = content(kState, 1);
  auto saver = open({.last = 1});
  const auto before = resident();
  for (std::uint64_t step = 1; step <= 4; ++step) ASSERT_TRUE(save(*saver, step, state));
  ASSERT_TRUE(saver->flush());
  EXPECT_LT(resident(), before + kState + kState / 5);
  ASSERT_TRUE(save(*saver, 5, state));
  EXPECT_LT(resident(), before + kState + kState / 5) << "one in flight";
}
#endif

// tests/trainer/cuda.cpp stands for CUDA's driver.
TEST_F(Saving, MemoryIsPinnedBehindTheTrainingAndUnpinnedBeforeItGoes) {
  void* driver = ::dlopen(CUDA_STAND_IN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr) << ::dlerror();
  const auto pinned = reinterpret_cast<std::size_t (*)()>(::dlsym(driver, "stand_in_pinned"));
  const auto use = reinterpret_cast<int (*)(void*)>(::dlsym(driver, "cuCtxSetCurrent"));
  EXPECT_EQ(device_context(), nullptr) << "CUDA is not in use in this thread";
  int device = 0;
  use(&device);
  EXPECT_EQ(device_context(), &device);
  {
    auto saver = open();
    saver->reserve(5 << 20);
    while (pinned() == 0) std::this_thread::yield();
    EXPECT_EQ(pinned(), std::size_t{6} << 20) << "huge pages, by the thread behind";
    const auto placed = saver->place(5 << 20);
    EXPECT_EQ(pinned(), std::size_t{6} << 20);
    const std::vector<Source> sources = {{"model", {{*placed, 5 << 20}}}};
    ASSERT_TRUE(saver->save(1, sources, {}, {}));
    ASSERT_TRUE(saver->place(9 << 20));
    EXPECT_GE(pinned(), std::size_t{10} << 20);
  }
  EXPECT_EQ(pinned(), 0U);
  use(nullptr);
  ::dlclose(driver);
}

TEST_F(Saving, WhatWasAcceptedIsDurableWhenTheSaverIsGone) {
  ASSERT_TRUE(save(*open(), 9, content(1 << 20, 9)));
  EXPECT_EQ(latest(directory())->newest->step, 9U);
}

TEST_F(Saving, UnchangedPartsAreLinkedAndChangedOnesAreNot) {
  auto saver = open();
  const std::string frozen = content(2 << 20, 1);
  std::string model = content(2 << 20, 2);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    model[model.size() / 2 + step] ^= 1;  // most likely not in a page that is sampled
    ASSERT_TRUE(saver->save(step, std::vector<Source>{{"frozen", {frozen}}, {"model", {model}}}, {},
                            std::nullopt));
  }
  ASSERT_TRUE(saver->flush());
  EXPECT_EQ(durable()[0].written, 4U << 20);
  EXPECT_EQ(durable()[2].written, 2U << 20);
  EXPECT_EQ(durable()[2].bytes, 4U << 20);
  EXPECT_EQ(inode(durable()[0].path / "frozen"), inode(durable()[2].path / "frozen"));
  EXPECT_NE(inode(durable()[0].path / "model"), inode(durable()[2].path / "model"));
  const auto newest = latest(directory())->newest;
  ASSERT_TRUE(newest);
  EXPECT_TRUE(read_part(*newest, "frozen").value() == frozen);
  EXPECT_TRUE(read_part(*newest, "model").value() == model);
}

TEST_F(Saving, ABlockThatRotsTearsOneOfTwoNeighboursOnly) {
  auto saver = open({.last = 2});
  const std::string frozen = content(5000, 1);
  for (std::uint64_t step = 1; step <= 9; ++step) {
    const std::string model = std::to_string(step);  // what is saved has to outlive the call
    const std::vector<Source> sources = {{"frozen", {frozen}}, {"model", {model}}};
    ASSERT_TRUE(saver->save(step, sources, {}, std::nullopt));
  }
  ASSERT_TRUE(saver->flush());
  EXPECT_LT(durable()[8].written, 100U) << "linked";
  std::fstream file(directory() / directory_name(9) / "frozen");
  file.seekp(100) << "rot";
  file.close();
  const std::vector<fs::path> places = {directory()};
  const auto restored = restore(places);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(restored->newest->checkpoint.step, 8U);
}

// The part is as it was in the first of them, which is not there any more.
TEST_F(Saving, ACheckpointThatWasReplacedIsNotLinkedTo) {
  auto saver = open();
  for (const char* model : {"a", "b", "a", "a"}) {
    ASSERT_TRUE(save(*saver, 7, model));
    ASSERT_TRUE(saver->flush());
    EXPECT_EQ(read_part(*latest(directory())->newest, "model").value(), model);
  }
}

TEST_F(Saving, ALinkedPartOutlivesTheCheckpointThatItCameFrom) {
  auto saver = open({.last = 1});
  for (std::uint64_t step = 1; step <= 4; ++step) ASSERT_TRUE(save(*saver, step, "the same"));
  ASSERT_TRUE(saver->flush());
  EXPECT_EQ(names(directory()), (std::vector<std::string>{directory_name(4)}));
  EXPECT_EQ(read_part(*latest(directory())->newest, "model").value(), "the same");
}

// Somebody removed the checkpoint that would be linked to.
TEST_F(Saving, WhereThereIsNothingToLinkToItIsWrittenAgain) {
  auto saver = open();
  ASSERT_TRUE(save(*saver, 1, "the same"));
  ASSERT_TRUE(saver->flush());
  fs::remove_all(directory() / directory_name(1));
  ASSERT_TRUE(save(*saver, 2, "the same"));
  ASSERT_TRUE(saver->flush());
  EXPECT_EQ(read_part(*latest(directory())->newest, "model").value(), "the same");
}

TEST_F(Saving, KeepsTheBestAndTheMilestonesBesideTheLast) {
  auto saver = open({.last = 1, .every = 100, .best = 1});
  const double metrics[] = {0.1, 0.9, 0.2, 0.3, 0.4};
  std::uint64_t step = 0;
  for (const double metric : metrics) ASSERT_TRUE(save(*saver, step += 60, "m", metric));
  ASSERT_TRUE(saver->flush());
  // 120 is the first of the second hundred and the best, 240 the first of the third, 300 the last.
  EXPECT_EQ(names(directory()), (std::vector<std::string>{directory_name(120), directory_name(240),
                                                          directory_name(300)}));
}

TEST(Retention, NothingIsKeptBesideTheRuleButTheOneJustWrittenAlways) {
  const std::vector<Kept> all = {{10, 0.5}, {20, 0.1}, {30, {}}, {40, 0.3}};
  const auto keep = [&](Retention retention) { return kept(all, 40, retention); };
  using Steps = std::set<std::uint64_t>;
  EXPECT_EQ(keep({.last = 0}), (Steps{40}));
  EXPECT_EQ(keep({.last = 2}), (Steps{30, 40}));
  EXPECT_EQ(keep({.last = 1, .best = 1}), (Steps{10, 40}));
  EXPECT_EQ(keep({.last = 1, .best = 1, .higher_is_better = false}), (Steps{20, 40}));
  EXPECT_EQ(keep({.last = 1, .every = 15}), (Steps{20, 30, 40})) << "15.., 30.., and 40 the last";
  EXPECT_EQ(keep({.last = 9, .best = 9}), (Steps{10, 20, 30, 40}));
  EXPECT_EQ(kept(all, 10, {.last = 1}), (Steps{10})) << "a history that was rewound";
}

TEST_F(Saving, EveryPlaceGetsItAndTheNewestThatVerifiesIsTakenFromAny) {
  const fs::path fast = scratch_.path() / "fast";
  {
    auto saver = open_places({{fast, {.last = 1}}, {directory(), {.last = 3}}});
    for (std::uint64_t step = 1; step <= 2; ++step) {
      ASSERT_TRUE(save(*saver, step, content(2 << 20, step)));
    }
  }
  ASSERT_EQ(durable().size(), 4U);
  EXPECT_EQ(names(fast), (std::vector<std::string>{directory_name(2)}));
  const std::vector<fs::path> places = {fast, directory()};
  EXPECT_EQ(restore(places)->newest->checkpoint.path, fast / directory_name(2));
  fs::resize_file(fast / directory_name(2) / "model", 100);
  const auto other = restore(places);
  EXPECT_EQ(other->newest->checkpoint.path, directory() / directory_name(2));
  ASSERT_EQ(other->torn.size(), 1U);
  fs::remove_all(fast);  // another machine
  fs::remove(directory() / directory_name(2) / "model");
  EXPECT_EQ(restore(places)->newest->checkpoint.step, 1U);
}

TEST_F(Saving, TwoWritersOfOneDirectoryAreRefusedByName) {
  auto first = open();
  const auto again = Saver::open({{{directory(), {}}}, {}});
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("this very process"), std::string::npos);
  const pid_t child = ::fork();
  if (child == 0) {  // a process of its own: it inherits no record lock
    const auto file = directory() / ".writer";
    // The registry of this process is inherited; the kernel's word is what counts between two.
    ::execlp("/usr/bin/python3", "python3", "-c",
             "import fcntl, sys\n"
             "try: fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
             "except OSError: sys.exit(0)\n"
             "sys.exit(1)",
             file.c_str(), nullptr);
    ::_exit(2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "another process got the lock";
  ASSERT_TRUE(save(*first, 1, "first"));
  ASSERT_TRUE(first->flush());
  const auto beside = checkpoint::save(directory(), 2, std::vector<Part>{{"model", "second"}}, {});
  ASSERT_FALSE(beside) << "the simple way is a writer, too";
  EXPECT_NE(beside.error().message.find("another trainer"), std::string::npos);
  first.reset();
  EXPECT_TRUE(Saver::open({{{directory(), {}}}, {}})) << "free again";
}

// While the thread is busy, and while it waits for work.
TEST_F(Saving, AForkedChildNeitherSavesNorHangs) {
  auto saver = open();
  for (const bool idle : {false, true}) {
    ASSERT_TRUE(save(*saver, 1, "parent"));
    if (idle) {
      ASSERT_TRUE(saver->flush());
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);  // a child that hangs is one that dies
      const bool refused = !save(*saver, 2, "child");
      saver.reset();
      ::_exit(refused ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << (idle ? "idle" : "busy");
    ASSERT_TRUE(saver->flush());
    EXPECT_EQ(names(directory()), (std::vector<std::string>{directory_name(1)}));
  }
}

// A full or broken disk of the machine is no reason to lose what the volume could hold.
TEST_F(Saving, AFasterPlaceThatFailsIsDroppedAndCostsNothing) {
  const fs::path fast = scratch_.path() / "fast";
  const fs::path impossible = scratch_.path() / "file";
  test::write_file(impossible, "no directory");
  std::vector<std::string> trouble;
  Saver::Settings settings{{{impossible, {}}, {fast, {}}, {directory(), {}}}, {}, {}};
  settings.trouble = [&](const std::string& text) { trouble.push_back(text); };
  auto saver = Saver::open(std::move(settings));
  ASSERT_TRUE(saver) << saver.error().message;
  ASSERT_EQ(trouble.size(), 1U);
  EXPECT_NE(trouble[0].find(impossible.string()), std::string::npos) << trouble[0];
  fs::remove_all(fast);
  test::write_file(fast, "in the way");
  for (std::uint64_t step = 1; step <= 2; ++step) {
    ASSERT_TRUE(save(**saver, step, "model"));
    ASSERT_TRUE((*saver)->flush()) << "step " << step;
  }
  ASSERT_EQ(trouble.size(), 2U) << "reported once";
  EXPECT_NE(trouble[1].find(fast.string()), std::string::npos) << trouble[1];
  EXPECT_EQ(latest(directory())->newest->step, 2U);
  const std::vector<fs::path> places = {impossible, fast, directory()};
  const auto restored = restore(places);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(restored->newest->checkpoint.step, 2U);
}

// An allocation that fails within save(), each of them in turn.
TEST_F(Saving, WhereMemoryIsShortASaveFailsAndTheNextOneDoesNot) {
  auto saver = open();
  const std::vector<Source> sources = {{"model", {"weights"}}, {"log", {"a", "b"}}};
  const nlohmann::json meta;  // with content, nlohmann's destructor would allocate, and end it all
  int refused = 0;
  for (int failing = 0; failing < 100; ++failing) {
    bool saved = false;
    test::allocations_left = failing;
    try {
      saved = saver->save(2, sources, meta, {}).has_value();
    } catch (const std::bad_alloc&) {
    }
    const bool enough = test::allocations_left >= 0;
    test::allocations_left = -1;
    if (!saved) ++refused;
    if (enough) break;
  }
  EXPECT_GT(refused, 3) << "more than there are slots";
  ASSERT_TRUE(save(*saver, 3, "third"));
  ASSERT_TRUE(saver->flush());
  EXPECT_EQ(latest(directory())->newest->step, 3U);
}

TEST_F(Saving, AWriteThatFailsIsReportedOnceAndCostsNothingElse) {
  auto saver = open();
  ASSERT_TRUE(save(*saver, 1, "good"));
  ASSERT_TRUE(saver->flush());
  // A file where the directory was: nothing can be created below it.
  fs::rename(directory(), scratch_.path() / "away");
  test::write_file(directory(), "in the way");
  ASSERT_TRUE(save(*saver, 2, "lost"));
  const auto flushed = saver->flush();
  ASSERT_FALSE(flushed);
  EXPECT_NE(flushed.error().message.find(directory().string()), std::string::npos);
  fs::remove(directory());
  fs::rename(scratch_.path() / "away", directory());
  EXPECT_EQ(latest(directory())->newest->step, 1U);
  ASSERT_TRUE(save(*saver, 3, "good again"));
  ASSERT_TRUE(saver->flush());
  EXPECT_EQ(latest(directory())->newest->step, 3U);
}

TEST_F(Saving, BadNamesAreRefusedAtOnce) {
  auto saver = open();
  const auto refused = [&](std::vector<Source> sources) {
    return !saver->save(1, sources, {}, std::nullopt);
  };
  EXPECT_TRUE(refused({{"../x", {"a"}}}));
  EXPECT_TRUE(refused({{"a", {"x"}}, {"a", {"y"}}}));
  EXPECT_TRUE(refused({{"manifest.json", {"x"}}}));
  EXPECT_TRUE(saver->flush());
  EXPECT_FALSE(latest(directory())->newest);
}

}  // namespace
}  // namespace spotter::checkpoint
