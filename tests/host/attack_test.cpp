// A trainer, or another user of a share, can do nothing to verbs that are root. Directories change
// places with links while they are laid out, records lie, files have names elsewhere.
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "agent/host/host.hpp"
#include "agent/host/layout.hpp"
#include "agent/host/records.hpp"
#include "agent/host/share.hpp"
#include "disk.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

constexpr uid_t before = 4242;  // the trainer's number on another image
constexpr uid_t stranger = 4243;
const std::vector<std::string> directories = {"code", "checkpoints", "result", "log"};

class Attack : public Directory {
 protected:
  void SetUp() override {
    Directory::SetUp();
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be misled like that";
    ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
    const auto user = find_user("nobody");
    ASSERT_TRUE(user);
    trainer_ = *user;
    fs::create_directories(directory_ / "system/conf");
    write("system/conf/passwd", "root's");
    write("system/secret", "root's");
    fs::create_directories(share());
    ::setenv("SPOTTER_MOUNTS", (directory_ / "mounts").c_str(), 1);
    request_.share.kind = Share::Kind::Folder;
    request_.share.mount = share();
    request_.job = "mnist";
    request_.user = "nobody";
    request_.holder = directory_ / "run";
    request_.directories = {"checkpoints", "log"};
  }
  void TearDown() override {
    ::unsetenv("SPOTTER_MOUNTS");
    for (const char* name : {"system", "system/conf", "system/conf/passwd", "system/secret"}) {
      if (trainer_.uid == 0) continue;
      EXPECT_EQ(status_of(directory_ / name).st_uid, 0U) << name << " of the system's";
    }
    Directory::TearDown();
  }
  fs::path share() const { return directory_ / "share"; }
  fs::path home() const { return share() / "mnist"; }
  fs::path volume() const { return directory_ / "volume"; }
  static struct stat status_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status;
  }
  static void give(const fs::path& path, uid_t uid) {
    ASSERT_EQ(::lchown(path.c_str(), uid, uid), 0) << path;
  }
  // Leaves the job like another image: the home of `before`, with what is said there.
  void leave_home(const std::string& record, uid_t owner = before) const {
    for (const char* name : {"mnist", "mnist/.spotter", "mnist/checkpoints"}) {
      fs::create_directory(share() / name);
      give(share() / name, owner);
    }
    write("share/mnist/.spotter/volume.json", record);
    write("share/mnist/checkpoints/a", "x");
    give(home() / ".spotter/volume.json", owner);
    give(home() / "checkpoints/a", owner);
  }
  Result<void> lay_out_volume() const {
    fs::create_directory(volume());
    const auto root = io::SafeDirectory::open(volume());
    Mounted mounted;
    return ensure_layout(*root, "vol-0", directories, trainer_, mounted);
  }

  User trainer_;
  verbs::PrepareShare request_;
};

TEST_F(Attack, AJobOfTheSameUserOnAnotherImageIsTakenOver) {
  leave_home(R"({"user":"nobody","uid":4242,"gid":4242})");
  const auto prepared = prepare_share(request_);
  ASSERT_TRUE(prepared) << words_of(prepared);
  for (const char* name : {"", "checkpoints/a", ".spotter", ".spotter/volume.json"})
    EXPECT_EQ(status_of(home() / name).st_uid, trainer_.uid) << name;
}

TEST_F(Attack, ARecordThatLiesGivesNothingAway) {
  leave_home(R"({"user":"nobody","uid":0,"gid":0})", trainer_.uid);
  write("share/mnist/checkpoints/roots", "x");
  fs::create_hard_link(directory_ / "system/secret", home() / "checkpoints/secret");
  ASSERT_TRUE(prepare_share(request_));
  EXPECT_EQ(status_of(home() / "checkpoints/roots").st_uid, 0U);
  write("share/mnist/checkpoints/others", "x");
  give(home() / "checkpoints/others", stranger);
  write("share/mnist/.spotter/volume.json", R"({"user":"nobody","uid":4243,"gid":4243})");
  give(home() / ".spotter/volume.json", trainer_.uid);
  ASSERT_TRUE(prepare_share(request_));
  EXPECT_EQ(status_of(home() / "checkpoints/others").st_uid, stranger);
}

