// Shares: what mounts them, what its words mean, and what is done in a folder that is one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "agent/host/layout.hpp"
#include "agent/host/share.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

Share nfs() {
  Share request;
  request.kind = Share::Kind::Nfs;
  request.server = "files.example.com";
  request.path = "/export/jobs";
  request.mount = "/mnt/share";
  return request;
}

std::string line(const Result<std::vector<std::string>>& command) {
  if (!command) return command.error().kind + ": " + command.error().message;
  std::string text;
  for (const std::string& word : *command) text += (text.empty() ? "" : " ") + word;
  return text;
}

TEST(MountCommand, OfNfsHasTheOptionsThatAwsRecommends) {
  EXPECT_EQ(line(mount_command(nfs(), 1000, 1000, true, false)),
            "mount -t nfs4 -o nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,"
            "noresvport,nosuid,nodev files.example.com:/export/jobs /mnt/share");
}

TEST(MountCommand, OfNfsTakesTheUsersOptionsInThePlaceOfItsOwn) {
  Share request = nfs();
  request.options = "vers=3,softerr,timeo=100,resvport,nolock";
  EXPECT_EQ(line(mount_command(request, 1000, 1000, true, false)),
            "mount -t nfs4 -o rsize=1048576,wsize=1048576,retrans=2,nosuid,nodev,vers=3,softerr,"
            "timeo=100,resvport,nolock files.example.com:/export/jobs /mnt/share");
}

TEST(MountCommand, OfEfsByIdOrNameWithoutItsHelperIsNfs) {
  Share request = nfs();
  request.kind = Share::Kind::Efs;
  request.path.clear();
  request.server = "fs-0123abcd";
  request.region = "eu-west-1";
  EXPECT_NE(line(mount_command(request, 0, 0, true, false))
                .find("noresvport,nosuid,nodev fs-0123abcd.efs.eu-west-1.amazonaws.com:/ /mnt/"),
            std::string::npos);
  request.region.clear();
  EXPECT_NE(line(mount_command(request, 0, 0, true, false)).find("set AWS_REGION"),
            std::string::npos);
  request.server = "fs-0123abcd.efs.eu-west-1.amazonaws.com";
  EXPECT_NE(line(mount_command(request, 0, 0, true, false)).find(" fs-0123abcd.efs.eu-west-1."),
            std::string::npos);
}

TEST(MountCommand, OfEfsWithAnAccessPointOrTlsNeedsItsHelper) {
  Share request = nfs();
  request.kind = Share::Kind::Efs;
  request.server = "fs-0123abcd";
  request.access_point = "fsap-0123";
  EXPECT_EQ(line(mount_command(request, 0, 0, true, true)),
            "mount -t efs -o _netdev,nosuid,nodev,tls,accesspoint=fsap-0123 fs-0123abcd:/ "
            "/mnt/share");
  const auto missing = mount_command(request, 0, 0, true, false);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, "tool-missing");
  EXPECT_NE(missing.error().message.find("amazon-efs-utils"), std::string::npos);
}

TEST(MountCommand, OfEfsWithOptionsOfItsHelperIsNeverPlainNfs) {
  Share request;
  request.kind = Share::Kind::Efs;
  request.server = "fs-0123abcd";
  request.region = "eu-west-1";
  for (const char* options : {"iam", "timeo=600,az=eu-west-1a", "tls"}) {
    request.options = options;
    const auto missing = mount_command(request, 0, 0, true, false);
    ASSERT_FALSE(missing) << options;
    EXPECT_EQ(missing.error().kind, "tool-missing");
  }
}

