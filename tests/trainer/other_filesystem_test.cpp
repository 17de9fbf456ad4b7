// libspotter in a program that gets remove_all() and the directory iterators of another library,
// which do not work (other_filesystem.cpp): as with PyTorch's libtorch.so.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "trainer/library/checkpoint.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/saver.hpp"

namespace spotter::checkpoint {
namespace {

namespace fs = std::filesystem;

class OtherFilesystem : public ::testing::Test {
 protected:
  OtherFilesystem() {
    std::string pattern = (fs::temp_directory_path() / "spotter-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    folder_ = pattern;
  }
  ~OtherFilesystem() override { EXPECT_TRUE(remove_tree(folder_)); }

  static void write(const fs::path& path, const std::string& text) {
    std::ofstream(path) << text;
    EXPECT_TRUE(fs::exists(path));
  }
  std::vector<std::string> names(const fs::path& folder) const {
    auto listed = list_names(folder_ / folder);
    if (!listed) return {listed.error().message};
    std::erase(*listed, ".writer");
    return *listed;
  }

  fs::path folder_;
};

TEST_F(OtherFilesystem, ThatOfTheStandardLibraryDoesNotWorkHere) {
  std::error_code error;
  EXPECT_DEATH(fs::remove_all(folder_ / "none", error), "");
  EXPECT_DEATH(fs::directory_iterator(folder_, error), "");
  EXPECT_DEATH(fs::recursive_directory_iterator(folder_, error), "");
}

TEST_F(OtherFilesystem, OlderCheckpointsAreRemoved) {
  auto saver = Saver::open({{{folder_ / "c", {.last = 2}}}, {}});
  ASSERT_TRUE(saver) << saver.error().message;
  for (std::uint64_t step = 1; step <= 5; ++step) {
    const std::vector<Source> sources = {{"model", {"weights"}}};
    ASSERT_TRUE((*saver)->save(step, sources, {}, {}));
    ASSERT_TRUE((*saver)->flush());
  }
  EXPECT_EQ(names("c"), (std::vector{directory_name(4), directory_name(5)}));
}

TEST_F(OtherFilesystem, WhatAKilledWriterLeftIsRemoved) {
  const fs::path left = folder_ / (std::string(kTemporary) + directory_name(3) + "-1-0");
  fs::create_directories(left / "inner");
  write(left / "inner/part", "half");
  remove_leftovers(folder_);
  EXPECT_TRUE(names("").empty());
}

TEST_F(OtherFilesystem, AFolderBecomesDurableWithAllInIt) {
  fs::create_directories(folder_ / "checkpoint-1/inner/empty");
  write(folder_ / "checkpoint-1/a", "123");
  write(folder_ / "checkpoint-1/inner/b", "45");
  fs::create_symlink("/nowhere", folder_ / "checkpoint-1/link");
  ASSERT_EQ(::mkfifo((folder_ / "checkpoint-1/fifo").c_str(), 0600), 0);
  const auto bytes = make_durable(folder_ / "checkpoint-1/");
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(*bytes, 5);
  EXPECT_EQ(make_durable(folder_ / "checkpoint-1/a").value_or(0), 3);
  EXPECT_FALSE(make_durable(folder_ / "checkpoint-2"));
}

TEST_F(OtherFilesystem, RemovalFollowsNoLinkAndRemovesTheRestOfWhatItMay) {
  fs::create_directories(folder_ / "kept");
  write(folder_ / "kept/file", "kept");
  fs::create_directories(folder_ / "gone/inner");
  fs::create_directory_symlink(folder_ / "kept", folder_ / "gone/inner/link");
  fs::create_directory_symlink(folder_ / "kept", folder_ / "gone-link");
  EXPECT_TRUE(remove_tree(folder_ / "gone"));
  EXPECT_TRUE(remove_tree(folder_ / "gone-link"));
  EXPECT_TRUE(remove_tree(folder_ / "never-there"));
  EXPECT_EQ(names(""), std::vector<std::string>{"kept"});
  EXPECT_EQ(names("kept"), std::vector<std::string>{"file"});
  EXPECT_FALSE(remove_tree(folder_ / "kept/file/below"));
  EXPECT_EQ(errno, ENOTDIR);
}

}  // namespace
}  // namespace spotter::checkpoint
