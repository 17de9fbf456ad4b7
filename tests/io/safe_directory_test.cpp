// Root's work where somebody else may write: also without openat2(2), as in a sandbox.
#include "agent/io/safe_directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/io/no_openat2.hpp"

namespace spotter::io {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class BeneathIt : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/spotter-beneath-XXXXXX";
    top_ = ::mkdtemp(name);
    root_ = top_ / "root";
    outside_ = top_ / "outside";
    fs::create_directories(root_ / "deep/er");
    fs::create_directories(outside_);
    std::ofstream(root_ / "deep/file") << "inside";
    std::ofstream(outside_ / "file") << "outside";
    fs::create_directory_symlink(outside_, root_ / "away");
    fs::create_symlink(outside_ / "file", root_ / "link");
    ASSERT_EQ(::mkfifo((root_ / "fifo").c_str(), 0600), 0);
  }
  void TearDown() override { fs::remove_all(top_); }

  // The first thing that is wrong; empty: nothing.
  std::string wrong_in_reading() const {
    const auto at = SafeDirectory::open(root_);
    if (!at) return "the directory is not opened";
    if (at->read("deep/file", 6).value_or("") != "inside") return "a file is not read";
    if (at->read("deep/file", 5).error() != std::errc::file_too_large) return "it has a limit";
    if (at->read("fifo", 9).error() != std::errc::invalid_argument) return "a FIFO is read";
    for (const char* name : {"away/file", "link", "deep/../../outside/file", "../outside/file"})
      if (at->read(name, 99)) return std::string("is read: ") + name;
    if (at->read((outside_ / "file").string(), 99)) return "an absolute path is followed";
    if (at->read("deep/../deep/file", 99)) return "a path goes up";
    if (at->read("none", 9).error() != std::errc::no_such_file_or_directory) return "none";
    if (!S_ISLNK(at->look("link")->st_mode)) return "a link is not seen";
    if (at->names().value_or(std::vector<std::string>()).size() != 4) return "names";
    return at->folder("away") ? "a folder's link is followed" : "";
  }
  std::string wrong_in_writing() const {
    const auto at = SafeDirectory::open(root_);
    if (!at) return "the directory is not opened";
    if (at->write("away/new", "x", 0644)) return "is written through a folder's link";
    if (at->make_folder("away/folder", 0755)) return "a folder is made through a link";
    if (at->remove("away/file")) return "is removed through a link";
    if (at->remove_folder("away")) return "a link is no folder";
    if (at->rename("away/file", *at, "mine")) return "is taken through a link";
    if (at->rename("deep/file", *at, "away/file")) return "is moved through a link";
    if (!at->write("link", "x", 0640)) return "a name that is a link cannot be replaced";
    if (content(root_ / "link") != "x" || fs::is_symlink(root_ / "link")) return "not replaced";
    if (!at->make_folder("deep/made", 0755)) return "a folder is not made";
    if (!at->make_folder("deep/made", 0755)) return "one that exists is not opened";
    if (at->make_folder("away", 0755)) return "a link stands for a folder";
    if (!at->rename("deep/file", *at, "moved") || content(root_ / "moved") != "inside")
      return "not moved";
    for (const char* name : {"", ".", "..", "deep/..", "deep/"})
      if (at->remove(name) || at->write(name, "x", 0644)) return "a name that is none";
    if (!at->remove("moved") || !at->remove_folder("deep/made")) return "not removed";
    if (at->names()->size() != 4) return "a temporary file is left";
    return content(outside_ / "file") == "outside" && !fs::exists(outside_ / "new") ? ""
                                                                                    : "outside";
  }

  fs::path top_, root_, outside_;
};

TEST_F(BeneathIt, ReadsWhatIsThereAndFollowsNothingOut) { EXPECT_EQ(wrong_in_reading(), ""); }
TEST_F(BeneathIt, WritesNothingThatLiesElsewhere) { EXPECT_EQ(wrong_in_writing(), ""); }

TEST_F(BeneathIt, DoesBothWithoutOpenat2) {
  EXPECT_TRUE(is_good_without_openat2([this] {
    const std::string wrong = wrong_in_reading();
    return wrong.empty() ? wrong_in_writing() : wrong;
  }));
}

TEST_F(BeneathIt, NamesWhatAPatternMatchesAndNothingBehindALink) {
  using Names = std::vector<std::string>;
  std::ofstream(root_ / "deep/er/file");
  std::ofstream(root_ / "deep/er/.file");
  std::ofstream(root_ / "deep/er/file2");
  const auto at = SafeDirectory::open(root_);
  ASSERT_TRUE(at);
  EXPECT_EQ(at->matching("*/*/*e", 9), Names({"deep/er/file"}));
  EXPECT_EQ(at->matching("[ad]*/er/?ile", 9), Names({"deep/er/file"}));
  EXPECT_EQ(at->matching("*/file", 9), Names({"deep/file"}));
  EXPECT_EQ(at->matching("./deep//file", 9), Names({"deep/file"}));
  EXPECT_EQ(at->matching("deep/er/file*", 9).size(), 2U);
  EXPECT_EQ(at->matching("deep/er/file*", 3).size(), 1U);
  EXPECT_EQ(at->matching("deep/none", 9), Names({"deep/none"}));
  EXPECT_EQ(at->matching("away/file", 9), Names());
  EXPECT_EQ(at->matching("*/../*", 9), Names());
  EXPECT_EQ(at->matching("", 9), Names());
}

// In /tmp and /dev/shm anybody can make a folder of a name that can be guessed.
TEST_F(BeneathIt, TakesForItsOwnNoFolderThatAnotherCouldHaveMade) {
  EXPECT_TRUE(SafeDirectory::own(root_));
  EXPECT_TRUE(SafeDirectory::own(root_ / ""));
  for (const char* end : {"", "/"}) {
    const auto link = SafeDirectory::own((root_ / "away").string() + end);
    ASSERT_FALSE(link) << end;
    EXPECT_EQ(link.error(), std::errc::not_a_directory);
  }
  EXPECT_FALSE(SafeDirectory::own(root_ / "deep/file"));
  EXPECT_EQ(SafeDirectory::own(root_ / "none").error(), std::errc::no_such_file_or_directory);
  for (const mode_t mode : {0770, 0707, 01777}) {
    ASSERT_EQ(::chmod(outside_.c_str(), mode), 0);
    EXPECT_EQ(SafeDirectory::own(outside_).error(), std::errc::operation_not_permitted) << mode;
  }
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's folder";
  ASSERT_EQ(::chmod(outside_.c_str(), 0700), 0);
  ASSERT_TRUE(SafeDirectory::own(outside_));
  ASSERT_EQ(::chown(outside_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(SafeDirectory::own(outside_).error(), std::errc::operation_not_permitted);
  EXPECT_EQ(owner_in_words(outside_), "nobody (uid 65534)");
  EXPECT_EQ(user_in_words(61184), "uid 61184") << "nobody's";
}

TEST_F(BeneathIt, StaysWithTheDirectoryThatWasOpened) {
  const auto at = SafeDirectory::open(root_);
  ASSERT_TRUE(at);
  fs::rename(root_, top_ / "elsewhere");
  fs::create_directory_symlink(outside_, root_);
  ASSERT_TRUE(at->write("mine", "x", 0600));
  EXPECT_EQ(content(top_ / "elsewhere/mine"), "x");
  EXPECT_FALSE(fs::exists(outside_ / "mine"));
}

}  // namespace
}  // namespace spotter::io
