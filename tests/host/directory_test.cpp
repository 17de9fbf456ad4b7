// The ordinary user's form of it all: a volume is a directory, a mount is a symlink. Runs
// everywhere.
#include <pwd.h>

#include "agent/host/device.hpp"
#include "agent/host/host.hpp"
#include "agent/host/mount.hpp"
#include "disk.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class DirectoryDevice : public Directory {
 protected:
  void SetUp() override {
    Directory::SetUp();
    fs::create_directory(device());
    if (const auto* entry = ::getpwuid(::geteuid())) user_ = entry->pw_name;
    if (user_.empty()) GTEST_SKIP() << "our own user has no name";
  }
  fs::path device() const { return directory_ / "vol-0"; }
  fs::path mount_point() const { return directory_ / "instance" / "mnt"; }
  verbs::Mount request() const {
    return {.device = device(),
            .filesystem = "xfs",
            .mount_point = mount_point(),
            .volume = "vol-0123456789abcdef0",
            .user = user_};
  }
  std::string user_;
};

TEST_F(DirectoryDevice, IsFormattedMountedLookedAtAndUnmounted) {
  EXPECT_TRUE(inspect(device())->blank);
  EXPECT_EQ(kind_of(mount(request())), "not-formatted");
  const auto made = format(device(), "xfs");
  ASSERT_TRUE(made) << words_of(made);
  EXPECT_EQ(made->filesystem, "xfs");
  EXPECT_EQ(kind_of(format(device(), "xfs")), "not-blank");
  const auto mounted = mount(request());
  ASSERT_TRUE(mounted) << words_of(mounted);
  EXPECT_TRUE(fs::is_symlink(mount_point()));
  EXPECT_TRUE(fs::is_directory(device() / "checkpoints"));
  EXPECT_TRUE(mount(request())->already);
  EXPECT_EQ(look(mount_point())->volume, "vol-0123456789abcdef0");
  EXPECT_EQ(look(mount_point())->device, device().string());
  EXPECT_TRUE(unmount(mount_point(), 0s).value());
  EXPECT_FALSE(look(mount_point())->mounted);
  EXPECT_FALSE(unmount(mount_point(), 0s).value());
  EXPECT_TRUE(fs::exists(device() / ".spotter/volume.json"));
}

TEST_F(DirectoryDevice, ReplacesAnEmptyMountPointOnly) {
  ASSERT_TRUE(format(device(), "xfs"));
  fs::create_directories(mount_point());
  ASSERT_TRUE(mount(request()));
  ASSERT_TRUE(unmount(mount_point(), 0s));
  write("instance/mnt/precious", "x");
  EXPECT_EQ(kind_of(mount(request())), "mount-point-busy");
  EXPECT_TRUE(fs::exists(mount_point() / "precious"));
}

TEST_F(DirectoryDevice, HasALinkToItsContainerWhereNothingElseIs) {
  ASSERT_TRUE(format(device(), "xfs"));
  const fs::path link = directory_ / "opt" / "ml";
  auto with_link = request();
  with_link.directories.emplace_back("ml");
  with_link.container = "ml";
  with_link.link = link;
  for (int again = 0; again < 2; ++again) {
    const auto mounted = mount(with_link);
    ASSERT_TRUE(mounted) << words_of(mounted);
    EXPECT_EQ(fs::read_symlink(link), mount_point() / "ml");
  }
  fs::remove(link);
  fs::create_symlink("/where/it/was/before", link);
  ASSERT_TRUE(mount(with_link));
  EXPECT_EQ(fs::read_symlink(link), mount_point() / "ml");
  remove_link(link, directory_ / "elsewhere");
  EXPECT_TRUE(fs::is_symlink(link)) << "another mount's";
  remove_link(link, mount_point());
  EXPECT_FALSE(fs::is_symlink(link));
  remove_link(link, mount_point());  // there is none
  write("opt/ml/thesis.tex", "x");
  remove_link(link, mount_point());
  EXPECT_EQ(kind_of(mount(with_link)), "layout-unusable");
  EXPECT_TRUE(fs::exists(link / "thesis.tex"));
}

