// Files that cannot be read, or were written by a newer Spotter: none of them is moved, forgotten
// or removed, and what is kept of them stays.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/guard/folder.hpp"
#include "tests/trainer/contents.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

// Runs as a user who can be refused something: root may read everything.
class UnreadFiles : public Folder {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) return;
    for (const auto& entry : fs::recursive_directory_iterator(mount_)) own(entry.path());
    own(mount_);
    ASSERT_EQ(::seteuid(nobody), 0);
  }
  void TearDown() override {
    if (::geteuid() == nobody) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }
  static constexpr uid_t nobody = 65534;
  static void own(const fs::path& path) { ASSERT_EQ(::chown(path.c_str(), nobody, nobody), 0); }

  void finish(const std::string& name, const std::string& bytes) const {
    Keeper watched = keeper();
    ASSERT_TRUE(watched.begin());
    write(name, bytes);
    record(watched, name);
    ASSERT_TRUE(watched.settle(false));
  }
  std::map<std::string, std::string> own_files() const {
    return test::contents(mount_ / ".spotter");
  }

  // With no permission for it, whoever settles finds nothing out and changes nothing.
  void expect_untouched(const fs::path& unread, mode_t mode) const {
    const auto before = own_files();
    struct stat was {};
    ASSERT_EQ(::stat(unread.c_str(), &was), 0);
    ASSERT_EQ(::chmod(unread.c_str(), mode), 0);
    auto opened = keeper();
    EXPECT_FALSE(opened.settle(true));
    EXPECT_FALSE(opened.prove());
    ASSERT_EQ(::chmod(unread.c_str(), was.st_mode), 0);
    EXPECT_EQ(own_files(), before);
    EXPECT_EQ(set_aside(), 0U);
  }
};

TEST_F(UnreadFiles, AFolderWhoseFilesCannotBeLookedAtIsNotEmpty) {
  finish("sub/epoch-1.bin", "one");
  finish("sub/epoch-2.bin", "two");
  expect_untouched(path("sub"), 0400);
  EXPECT_EQ(settle().newest, 2U);
}

TEST_F(UnreadFiles, TheNewestIsNotTorn) {
  finish("epoch-1.bin", "one");
  expect_untouched(path("epoch-1.bin"), 0);
  EXPECT_EQ(settle().newest, 1U);
}

// Somebody was watching when the machine was lost: one file was overwritten, another is new.
TEST_F(UnreadFiles, NorIsOneThatWasOverwritten) {
  finish("epoch-1.bin", "one");
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  write("epoch-1.bin", "one and more");
  const auto before = own_files();
  ASSERT_EQ(::chmod(path("epoch-1.bin").c_str(), 0), 0);
  EXPECT_FALSE(keeper().settle(true));
  EXPECT_EQ(own_files(), before);
  ASSERT_EQ(::chmod(path("epoch-1.bin").c_str(), 0644), 0);
  settle();
  EXPECT_EQ(read("epoch-1.bin"), "one");
}

TEST_F(UnreadFiles, AnUnknownOneIsLeftAndSaid) {
  for (const bool watching : {false, true}) {
    finish("epoch-1.bin", "one");
    Keeper lost = keeper();
    if (watching) {
      ASSERT_TRUE(lost.begin());
    }
    write("epoch-2.bin", "two");
    ASSERT_EQ(::chmod(path("epoch-2.bin").c_str(), 0), 0);
    const Settled settled = settle();
    EXPECT_EQ(settled.newest, 1U);
    ASSERT_EQ(settled.said.size(), 1U);
    EXPECT_NE(settled.said[0].find("cannot be read"), std::string::npos);
    EXPECT_TRUE(exists("epoch-2.bin"));
    EXPECT_EQ(set_aside(), 0U);
    remove("epoch-2.bin");
  }
}

TEST_F(UnreadFiles, ACopyThatCannotBeReadIsNotForgotten) {
  finish("epoch-1.bin", "one");
  Keeper lost = keeper();
  ASSERT_TRUE(lost.begin());
  write("epoch-1.bin", "torn");
  const fs::path kept = mount_ / ".spotter/kept" / lost.record().rows.front().kept;
  const auto before = own_files();
  ASSERT_EQ(::chmod(kept.c_str(), 0), 0);
  EXPECT_FALSE(keeper().settle(true));
  ASSERT_EQ(::chmod(kept.c_str(), 0644), 0);
  EXPECT_EQ(own_files(), before);
  settle();
  EXPECT_EQ(read("epoch-1.bin"), "one");
}

TEST_F(UnreadFiles, TheAccountWhoseStepsCannotBeReadSaysNotZero) {
  std::ofstream(mount_ / ".spotter/ledger.json") << R"({"newest_step": 1000})";
  ASSERT_EQ(::chmod((mount_ / ".spotter/ledger.json").c_str(), 0), 0);
  EXPECT_FALSE(Keeper::open(where()));
}

TEST_F(UnreadFiles, TheRecordOfANewerSpotterIsRefused) {
  finish("epoch-1.bin", "one");
  const fs::path record = mount_ / ".spotter/checkpoints.json";
  const std::string newer = newer_record(test::read_file(record));
  test::write_file(record, newer);
  const auto before = own_files();
  const auto refused = Keeper::open(where());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("written by a newer Spotter"), std::string::npos);
  EXPECT_EQ(own_files(), before);
}

}  // namespace
}  // namespace spotter::guard