TEST(MountCommand, OfSshfsChecksTheServersKeyWhateverTheUserSays) {
  Share request = nfs();
  request.kind = Share::Kind::Sshfs;
  request.server = "me@host";
  request.path = "/opt/host";
  request.key = "/etc/spotter/id";
  request.known_hosts = "/etc/spotter/known_hosts";
  request.port = 2222;
  request.options = "ServerAliveInterval=5,Compression=yes";
  EXPECT_EQ(line(mount_command(request, 1000, 1001, true, false)),
            "sshfs me@host:/opt/host /mnt/share -p 2222 -o reconnect,ServerAliveCountMax=3,"
            "ConnectTimeout=15,nosuid,nodev,default_permissions,uid=1000,gid=1001,allow_other,"
            "ServerAliveInterval=5,Compression=yes,BatchMode=yes,PasswordAuthentication=no,"
            "StrictHostKeyChecking=yes,UserKnownHostsFile=/etc/spotter/known_hosts,"
            "IdentityFile=/etc/spotter/id,IdentitiesOnly=yes");
  EXPECT_EQ(line(mount_command(request, 1000, 1001, false, false)).find("allow_other"),
            std::string::npos)
      << "an ordinary user's own mount needs no permission of /etc/fuse.conf";
}

TEST(MountFailure, SaysWhatToDo) {
  Share request = nfs();
  const auto kind = [&](const char* words) { return mount_failure(request, words).kind; };
  EXPECT_EQ(kind("mount.nfs4: Connection timed out"), "share-silent");
  EXPECT_EQ(kind("mount.nfs4: Failed to resolve server x: Name or service not known"),
            "share-silent");
  EXPECT_EQ(kind("mount.nfs4: access denied by server while mounting x:/y"), "share-denied");
  // Debian's server says this to a port above 1023.
  const auto port = mount_failure(request, "mount.nfs4: Operation not permitted");
  EXPECT_EQ(port.kind, "share-denied");
  EXPECT_NE(port.message.find("`insecure`"), std::string::npos) << port.message;
  EXPECT_EQ(kind("mount: unknown filesystem type 'nfs4'"), "tool-missing");
  EXPECT_EQ(kind("mount.nfs4: mounting x:/y failed, No such file or directory"), "mount-failed");
  request.kind = Share::Kind::Sshfs;
  request.server = "me@host";
  request.known_hosts = "/etc/spotter/known_hosts";
  const auto unknown = mount_failure(request, "Host key verification failed.");
  EXPECT_EQ(unknown.kind, "host-key-unknown");
  EXPECT_NE(unknown.message.find("ssh-keyscan -p 22 host"), std::string::npos) << unknown.message;
  EXPECT_NE(unknown.message.find("/etc/spotter/known_hosts"), std::string::npos) << unknown.message;
  EXPECT_EQ(kind("me@host: Permission denied (publickey)."), "share-denied");
  EXPECT_NE(mount_failure(request,
                          "REMOTE HOST IDENTIFICATION HAS CHANGED!\nHost key "
                          "verification failed.")
                .message.find("somebody may be listening"),
            std::string::npos);
}

// A folder as a share, its registry in it, and nothing left behind.
class FolderShare : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "spotter-share-XXXXXX";
    place_ = ::mkdtemp(pattern.data());
    ::setenv("SPOTTER_MOUNTS", (place_ / "mounts").c_str(), 1);
    request_.share.kind = Share::Kind::Folder;
    request_.share.mount = place_ / "shared";
    request_.job = "mnist";
    const passwd* self = ::getpwuid(::geteuid());
    ASSERT_NE(self, nullptr);
    request_.user = self->pw_name;
    request_.holder = place_ / "run";
    request_.directories = {"code", "checkpoints", "log"};
    fs::create_directory(shared());
  }
  void TearDown() override {
    ::unsetenv("SPOTTER_MOUNTS");
    fs::remove_all(place_);
  }
  static std::string content(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  fs::path shared() const { return place_ / "shared"; }

  fs::path place_;
  verbs::PrepareShare request_;
};

TEST_F(FolderShare, IsLaidOutForItsJobAloneAndAgain) {
  fs::create_directory(shared() / "somebody-elses");
  for (int i = 0; i < 2; ++i) {
    const auto prepared = prepare_share(request_);
    ASSERT_TRUE(prepared) << prepared.error().message;
    EXPECT_TRUE(prepared->already);
  }
  EXPECT_TRUE(fs::is_directory(shared() / "mnist/checkpoints"));
  EXPECT_TRUE(fs::exists(shared() / "mnist/.spotter/volume.json"));
  EXPECT_TRUE(fs::is_empty(shared() / "somebody-elses"));
  EXPECT_TRUE(is_share_mounted(request_.share));
  EXPECT_EQ(release_share({request_.share, "mnist", request_.holder, {}}), false)
      << "there is nothing of ours to unmount";
}

