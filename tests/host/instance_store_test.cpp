// The machine's own disks as a cache, by a /sys made for it; a loop device stands for a disk.
#include "agent/host/mount.hpp"

#include <sys/mount.h>

#include "agent/host/device.hpp"
#include "agent/host/mounts.hpp"
#include "agent/host/share.hpp"
#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

class InstanceStore : public Disk {
 protected:
  void SetUp() override {
    Disk::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    fs::create_directories(directory_ / "dev");
    fs::create_symlink(loop_->path(), directory_ / "dev/nvme1n1");
    disk("nvme0n1", "Amazon Elastic Block Store", 100);
    disk("nvme1n1", "Amazon EC2 NVMe Instance Storage", 1000);
  }
  void TearDown() override {
    ::umount2((directory_ / "cache").c_str(), MNT_DETACH);
    ::umount2((directory_ / "nvme").c_str(), MNT_DETACH);
    Disk::TearDown();
  }
  void disk(const std::string& name, const std::string& model, int sectors) const {
    write("sys/block/" + name + "/device/model", model + "        \n");
    write("sys/block/" + name + "/size", std::to_string(sectors) + "\n");
  }
  Result<std::string> make_it(const fs::path& images = "/opt/dlami/nvme") const {
    const Machine machine{directory_ / "dev", directory_ / "sys", images};
    return make_cache(directory_ / "cache/job", machine, find_user("nobody").value());
  }
};

TEST_F(InstanceStore, IsKnownByItsModelAndTheLargestComesFirst) {
  fs::create_symlink(loop_->path(), directory_ / "dev/nvme0n1");
  fs::create_symlink(loop_->path(), directory_ / "dev/nvme3n1");
  disk("nvme2n1", "Amazon EC2 NVMe Instance Storage", 9000);  // udev is behind: no node
  disk("nvme3n1", "Amazon EC2 NVMe Instance Storage", 2000);
  const std::vector<fs::path> wanted{directory_ / "dev/nvme3n1", directory_ / "dev/nvme1n1"};
  EXPECT_EQ(instance_store_disks(directory_ / "dev", directory_ / "sys"), wanted);
}

TEST_F(InstanceStore, ABlankDiskBecomesTheUsersCacheAndStaysItAfterAReboot) {
  const auto made = make_it();
  ASSERT_TRUE(made) << words_of(made);
  EXPECT_EQ(inspect(loop_->path())->label, "spottercache");
  struct stat status {};
  ASSERT_EQ(::stat((directory_ / "cache/job").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, find_user("nobody")->uid);
  write("cache/job/file", "kept");
  EXPECT_TRUE(make_it()) << "again, while it is there";
  ASSERT_EQ(::umount((directory_ / "cache").c_str()), 0);
  EXPECT_FALSE(fs::exists(directory_ / "cache/job"));
  EXPECT_TRUE(make_it());
  EXPECT_TRUE(fs::exists(directory_ / "cache/job/file"));
}

TEST_F(InstanceStore, HasTheWorkingCopiesOfHomesInABucket) {
  verbs::PrepareShare request;
  request.share.kind = Share::Kind::S3;
  request.share.mount = directory_ / "cache";
  request.job = "job";
  request.user = "nobody";
  request.directories = {"checkpoints", "cache"};
  request.cache = directory_ / "cache/job/cache";
  const Machine machine{directory_ / "dev", directory_ / "sys"};
  const auto prepared = prepare_share(request, machine);
  ASSERT_TRUE(prepared) << words_of(prepared);
  EXPECT_TRUE(mount_at(directory_ / "cache"));
  EXPECT_NE(prepared->cache.find("the cache is"), std::string::npos) << prepared->cache;
  struct stat status {};
  ASSERT_EQ(::stat(request.cache.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, find_user("nobody")->uid);
  EXPECT_TRUE(prepare_share(request, machine)) << "by the next agent";
}

TEST_F(InstanceStore, HomesInABucketAreOnTheMachinesDiskWhereItHasNone) {
  fs::remove_all(directory_ / "sys/block/nvme1n1");
  verbs::PrepareShare request;
  request.share.kind = Share::Kind::S3;
  request.share.mount = directory_ / "cache";
  request.job = "job";
  request.user = "nobody";
  request.cache = directory_ / "cache/job/cache";
  const auto prepared = prepare_share(request, {directory_ / "dev", directory_ / "sys"});
  ASSERT_TRUE(prepared) << words_of(prepared);
  EXPECT_NE(prepared->cache.find("no instance store"), std::string::npos) << prepared->cache;
  EXPECT_FALSE(mount_at(directory_ / "cache"));
  EXPECT_TRUE(fs::is_directory(directory_ / "cache/job"));
}

TEST_F(InstanceStore, WhatSomebodyElseHasWrittenIsLeftAlone) {
  must_run({"mkfs.ext4", "-q", loop_->path().string()});
  const auto made = make_it();
  EXPECT_EQ(kind_of(made), "cache-absent");
  EXPECT_NE(words_of(made).find("left alone"), std::string::npos) << words_of(made);
  EXPECT_FALSE(mount_at(directory_ / "cache"));
}

// AWS's Deep Learning AMIs make one file system of the disks, in which all may write.
TEST_F(InstanceStore, WhatTheImageHasMountedIsUsedAsAFolder) {
  must_run({"mkfs.ext4", "-q", loop_->path().string()});
  fs::create_directories(directory_ / "nvme");
  const fs::path images = directory_ / "nvme";
  EXPECT_EQ(kind_of(make_it(images)), "cache-absent") << "nothing is mounted there";
  ASSERT_EQ(::mount(loop_->path().c_str(), images.c_str(), "ext4", 0, nullptr), 0);
  fs::permissions(images, fs::perms::all);
  const auto made = make_it(images);
  ASSERT_TRUE(made) << words_of(made);
  write("cache/job/file", "kept");
  ASSERT_EQ(::umount((directory_ / "cache").c_str()), 0);
  EXPECT_TRUE(make_it(images)) << "after a reboot";
  EXPECT_TRUE(fs::exists(directory_ / "cache/job/file"));
  ASSERT_EQ(::umount((directory_ / "cache").c_str()), 0);
  for (const auto& each : fs::directory_iterator(images))
    if (each.path().filename().string().starts_with("spotter")) {
      fs::rename(each, images / "before");
      fs::create_directory_symlink("/etc", each.path());
      EXPECT_FALSE(make_it(images)) << "somebody's link";
      EXPECT_FALSE(mount_at(directory_ / "cache"));
      fs::remove(each);
      break;
    }
}

TEST_F(InstanceStore, WhatIsInUseIsLeftAlone) {
  const io::Descriptor held(::open(loop_->path().c_str(), O_RDWR | O_EXCL | O_CLOEXEC));
  ASSERT_TRUE(held);
  EXPECT_EQ(kind_of(make_it()), "cache-absent");
}

TEST_F(InstanceStore, AMachineWithoutOneSaysSo) {
  fs::remove_all(directory_ / "sys/block/nvme1n1");
  const auto made = make_it();
  EXPECT_NE(words_of(made).find("no instance store"), std::string::npos);
  EXPECT_FALSE(fs::exists(directory_ / "cache"));
}

}  // namespace
}  // namespace spotter::act::host