TEST_F(DirectoryDevice, WithFilesOfSomebodyElseIsForeign) {
  write("vol-0/thesis.tex", "x");
  EXPECT_FALSE(inspect(device())->blank);
  EXPECT_EQ(kind_of(format(device(), "xfs")), "not-blank");
  EXPECT_EQ(kind_of(mount(request())), "foreign-signature");
}

TEST_F(DirectoryDevice, IsNotUnmountedWhenItIsJustSomeSymlink) {
  fs::create_directories(directory_ / "data");
  fs::create_symlink(directory_ / "data", directory_ / "link");
  EXPECT_FALSE(unmount(directory_ / "link", 0s).value());
  EXPECT_TRUE(fs::is_symlink(directory_ / "link"));
}

TEST_F(DirectoryDevice, VerifyFindsTheNewestWholeCheckpoint) {
  const auto checkpoints = directory_ / "checkpoints";
  const auto verify = [&](bool read_only) {
    return verify_checkpoints({directory_, "checkpoints", read_only});
  };
  EXPECT_FALSE(verify(false)->newest.has_value()) << "no directory yet";
  write("checkpoints/model.pt", "a trainer that knows nothing of us");
  EXPECT_FALSE(verify(false)->newest.has_value());
  for (const std::uint64_t step : {100U, 200U}) {
    const checkpoint::Part part{"model.bin", "weights"};
    ASSERT_TRUE(checkpoint::save(checkpoints, step, {&part, 1}, {}));
  }
  EXPECT_EQ(verify(false)->newest, 200U);
  EXPECT_TRUE(verify(false)->said.empty());
  ASSERT_EQ(verify(true)->said.size(), 1U) << "of a copy each block is cold: it is read first";
  EXPECT_NE(verify(true)->said[0].find("7 B, is read"), std::string::npos);
  write("checkpoints/step-000000000200/model.bin", "weighty");
  const auto looked = verify(true);
  EXPECT_EQ(looked->newest, 100U);
  EXPECT_EQ(looked->torn.size(), 1U);
  EXPECT_TRUE(fs::exists(checkpoints / "step-000000000200")) << "read-only moves nothing";
  const auto moved = verify(false);
  EXPECT_EQ(moved->newest, 100U);
  EXPECT_EQ(moved->path, checkpoints / "step-000000000100");
  EXPECT_EQ(moved->torn.size(), 1U);
  EXPECT_FALSE(fs::exists(checkpoints / "step-000000000200"));
}

// Four terabytes of which nothing is on the disk.
TEST_F(DirectoryDevice, VerifyReadsNoFileThatNobodyWrote) {
  const checkpoint::Part part{"model.bin", "weights"};
  for (const std::uint64_t step : {100U, 200U, 300U})
    ASSERT_TRUE(checkpoint::save(directory_ / "checkpoints", step, {&part, 1}, {}, {.last = 3}));
  const auto at = [&](const char* name) { return directory_ / "checkpoints" / name; };
  fs::resize_file(at("step-000000000300/manifest.json"), 4ULL << 40);
  const checkpoint::Manifest large{
      200, {{"model.bin", 4ULL << 40, checkpoint::sum_of("x")}}, {}, {}};
  write("checkpoints/step-000000000200/manifest.json", encode(large));
  fs::resize_file(at("step-000000000200/model.bin"), 4ULL << 40);
  const auto seen = verify_checkpoints({directory_, "checkpoints", true});
  ASSERT_TRUE(seen) << words_of(seen);
  EXPECT_EQ(seen->newest, 100U);
  EXPECT_EQ(seen->torn.size(), 2U);
}

}  // namespace
}  // namespace spotter::act::host