TEST_F(FolderShare, ThatIsMissingIsNotMade) {
  fs::remove(shared());
  const auto prepared = prepare_share(request_);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().kind, "folder-missing");
  EXPECT_FALSE(fs::exists(shared()));
}

TEST_F(FolderShare, WhoseJobsNameIsAFileIsRefused) {
  std::ofstream(shared() / "mnist") << "mine";
  EXPECT_FALSE(prepare_share(request_));
  EXPECT_EQ(content(shared() / "mnist"), "mine");
}

TEST_F(FolderShare, IsMarkedBesideItsCheckpoints) {
  ASSERT_TRUE(prepare_share(request_));
  ASSERT_TRUE(mark_done(shared() / "mnist", "mnist"));
  EXPECT_NE(content(shared() / "mnist/DONE").find("\"job\":\"mnist\""), std::string::npos);
}

TEST_F(FolderShare, ResultsAreSyncedFileByFileAndWhatIsNotThereIsNothing) {
  const fs::path tree = place_ / "result";
  EXPECT_TRUE(sync_tree(tree));
  fs::create_directories(tree / "deep/er");
  std::ofstream(tree / "deep/er/weights") << "w";
  fs::create_symlink("/nowhere", tree / "link");
  EXPECT_TRUE(sync_tree(tree));
  EXPECT_TRUE(sync_tree(tree / "deep/er/weights"));
}

TEST_F(FolderShare, KeepsTheTrainersLogAndEmptiesIt) {
  const fs::path local = place_ / "trainer.log";
  const fs::path kept = place_ / "kept.log";
  EXPECT_TRUE(keep_log(local, kept)) << "no log yet";
  for (const char* words : {"one\n", "two\n"}) {
    std::ofstream(local, std::ios::app) << words;
    ASSERT_TRUE(keep_log(local, kept));
  }
  EXPECT_EQ(content(kept), "one\ntwo\n");
  ASSERT_TRUE(keep_log(local, kept)) << "nothing is new";
  EXPECT_EQ(content(kept), "one\ntwo\n");
}

// A machine that lost its power left a line without its end. This machine ends its own lines.
TEST_F(FolderShare, GoesOnWithALineOfItsOwnAndWithNoOtherMachines) {
  const fs::path local = place_ / "trainer.log";
  const fs::path kept = place_ / "kept.log";
  std::ofstream(kept) << "step 1";
  for (const char* words : {"step 2\nst", "ep 3\n"}) {
    std::ofstream(local, std::ios::app) << words;
    ASSERT_TRUE(keep_log(local, kept));
  }
  EXPECT_EQ(content(kept), "step 1\nstep 2\nstep 3\n");
}

// Somebody put it there: no call may wait for a reader, or write elsewhere.
TEST_F(FolderShare, KeepsTheLogInAPlainFileOnly) {
  const fs::path local = place_ / "trainer.log";
  std::ofstream(local) << "one\n";
  ASSERT_EQ(::mkfifo((place_ / "fifo").c_str(), 0600), 0);
  EXPECT_FALSE(keep_log(local, place_ / "fifo"));
  fs::create_symlink("elsewhere", place_ / "link");
  EXPECT_FALSE(keep_log(local, place_ / "link"));
  EXPECT_FALSE(fs::exists(place_ / "elsewhere"));
  EXPECT_EQ(content(local), "one\n");
}

// The room is on a file system in memory.
TEST_F(FolderShare, GivesBackTheRoomOfALogThatWasKept) {
  const fs::path local = place_ / "trainer.log";
  std::string words;
  for (int i = 0; i < 1'000'000; ++i) words += "step " + std::to_string(i) + "\n";
  std::ofstream(local) << words;
  ASSERT_TRUE(keep_log(local, place_ / "kept.log"));
  EXPECT_EQ(content(place_ / "kept.log"), words);
  struct stat status {};
  ASSERT_EQ(::stat(local.c_str(), &status), 0);
  EXPECT_LE(status.st_blocks * 512, 65536);
}