TEST_F(Attack, AJobOfAnotherUserIsNotTakenOver) {
  leave_home(R"({"user":"alice","uid":4242,"gid":4242})");
  const auto refused = prepare_share(request_);
  EXPECT_EQ(kind_of(refused), "not-permitted");
  EXPECT_NE(words_of(refused).find(home().string() + " belongs to the user with the number 4242, " +
                                   "and nobody (trainer.user) may not write there. If what is in " +
                                   "it is this job's: chown -R nobody " + home().string()),
            std::string::npos)
      << words_of(refused);
  EXPECT_EQ(status_of(home() / "checkpoints/a").st_uid, before);
  // Her folder is open to all, and the record was put there by the trainer.
  fs::remove_all(home() / ".spotter");
  ASSERT_EQ(::chmod(home().c_str(), 01777), 0);
  fs::create_directory(home() / ".spotter");
  give(home() / ".spotter", trainer_.uid);
  write("share/mnist/.spotter/volume.json", R"({"user":"nobody","uid":4242,"gid":4242})");
  give(home() / ".spotter/volume.json", trainer_.uid);
  (void)prepare_share(request_);
  EXPECT_EQ(status_of(home() / "checkpoints/a").st_uid, before);
}

// Three machines of a gang begin at once on a share in which only root may make a folder: none may
// find the job's folder made and not yet given, nor make its own home in it before that.
TEST_F(Attack, MachinesThatBeginAtOnceMakeOneHome) {
  for (int round = 0; round < 60; ++round) {
    fs::remove_all(home());
    std::vector<pid_t> machines;
    for (int i = 0; i < 3; ++i) {
      machines.push_back(::fork());
      ASSERT_GE(machines.back(), 0);
      request_.job = "mnist/members/" + std::to_string(i);
      if (machines.back() == 0) ::_exit(prepare_share(request_) ? 0 : 1);
    }
    for (const pid_t machine : machines) {
      int status = 0;
      ASSERT_EQ(::waitpid(machine, &status, 0), machine);
      EXPECT_EQ(status, 0) << "round " << round;
    }
    EXPECT_EQ(status_of(home()).st_uid, trainer_.uid);
  }
}

// Two jobs of one name, of two users: one of them has the home.
TEST_F(Attack, MachinesOfTwoUsersThatBeginAtOnceTakeNothingFromOneAnother) {
  for (int round = 0; round < 60; ++round) {
    fs::remove_all(home());
    std::vector<pid_t> machines;
    for (const char* user : {"nobody", "daemon", "nobody", "daemon"}) {
      machines.push_back(::fork());
      ASSERT_GE(machines.back(), 0);
      request_.user = user;
      if (machines.back() == 0) ::_exit(prepare_share(request_) ? 0 : 1);
    }
    std::vector<int> ended;
    for (const pid_t machine : machines) {
      ended.push_back(-1);
      ASSERT_EQ(::waitpid(machine, &ended.back(), 0), machine);
    }
    EXPECT_FALSE(ended[0] == 0 && ended[1] == 0) << "round " << round;
    // All may have been in one another's way: who has the home tries again, as its agent does.
    const passwd* owner = ::getpwuid(status_of(home()).st_uid);
    ASSERT_NE(owner, nullptr);
    request_.user = owner->pw_name;
    const auto again = prepare_share(request_);
    EXPECT_TRUE(again) << again.error().message << " in round " << round;
    for (const char* name : {"checkpoints", "log", ".spotter"})
      EXPECT_EQ(status_of(home()).st_uid, status_of(home() / name).st_uid) << "round " << round;
  }
}

TEST_F(Attack, AHomeThatAKilledMachineMadeAndDidNotGiveIsGiven) {
  fs::create_directory(home());
  const auto prepared = prepare_share(request_);
  ASSERT_TRUE(prepared) << words_of(prepared);
  EXPECT_EQ(status_of(home()).st_uid, trainer_.uid);
}

TEST_F(Attack, AFolderOfRootsWithSomethingInItIsNotGiven) {
  fs::create_directory(home());
  write("share/mnist/file", "root's");
  EXPECT_EQ(kind_of(prepare_share(request_)), "not-permitted");
  EXPECT_EQ(status_of(home()).st_uid, 0U);
}

TEST_F(Attack, AFolderOfAnotherUserInTheTrainersOwnHomeIsLeftAndNamed) {
  const auto first = prepare_share(request_);
  ASSERT_TRUE(first) << words_of(first);
  EXPECT_EQ(first->foreign, "");
  give(home() / "checkpoints", before);
  const auto prepared = prepare_share(request_);
  ASSERT_TRUE(prepared) << words_of(prepared);
  EXPECT_EQ(status_of(home() / "checkpoints").st_uid, before);
  EXPECT_EQ(prepared->foreign.find((home() / "checkpoints").string() + " belongs to the user"), 0U)
      << prepared->foreign;
  ASSERT_EQ(::chmod((home() / "checkpoints").c_str(), 0777), 0);  // as an access point of EFS
  const auto open = prepare_share(request_);
  ASSERT_TRUE(open) << words_of(open);
  EXPECT_EQ(open->foreign, "");
}

