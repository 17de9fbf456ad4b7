#include "agent/io/files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

namespace spotter::io {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "spotter-files-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_), {}));
  }
  fs::path directory_;
};

TEST_F(Files, AreReplacedWholeWithTheModeAskedFor) {
  const auto path = directory_ / "status.json";
  ASSERT_TRUE(atomic_write(path, "one", 0600));
  ASSERT_TRUE(atomic_write(path, std::string(200'000, 'x'), 0664));
  EXPECT_EQ(read_file(path, 1U << 20).value(), std::string(200'000, 'x'));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0664U);
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Files, ThatCannotBeReplacedStayAndLeaveNoTemporaryOne) {
  fs::create_directory(directory_ / "taken");
  const auto written = atomic_write(directory_ / "taken", "x", 0600);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error(), std::errc::is_a_directory);
  EXPECT_EQ(entries(), 1U);
  EXPECT_EQ(atomic_write(directory_ / "none" / "x", "x", 0600).error(),
            std::errc::no_such_file_or_directory);
}

TEST_F(Files, LongerThanTheLimitAreRefused) {
  ASSERT_TRUE(atomic_write(directory_ / "a", "12345", 0600));
  EXPECT_EQ(read_file(directory_ / "a", 5).value(), "12345");
  EXPECT_EQ(read_file(directory_ / "a", 4).error(), std::errc::file_too_large);
  EXPECT_EQ(read_file(directory_ / "b", 4).error(), std::errc::no_such_file_or_directory);
}

TEST_F(Files, AFifoDoesNotHangTheReader) {
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(read_file(directory_ / "fifo", 10).error(), std::errc::invalid_argument);
}

// Root copies a folder that others may change: neither what they could not read, nor a wait.
TEST_F(Files, ALinkOfAnotherUserLeadsToNothingThatItsOwnerCouldNotRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes files of others";
  const auto link = directory_ / "link";
  const auto of = [&](uid_t owner, mode_t mode, uid_t links) {
    ::unlink(link.c_str());
    EXPECT_TRUE(atomic_write(directory_ / "file", "1", mode));
    EXPECT_EQ(::chown((directory_ / "file").c_str(), owner, owner), 0);
    fs::create_symlink("file", link);
    EXPECT_EQ(::lchown(link.c_str(), links, links), 0);
    const auto opened = open_for_reading(link);
    return opened ? std::error_code() : opened.error();
  };
  EXPECT_EQ(of(0, 0600, 1), std::errc::operation_not_permitted);
  EXPECT_EQ(of(2, 0640, 1), std::errc::operation_not_permitted);
  EXPECT_FALSE(of(0, 0644, 1)) << "a folder of data that all may read";
  EXPECT_FALSE(of(1, 0600, 1)) << "its own";
  EXPECT_FALSE(of(2, 0600, 0)) << "root's link";
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(open_for_reading(directory_ / "fifo").error(), std::errc::invalid_argument);
  EXPECT_TRUE(open_for_reading(directory_ / "file"));
}

TEST_F(Files, DirectoriesAreMadeWithTheirParents) {
  ASSERT_TRUE(make_directories(directory_ / "a" / "b" / "c", 0750));
  ASSERT_TRUE(make_directories(directory_ / "a" / "b" / "c", 0750));
  EXPECT_TRUE(fs::is_directory(directory_ / "a" / "b" / "c"));
  ASSERT_TRUE(atomic_write(directory_ / "file", "", 0600));
  EXPECT_EQ(make_directories(directory_ / "file" / "x", 0750).error(), std::errc::not_a_directory);
  EXPECT_TRUE(fsync_directory(directory_));
  EXPECT_FALSE(fsync_directory(directory_ / "file"));
}

}  // namespace
}  // namespace spotter::io