// A trainer's child outlives it, or the trainer is not over yet: between the last read and the
// emptying there must be no moment at which a line is lost.
TEST_F(FolderShare, LosesNoLineOfALogThatIsWrittenMeanwhile) {
  const fs::path local = place_ / "trainer.log";
  const fs::path kept = place_ / "kept.log";
  constexpr int lines = 200'000;
  std::thread writer([&local] {
    const int file = ::open(local.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    for (int i = 0; i < lines; ++i) {
      const std::string line = std::to_string(i) + "\n";
      EXPECT_EQ(::write(file, line.data(), line.size()), static_cast<ssize_t>(line.size()));
    }
    ::close(file);
  });
  std::atomic<bool> over = false;
  std::thread keeper([&] {
    while (!over) EXPECT_TRUE(keep_log(local, kept));
  });
  writer.join();
  over = true;
  keeper.join();
  ASSERT_TRUE(keep_log(local, kept));
  std::istringstream all(content(kept));
  int expected = 0;
  for (std::string each; std::getline(all, each); ++expected)
    ASSERT_EQ(each, std::to_string(expected));
  EXPECT_EQ(expected, lines);
}

TEST_F(FolderShare, TheLastOneReleasesAMountAndOnlyOfOurs) {
  const MountEntry entry{makedev(0, 77), "/mnt/share", "fuse.sshfs", "me@host:/x", false};
  auto opened = ShareUse::open("/mnt/share");
  ASSERT_TRUE(opened) << opened.error().message;
  ShareUse& use = *opened;
  EXPECT_FALSE(use.is_by_us(entry));
  use.is_ours(entry);
  use.begin("/run/a");
  use.begin("/run/b");
  use.end("/run/a");
  EXPECT_TRUE(use.is_used());
  EXPECT_TRUE(use.is_by_us(entry));
  EXPECT_FALSE(use.is_by_us({makedev(0, 78), "/mnt/share", "fuse.sshfs", "me@host:/x", false}))
      << "another mount has taken its place";
  use.end("/run/b");
  EXPECT_FALSE(use.is_used());
  use.forget_mount();
  EXPECT_FALSE(use.is_by_us(entry));
}

// /tmp/spotter-mounts-UID has a name that can be guessed.
TEST_F(FolderShare, AnotherUsersRegistryOfMountsIsNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make another user's folder";
  const fs::path mounts = place_ / "mounts";
  const fs::path users = mounts / "%2Fmnt%2Fshare" / "users";
  const fs::path precious = place_ / "precious";
  fs::create_directories(users);
  std::ofstream(precious) << "of three years";
  fs::create_symlink(precious, users / "%2Frun%2Fa");
  ASSERT_EQ(::chown(mounts.c_str(), 65534, 65534), 0);
  const auto theirs = ShareUse::open("/mnt/share");
  ASSERT_FALSE(theirs);
  EXPECT_EQ(theirs.error().kind, "mounts-foreign");
  EXPECT_NE(theirs.error().message.find("belongs to nobody (uid 65534)"), std::string::npos)
      << theirs.error().message;
  ASSERT_EQ(::chown(mounts.c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod(mounts.c_str(), 0777), 0);
  EXPECT_FALSE(ShareUse::open("/mnt/share")) << "others may write to it";
  fs::permissions(mounts, fs::perms::owner_all);
  fs::rename(mounts, place_ / "moved");
  fs::create_directory_symlink(place_ / "moved", mounts);
  EXPECT_FALSE(ShareUse::open("/mnt/share")) << "it is a link";
  fs::remove(mounts);
  fs::rename(place_ / "moved", mounts);
  auto ours = ShareUse::open("/mnt/share");
  ASSERT_TRUE(ours) << ours.error().message;
  ours->begin("/run/a");
  EXPECT_EQ(content(precious), "of three years") << "a link that is there is not followed";
  struct stat made {};
  ASSERT_EQ(::stat((mounts / "%2Fmnt%2Fshare" / "lock").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 077, 0U) << "whoever opens the lock can hold it";
}

}  // namespace
}  // namespace spotter::act::host
