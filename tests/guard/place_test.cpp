// Files are reached without ever following a link, also where a sandbox takes openat2(2) away.
#include "agent/guard/place.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/io/no_openat2.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

// Says what was wrong; empty: nothing.
std::string wrong_in(const fs::path& root) {
  const auto place = Place::open({root, "saved/here", "*.bin"});
  if (!place) return place.error().message;
  const auto fails_with = [&place](const std::string& name, int flags, int one, int other) {
    return !place->open(name, flags) && (errno == one || errno == other);
  };
  if (!place->open("", O_RDONLY | O_DIRECTORY)) return "the directory itself is not opened";
  if (!place->open("sub/epoch.bin", O_RDONLY)) return "a file in a folder is not opened";
  const auto seen = place->list();
  const Member* file = seen ? seen->find("sub/epoch.bin") : nullptr;
  if (file == nullptr || file->role != Role::Member) return "not listed";
  const Member* link = seen->find("link.bin");
  if (link == nullptr || link->link.empty() || seen->find("away/secret.bin") != nullptr)
    return "a link is not listed as one";
  if (!fails_with("link.bin", O_RDONLY, ELOOP, ELOOP)) return "a link is followed";
  if (!place->open("link.bin", O_PATH | O_NOFOLLOW)) return "the link itself is not opened";
  if (!fails_with("away/secret.bin", O_RDONLY, ELOOP, ENOTDIR))
    return "a folder's link is followed";
  if (!fails_with("../../../x", O_RDONLY, EXDEV, EXDEV)) return "it leaves the mount";
  if (!fails_with("none.bin", O_RDONLY, ENOENT, ENOENT)) return "what is not there is opened";
  return {};
}

class Places : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/spotter-place-XXXXXX";
    root_ = ::mkdtemp(name);
    fs::create_directories(root_ / "saved/here/sub");
    fs::create_directories(root_ / "outside");
    for (const char* file : {"saved/here/sub/epoch.bin", "outside/secret.bin"})
      std::ofstream(root_ / file) << "x";
    fs::create_symlink(root_ / "outside/secret.bin", root_ / "saved/here/link.bin");
    fs::create_directory_symlink(root_ / "outside", root_ / "saved/here/away");
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path root_;
};

TEST_F(Places, FollowsNoLinkAndStaysBelowTheMount) { EXPECT_EQ(wrong_in(root_), ""); }

TEST_F(Places, DoesSoWithoutOpenat2) {
  EXPECT_TRUE(io::is_good_without_openat2([this] { return wrong_in(root_); }));
}

}  // namespace
}  // namespace spotter::guard