TEST_F(Attack, ATakenOverJobGivesNoFilesOfOthersAway) {
  leave_home(R"({"user":"nobody","uid":4242,"gid":4242})");
  write("share/other-job", "another job's of the same number");
  give(share() / "other-job", before);
  fs::create_hard_link(share() / "other-job", home() / "checkpoints/b");
  fs::create_symlink(directory_ / "system/secret", home() / "checkpoints/c");
  give(home() / "checkpoints/c", before);
  ASSERT_TRUE(prepare_share(request_));
  EXPECT_EQ(status_of(share() / "other-job").st_uid, before);
  EXPECT_EQ(status_of(home() / "checkpoints/a").st_uid, trainer_.uid);
}

TEST_F(Attack, ALinkInThePlaceOfTheJobsFolderIsRefused) {
  fs::create_directory_symlink(directory_ / "system", home());
  EXPECT_EQ(kind_of(prepare_share(request_)), "layout-unusable");
  EXPECT_FALSE(fs::exists(directory_ / "system/.spotter"));
}

// The job's folder changes places with a link to a folder of the system's.
// The folder for the working copies of a bucket's home may lie in a folder of the user's own.
TEST_F(Attack, ALinkInThePlaceOfTheCacheLeadsRootNowhere) {
  const fs::path own = directory_ / "own";
  fs::create_directory(own);
  give(own, trainer_.uid);
  request_.share.kind = Share::Kind::S3;
  request_.share.mount = own / "cache/deep";
  const auto laid = prepare_share(request_, {});
  ASSERT_TRUE(laid) << laid.error().message;
  EXPECT_EQ(status_of(own / "cache").st_uid, trainer_.uid) << "made with the user's rights";
  EXPECT_EQ(status_of(own / "cache/deep/mnist/checkpoints").st_uid, trainer_.uid);

  fs::remove_all(own / "cache");
  fs::create_directory_symlink(directory_ / "system", own / "cache");
  request_.share.mount = own / "cache";
  EXPECT_FALSE(prepare_share(request_, {}));
  request_.share.mount = own / "cache/deep";
  EXPECT_FALSE(prepare_share(request_, {}));
  EXPECT_FALSE(fs::exists(directory_ / "system/mnist"));
  EXPECT_FALSE(fs::exists(directory_ / "system/deep"));
}

TEST_F(Attack, TheWayToRootsOwnCacheIsRootsAlone) {
  const fs::path open = directory_ / "open";
  fs::create_directory(open);
  ASSERT_EQ(::chmod(open.c_str(), 01777), 0);
  EXPECT_TRUE(may_redirect(trainer_, open / "cache")) << "nobody has made it yet";
  fs::create_directory(open / "cache");
  EXPECT_FALSE(may_redirect(trainer_, open / "cache"));
  EXPECT_FALSE(may_redirect(trainer_, open / "cache/deep"));
  ASSERT_EQ(::chmod(open.c_str(), 0777), 0);
  EXPECT_TRUE(may_redirect(trainer_, open / "cache"));
  ASSERT_EQ(::chmod(open.c_str(), 01777), 0);
  give(open / "cache", trainer_.uid);
  EXPECT_TRUE(may_redirect(trainer_, open / "cache"));
  fs::create_directory_symlink(open / "cache", directory_ / "system/link");
  EXPECT_TRUE(may_redirect(trainer_, directory_ / "system/link/deep"));
  fs::remove(directory_ / "system/link");
  EXPECT_FALSE(may_redirect(trainer_, directory_ / "system/conf"));
}

TEST_F(Attack, NoRaceHandsAFolderOfTheSystemOver) {
  ASSERT_EQ(::chmod(share().c_str(), 0755), 0);  // the trainer may not: root makes the folder
  fs::create_directory_symlink(directory_ / "system", directory_ / "link");
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over) {
      for (int i = 0; i < 2; ++i)
        ::renameat2(AT_FDCWD, (directory_ / "link").c_str(), AT_FDCWD, home().c_str(),
                    RENAME_EXCHANGE);
    }
  });
  for (int i = 0; i < 100; ++i) {
    (void)prepare_share(request_);
    std::error_code ignored;
    for (const char* name : {"share/mnist", "link"}) {
      const fs::path path = directory_ / name;
      if (!fs::is_symlink(path, ignored)) fs::remove_all(path, ignored);
    }
    if (!fs::is_symlink(directory_ / "link", ignored)) {
      fs::remove(home(), ignored);
      fs::create_directory_symlink(directory_ / "system", directory_ / "link", ignored);
    }
  }
  over = true;
  other.join();
}

