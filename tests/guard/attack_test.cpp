// A trainer can do nothing to a guard that is root. `.spotter` may be the trainer's own, its
// folders links, its files executables with mode 4755 or second names of somebody else's.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/guard/folder.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

constexpr uid_t trainer = 65534;

class Attack : public Folder {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be misled like that";
    outside_ = mount_.string() + "-outside";
    fs::create_directories(outside_);
    std::ofstream(outside_ / "000001") << "of the system";
    ASSERT_EQ(::chown((mount_ / "ckpt").c_str(), trainer, trainer), 0);
  }
  void TearDown() override {
    EXPECT_EQ(std::distance(fs::directory_iterator(outside_), fs::directory_iterator()), 1);
    EXPECT_EQ(fs::file_size(outside_ / "000001"), 13U);
    fs::remove_all(outside_);
  }
  fs::path own(const std::string& name) const { return mount_ / ".spotter" / name; }
  void write_as_trainer(const std::string& name, mode_t mode) const {
    write(name, "content");
    ASSERT_EQ(::chown(path(name).c_str(), trainer, trainer), 0);
    ASSERT_EQ(::chmod(path(name).c_str(), mode), 0);
  }
  static struct stat status_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status;
  }
  // All that a guard does, as far as it comes.
  void work() const {
    auto keeper = Keeper::open(where());
    if (!keeper) return;
    (void)keeper->begin();
    if (auto captured = keeper->capture([](const std::string&) { return false; }))
      (void)keeper->finish(*std::move(captured));
    (void)keeper->settle(true);
  }
  fs::path outside_;
};

TEST_F(Attack, ALinkInThePlaceOfKeptOrTornLeadsNowhere) {
  write_as_trainer("epoch-1.bin", 0644);
  for (const char* name : {kept_directory, torn_directory}) {
    fs::remove_all(own(name));
    fs::create_directory_symlink(outside_, own(name));
    EXPECT_FALSE(keeper().begin()) << name;
    work();
    fs::remove(own(name));
  }
}

TEST_F(Attack, AFolderOfSomebodyElseIsNotOurs) {
  write_as_trainer("epoch-1.bin", 0644);
  fs::create_directory(own(kept_directory));
  std::ofstream(own(kept_directory) / "000009") << "x";
  ASSERT_EQ(::chown(own("").parent_path().c_str(), trainer, trainer), 0);
  const auto opened = Keeper::open(where());
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find(".spotter"), std::string::npos);
  EXPECT_TRUE(fs::exists(own(kept_directory) / "000009"));
  Where share = where();
  share.as_trainer = true;
  EXPECT_TRUE(Keeper::open(share)) << "on a share it is the trainer's";
}

TEST_F(Attack, ACopyIsItsOwnersAndNeverSetuid) {
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  write_as_trainer("epoch-1.bin", 06755);
  record(watched, "epoch-1.bin");
  const auto kept = status_of(own(kept_directory) / watched.record().rows.front().kept);
  EXPECT_EQ(kept.st_mode & 07777, 0755U);
  EXPECT_EQ(kept.st_uid, trainer);
  write("epoch-1.bin", "torn");
  settle();
  EXPECT_EQ(read("epoch-1.bin"), "content");
  EXPECT_EQ(status_of(path("epoch-1.bin")).st_mode & 07777, 0755U);
  EXPECT_EQ(status_of(path("epoch-1.bin")).st_uid, trainer);
}

TEST_F(Attack, ASecondNameOfSomebodysFileIsLeftAlone) {
  std::ofstream(mount_ / "secret") << "root's";
  ASSERT_EQ(::chmod((mount_ / "secret").c_str(), 0600), 0);
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  fs::create_hard_link(mount_ / "secret", path("epoch-1.bin"));
  const auto none = [](const std::string&) { return false; };
  const auto captured = watched.capture(none);
  ASSERT_TRUE(captured);
  EXPECT_TRUE(captured->rows.empty());
  ASSERT_EQ(captured->left_out.size(), 1U);
  EXPECT_NE(captured->left_out[0].words.find("another name elsewhere"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(own(kept_directory)));
  write_as_trainer("epoch-2.bin", 0644);
  fs::create_hard_link(path("epoch-2.bin"), path("last.bin"));
  EXPECT_EQ(watched.capture(none)->rows.size(), 2U) << "the trainer's own may";
}

// `.spotter` and its folder change places with links to a folder of the system, all the time.
TEST_F(Attack, NoRaceOfNamesLeadsOut) {
  write_as_trainer("epoch-1.bin", 04755);
  fs::create_directory_symlink(outside_, mount_ / "link");
  std::atomic<bool> over = false;
  std::thread other([&] {
    const auto exchange = [&](const fs::path& name) {
      ::renameat2(AT_FDCWD, (mount_ / "link").c_str(), AT_FDCWD, name.c_str(), RENAME_EXCHANGE);
    };
    while (!over) {
      for (const fs::path& name : {own(kept_directory), own(torn_directory), mount_ / "ckpt"}) {
        exchange(name);
        exchange(name);
      }
    }
  });
  for (int i = 0; i < 100; ++i) work();
  over = true;
  other.join();
}

}  // namespace
}  // namespace spotter::guard
