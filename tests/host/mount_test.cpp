// The life of a real file system on a loop device, as root.
#include "agent/host/mount.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include "agent/host/device.hpp"
#include "agent/host/layout.hpp"
#include "agent/io/files.hpp"
#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class Mount : public Disk {
 protected:
  verbs::Mount request(const std::string& filesystem = "xfs") const {
    return {.device = loop_->path(),
            .filesystem = filesystem,
            .mount_point = mount_point(),
            .volume = volume_id,
            .user = "nobody"};
  }
  struct stat status_of(const fs::path& relative) const {
    struct stat status {};
    EXPECT_EQ(::lstat((mount_point() / relative).c_str(), &status), 0) << relative;
    return status;
  }
};

// A child that does one thing and stays until it is asked to end.
class Sidecar {
 public:
  explicit Sidecar(const std::function<bool()>& first) {
    int ready[2];
    if (::pipe(ready) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      const char good = first() ? 'y' : 'n';
      if (::write(ready[1], &good, 1) == 1) ::pause();
      ::_exit(0);
    }
    char answer = 0;
    ok_ = ::read(ready[0], &answer, 1) == 1 && answer == 'y';
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Sidecar() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  bool ok() const { return ok_; }
  std::string pid() const { return std::to_string(pid_); }

 private:
  pid_t pid_ = -1;
  bool ok_ = false;
};

TEST_F(Mount, WritesAreThereAfterUnmountAndMount) {
  ASSERT_TRUE(format(loop_->path(), "xfs"));
  const auto first = mount(request());
  ASSERT_TRUE(first) << words_of(first);
  EXPECT_FALSE(first->already);
  EXPECT_GT(first->free_bytes, disk_bytes / 2);
  ASSERT_TRUE(io::atomic_write(mount_point() / "checkpoints" / "x", "kept", 0644));
  ASSERT_TRUE(sync(mount_point()));
  EXPECT_TRUE(mount(request())->already);
  const auto gone = unmount(mount_point(), 5s);
  ASSERT_TRUE(gone) << words_of(gone);
  EXPECT_TRUE(*gone);
  EXPECT_FALSE(unmount(mount_point(), 0s).value()) << "not mounted is success";
  EXPECT_FALSE(fs::exists(mount_point() / "checkpoints"));
  ASSERT_TRUE(mount(request()));
  EXPECT_EQ(io::read_file(mount_point() / "checkpoints" / "x", 10).value(), "kept");
}

// A copy of a disk that was in use: its log is not replayed, and nothing is laid out.
class MountOfData : public Mount, public testing::WithParamInterface<const char*> {};

TEST_P(MountOfData, IsReadOnlyAndLeavesTheDiskAsItIs) {
  ASSERT_TRUE(format(loop_->path(), GetParam()));
  const auto mounted = mount_data(loop_->path(), mount_point());
  ASSERT_TRUE(mounted) << words_of(mounted);
  EXPECT_TRUE(look(mount_point())->read_only);
  EXPECT_FALSE(fs::exists(mount_point() / ".spotter"));
  EXPECT_FALSE(io::atomic_write(mount_point() / "x", "no", 0644));
  const auto info = io::read_file("/proc/self/mountinfo", 1U << 20).value();
  const auto line = info.substr(info.find(mount_point().string()));
  EXPECT_NE(line.substr(0, line.find('\n')).find("norecovery"), std::string::npos) << line;
  EXPECT_TRUE(mount_data(loop_->path(), mount_point())->already);
  EXPECT_TRUE(unmount(mount_point(), 5s).value());
}

INSTANTIATE_TEST_SUITE_P(OnBoth, MountOfData, testing::Values("xfs", "ext4"));

TEST_F(Mount, OfDataWantsAFileSystemOnTheWholeDisk) {
  EXPECT_EQ(mount_data(loop_->path(), mount_point()).error().kind, "not-formatted");
  loop_->write(0, "something of somebody's");
  EXPECT_EQ(mount_data(loop_->path(), mount_point()).error().kind, "filesystem-mismatch");
}

TEST_F(Mount, LaysOutDirectoriesForTheUserAndARecordOfItsOwn) {
  ASSERT_TRUE(format(loop_->path(), "ext4"));
  auto asked = request("ext4");
  asked.directories.insert(asked.directories.end(), {"deep/checkpoints", ".home"});
  const auto mounted = mount(asked);
  ASSERT_TRUE(mounted) << words_of(mounted);
  for (const char* name : {"code", "checkpoints", "result", "log", "deep/checkpoints", ".home"}) {
    EXPECT_EQ(status_of(name).st_uid, 65534U) << name;
  }
  EXPECT_EQ(status_of("code").st_mode & 07777, 0755U);
  EXPECT_EQ(status_of(".home").st_mode & 07777, 0700U) << "it may hold tokens";
  EXPECT_EQ(status_of(".spotter").st_uid, 0U);
  EXPECT_EQ(status_of(".spotter").st_mode & 07777, 0755U);
  const auto info = io::read_file("/proc/self/mountinfo", 1U << 20).value();
  const auto line = info.substr(info.find(mount_point().string()));
  EXPECT_NE(line.substr(0, line.find('\n')).find("nosuid,nodev,noatime"), std::string::npos)
      << line;
  const auto seen = look(mount_point());
  ASSERT_TRUE(seen);
  EXPECT_TRUE(seen->mounted);
  EXPECT_EQ(seen->device, loop_->path().string());
  EXPECT_EQ(seen->volume, volume_id);
  EXPECT_EQ(seen->filesystem, "ext4");
  EXPECT_FALSE(seen->read_only);
}

TEST_F(Mount, RefusesWhatItCannotMountAndSaysWhy) {
  EXPECT_EQ(kind_of(mount(request())), "not-formatted");
  ASSERT_TRUE(format(loop_->path(), "ext4"));
  const auto mismatch = mount(request("xfs"));
  EXPECT_EQ(kind_of(mismatch), "filesystem-mismatch");
  EXPECT_NE(words_of(mismatch).find("ext4"), std::string::npos);
  auto unknown = request("ext4");
  unknown.user = "no-such-user";
  EXPECT_EQ(kind_of(mount(unknown)), "user-missing");
  ASSERT_TRUE(unmount(mount_point(), 1s));
  auto escaping = request("ext4");
  escaping.directories = {"../outside"};
  EXPECT_EQ(kind_of(mount(escaping)), "bad-request");
}

TEST_F(Mount, DoesNotCoverAnotherMount) {
  ASSERT_TRUE(format(loop_->path(), "xfs"));
  fs::create_directory(mount_point());
  ASSERT_EQ(::mount("tmpfs", mount_point().c_str(), "tmpfs", 0, "size=1m"), 0);
  EXPECT_EQ(kind_of(mount(request())), "mount-point-busy");
  ASSERT_EQ(::umount(mount_point().c_str()), 0);
  ASSERT_TRUE(mount(request()));
  auto elsewhere = request();
  elsewhere.mount_point = directory_ / "other";
  EXPECT_EQ(kind_of(mount(elsewhere)), "device-busy");
}

TEST_F(Mount, ADamagedFileSystemIsNamed) {
  ASSERT_TRUE(format(loop_->path(), "ext4"));
  // The group descriptors of a superblock that is still right: nothing e2fsck -p may decide.
  loop_->write(4096, std::string(4096, '\xff'));
  const auto damaged = mount(request("ext4"));
  EXPECT_EQ(kind_of(damaged), "filesystem-damaged") << words_of(damaged);
  EXPECT_FALSE(look(mount_point())->mounted);
}

TEST_F(Mount, ProvesACopyReadOnlyThenWrites) {
  ASSERT_TRUE(format(loop_->path(), "xfs"));
  ASSERT_TRUE(mount(request()));
  ASSERT_TRUE(unmount(mount_point(), 5s));
  auto copy = request();
  copy.volume = "vol-0aaaaaaaaaaaaaaaa";
  copy.read_only = true;
  const auto verified = mount(copy);
  ASSERT_TRUE(verified) << words_of(verified);
  EXPECT_EQ(verified->previous_volume, volume_id);
  EXPECT_TRUE(look(mount_point())->read_only);
  EXPECT_EQ(look(mount_point())->recorded, volume_id);
  copy.read_only = false;
  const auto writable = mount(copy);
  ASSERT_TRUE(writable) << words_of(writable);
  EXPECT_TRUE(writable->already);
  EXPECT_FALSE(look(mount_point())->read_only);
  EXPECT_EQ(look(mount_point())->recorded, copy.volume);
}

TEST_F(Mount, TwoCopiesOfOneFileSystemCanBeMounted) {
  ASSERT_TRUE(format(loop_->path(), "xfs"));
  fs::copy_file(directory_ / "disk.img", directory_ / "copy.img");
  const Loop copy(directory_ / "copy.img", disk_bytes);
  ASSERT_TRUE(copy) << copy.why();
  ASSERT_TRUE(mount(request()));
  auto second = request();
  second.device = copy.path();
  second.mount_point = directory_ / "second";
  const auto mounted = mount(second);
  EXPECT_TRUE(mounted) << words_of(mounted);
  EXPECT_TRUE(unmount(second.mount_point, 5s));
}

TEST_F(Mount, BusyNamesTheHolderAndIsNeverForced) {
  ASSERT_TRUE(format(loop_->path(), "xfs"));
  ASSERT_TRUE(mount(request()));
  const auto file = mount_point() / "log" / "held.txt";
  Sidecar holder([&] { return ::open(file.c_str(), O_CREAT | O_WRONLY, 0600) >= 0; });
  ASSERT_TRUE(holder.ok());
  const auto busy = unmount(mount_point(), 200ms);
  EXPECT_EQ(kind_of(busy), "mount-busy");
  EXPECT_NE(words_of(busy).find("pid " + holder.pid()), std::string::npos) << words_of(busy);
  EXPECT_NE(words_of(busy).find("held.txt"), std::string::npos) << words_of(busy);
  EXPECT_TRUE(look(mount_point())->mounted);
  holder.end();
  EXPECT_TRUE(unmount(mount_point(), 5s).value_or(false));
}

TEST_F(Mount, IsNotReleasedWhileAnotherNamespaceHoldsIt) {
  ASSERT_TRUE(format(loop_->path(), "xfs"));
  ASSERT_TRUE(mount(request()));
  Sidecar other([] { return ::unshare(CLONE_NEWNS) == 0; });
  ASSERT_TRUE(other.ok());
  const auto held = unmount(mount_point(), 200ms);
  EXPECT_EQ(kind_of(held), "mount-busy");
  EXPECT_NE(words_of(held).find("pid " + other.pid()), std::string::npos) << words_of(held);
  EXPECT_FALSE(look(mount_point())->mounted) << "here it is unmounted by now";
  EXPECT_EQ(kind_of(unmount(mount_point(), 200ms, loop_->path())), "mount-busy")
      << "and the disk is as busy as it was";
  other.end();
  EXPECT_TRUE(unmount(mount_point(), 5s, loop_->path()));
}

// After a restart of the agent only the volume's name is known.
TEST_F(Mount, AnUnmountOfBeforeIsProvedByTheVolumesName) {
  ASSERT_TRUE(format(loop_->path(), "xfs"));
  ASSERT_TRUE(mount(request()));
  Sidecar other([] { return ::unshare(CLONE_NEWNS) == 0; });
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(kind_of(unmount(mount_point(), 200ms)), "mount-busy");
  const Machine machine{directory_ / "devices"};
  fs::create_directories(machine.devices / "disk/by-id");
  const std::string link = "nvme-Amazon_Elastic_Block_Store_vol0123456789abcdef0";
  fs::create_symlink(loop_->path(), machine.devices / "disk/by-id" / link);
  const verbs::Unmount again{
      .mount_point = mount_point(), .wait = 200ms, .link = {}, .volume = volume_id, .hint = {}};
  EXPECT_EQ(kind_of(unmount(again, machine)), "mount-busy");
  other.end();
  EXPECT_TRUE(unmount(again, machine));
  auto gone = again;
  gone.volume = "vol-0123456789abcdef1";
  EXPECT_TRUE(unmount(gone, machine)) << "a volume that is not here";
}

TEST_F(Mount, FilesFollowTheUserIntoAnotherImage) {
  ASSERT_TRUE(format(loop_->path(), "ext4"));
  ASSERT_TRUE(mount(request("ext4")));
  const auto root = mount_point();
  const auto outside = write("outside", "not yours");
  ASSERT_EQ(::chown(outside.c_str(), 4242, 4242), 0);
  fs::create_directories(root / "code/a/b");
  ASSERT_TRUE(io::atomic_write(root / "code/a/b/file", "x", 0600));
  fs::create_symlink(outside, root / "code/link");
  for (const char* name : {"code", "code/a", "code/a/b", "code/a/b/file", "code/link"}) {
    ASSERT_EQ(::lchown((root / name).c_str(), 4242, 4242), 0);
  }
  ASSERT_TRUE(io::atomic_write(root / "result/roots", "x", 0600));
  ASSERT_TRUE(io::atomic_write(root / ".spotter/volume.json",
                               R"({"volume":"vol-0","user":"nobody","uid":4242,"gid":4242})",
                               0644));
  const auto mounted = mount(request("ext4"));
  ASSERT_TRUE(mounted) << words_of(mounted);
  EXPECT_EQ(mounted->owners_changed, 5U);
  EXPECT_EQ(mounted->previous_volume, "vol-0");
  EXPECT_EQ(status_of("code/a/b/file").st_uid, 65534U);
  EXPECT_EQ(status_of("code/link").st_uid, 65534U);
  EXPECT_EQ(status_of("result/roots").st_uid, 0U) << "was not the user's before";
  struct stat untouched {};
  ASSERT_EQ(::stat(outside.c_str(), &untouched), 0);
  EXPECT_EQ(untouched.st_uid, 4242U) << "a symlink is not followed";
  EXPECT_EQ(mount(request("ext4"))->owners_changed, 0U);
}

TEST_F(Mount, ASymlinkInPlaceOfOurDirectoryIsNotFollowed) {
  ASSERT_TRUE(format(loop_->path(), "ext4"));
  ASSERT_TRUE(mount(request("ext4")));
  fs::remove_all(mount_point() / ".spotter");
  fs::create_symlink(directory_, mount_point() / ".spotter");
  EXPECT_EQ(kind_of(mount(request("ext4"))), "layout-unusable");
  EXPECT_FALSE(fs::exists(directory_ / "volume.json"));
}

TEST_F(Mount, AFullDiskIsSaidToBeFull) {
  ASSERT_TRUE(format(loop_->path(), "ext4"));
  ASSERT_TRUE(mount(request("ext4")));
  const io::Descriptor big(
      ::open((mount_point() / "big").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const std::string chunk(1U << 20, 'x');
  while (::write(big.get(), chunk.data(), chunk.size()) > 0) {
  }
  fs::remove_all(mount_point() / ".spotter");
  while (::write(big.get(), "x", 1) > 0) {
  }
  EXPECT_EQ(kind_of(mount(request("ext4"))), "storage-full");
}

}  // namespace
}  // namespace spotter::act::host