TEST_F(Attack, OnAVolumeNobodyElseCanMoveOurFolderAway) {
  fs::create_directory(volume());
  give(volume(), trainer_.uid);
  ASSERT_TRUE(lay_out_volume());
  const auto root = status_of(volume());
  EXPECT_EQ(root.st_uid, 0U);
  EXPECT_EQ(root.st_gid, trainer_.gid);
  EXPECT_EQ(root.st_mode & 07777, 01775U);
  const AsUser as(trainer_);
  EXPECT_NE(::rename((volume() / ".spotter").c_str(), (volume() / "mine").c_str()), 0);
  EXPECT_EQ(::mkdir((volume() / "still").c_str(), 0755), 0) << "who could write there still can";
}

TEST_F(Attack, OnAVolumeAFolderThatSomebodyElseMadeIsNotBelieved) {
  fs::create_directories(volume() / ".spotter");
  give(volume() / ".spotter", trainer_.uid);
  write("volume/.spotter/ledger.json", R"({"done":true})");
  write("volume/.spotter/volume.json", R"({"user":"nobody","uid":0,"gid":0})");
  write("volume/roots", "x");
  EXPECT_EQ(kind_of(lay_out_volume()), "layout-unusable");
  EXPECT_EQ(kind_of(read_ledger(volume())), "layout-unusable");
  EXPECT_EQ(kind_of(write_ledger(volume(), {})), "layout-unusable");
  EXPECT_EQ(kind_of(keep_lines(volume(), history_name, "x\n")), "layout-unusable");
  EXPECT_FALSE(read_volume_record(volume())->present);
  give(volume() / ".spotter", 0);
  give(volume() / ".spotter/volume.json", trainer_.uid);
  EXPECT_FALSE(read_volume_record(volume())->present) << "nor a record that is another's";
  ASSERT_TRUE(lay_out_volume());
  EXPECT_EQ(status_of(volume() / "roots").st_uid, 0U);
}

TEST_F(Attack, OnAVolumeALinkInThePlaceOfOurFilesIsNotFollowed) {
  ASSERT_TRUE(lay_out_volume());
  for (const char* name : {"ledger.json", "history.jsonl"})
    fs::create_symlink(directory_ / "system/secret", volume() / ".spotter" / name);
  fs::create_symlink(directory_ / "system/secret", volume() / "metrics.jsonl");
  EXPECT_FALSE(read_ledger(volume()));
  EXPECT_FALSE(keep_lines(volume(), history_name, "x\n"));
  EXPECT_FALSE(keep_metrics(volume() / "metrics.jsonl", "", std::nullopt));
  fs::remove(volume() / "code");
  fs::create_directory_symlink(directory_ / "system", volume() / "code");
  Mounted mounted;
  const auto root = io::SafeDirectory::open(volume());
  EXPECT_EQ(kind_of(ensure_layout(*root, {}, directories, trainer_, mounted)), "layout-unusable");
}

// The leftovers of a dead writer are removed, and what is torn is moved: as the trainer's user.
TEST_F(Attack, VerifyDoesNothingThatTheTrainerMayNot) {
  ASSERT_TRUE(lay_out_volume());
  fs::create_directories(directory_ / "system/.tmp-a");
  fs::create_directories(directory_ / "system/step-000000000007");
  fs::remove(volume() / "checkpoints");
  fs::create_directory_symlink(directory_ / "system", volume() / "checkpoints");
  (void)verify_checkpoints({volume(), "checkpoints", false, "nobody"});
  EXPECT_TRUE(fs::exists(directory_ / "system/.tmp-a"));
  EXPECT_TRUE(fs::exists(directory_ / "system/step-000000000007"));
}

TEST_F(Attack, ACopyOfAnotherImageIsReadWithItsOwnersRights) {
  fs::create_directories(volume() / "checkpoints");
  const checkpoint::Part part{"model.bin", "weights"};
  ASSERT_TRUE(checkpoint::save(volume() / "checkpoints", 7, {&part, 1}, {}));
  for (const auto& entry : fs::recursive_directory_iterator(volume())) {
    give(entry.path(), before);
    ASSERT_EQ(::chmod(entry.path().c_str(), entry.is_directory() ? 0700 : 0600), 0);
  }
  EXPECT_EQ(verify_checkpoints({volume(), "checkpoints", true, "nobody"})->newest, 7U);
  EXPECT_FALSE(verify_checkpoints({volume(), "checkpoints", false, "nobody"}));
}

}  // namespace
}  // namespace spotter::act::host
