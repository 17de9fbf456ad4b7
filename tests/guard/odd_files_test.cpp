// A guard beside scripts that do what few do: times that are set, second names, links to folders,
// what is no file at all.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/guard/lives.hpp"

namespace {
int synced = 0;  // files and folders, one by one
int all_synced = 0;
}  // namespace
extern "C" int syncfs(int file) noexcept {
  ++all_synced;
  return static_cast<int>(::syscall(SYS_syncfs, file));
}
extern "C" int fsync(int file) {  // in the place of libc's
  ++synced;
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

class OddFiles : public Lives {
 protected:
  // Does what shutil.copystat() of an older file does.
  void set_time(const std::string& name, int seconds) const {
    const timespec time{1'700'000'000 + seconds, 0};
    const timespec times[] = {time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, path(name).c_str(), times, 0), 0);
  }
  std::int64_t changed(const std::string& name) const {
    struct stat status {};
    EXPECT_EQ(::lstat(path(name).c_str(), &status), 0) << name;
    return found(name, status).changed_ns;
  }
  Record record() const { return Keeper::open(files("")).value().record(); }
  std::string link_of(const std::string& name) const {
    return fs::read_symlink(path(name)).string();
  }
};

TEST_F(OddFiles, ACopyWithTheTimeOfTheLastOneIsAnotherContent) {
  {
    Life life(files(""));
    for (const char* content : {"one", "two", "six"}) {
      write("best.bin", content);
      set_time("best.bin", 0);
      write("last.bin", content + std::string("!"));
      life.wait_for(2);
    }
    write("best.bin", "odd");
    set_time("best.bin", 0);
    write("last.bin", "half");
    life.died = true;
    life.look();
    life.end(End::Killed);
  }
  EXPECT_EQ(read("last.bin"), "six!");
  EXPECT_EQ(read("best.bin"), "six") << "of one moment";
}

TEST_F(OddFiles, AFileThatNobodySawWrittenWithItsTimeSetIsAnotherContent) {
  {
    Life life(files(""));
    write("last.bin", "one");
    set_time("last.bin", 0);
    life.wait_for(1);
  }  // the guard is lost
  write("last.bin", "two");
  set_time("last.bin", 0);
  settle(files(""));
  EXPECT_EQ(read("last.bin"), "one") << "that it is whole is not known";
  EXPECT_EQ(set_aside(), 1U);
}

TEST_F(OddFiles, ASecondNameIsNoOtherContent) {
  {
    Life life(files(""));
    write("last.bin", "one");
    life.wait_for(1);
    fs::create_hard_link(path("last.bin"), path("best.bin"));
    life.wait_for(1);
    EXPECT_EQ(life.finished(), (std::vector<std::string>{"last.bin", "best.bin"}));
    fs::remove(path("best.bin"));
    life.rest(3'000);
  }
  settle(files(""));
  EXPECT_EQ(read("last.bin"), "one");
  EXPECT_EQ(set_aside(), 0U) << "its time of change alone is another";
}

TEST_F(OddFiles, NamesOfOneFileAreKeptTogether) {
  for (const bool before : {true, false}) {
    fs::remove_all(path(""));
    fs::remove_all(mount_ / ".spotter");
    fs::create_directories(path(""));
    fs::create_directories(mount_ / ".spotter");
    Life life(files(""));
    std::string name, content;
    for (const char* step : {"1", "2", "3", "4", "5"}) {
      fs::remove(path("last.bin"));
      name = "step_" + std::string(step) + ".bin";
      content = "content of " + name;
      write(name, content);
      if (!before) life.wait_for(1);
      fs::create_hard_link(path(name), path("last.bin"));
      life.wait_for(before ? 2 : 1);
    }
    write("last.bin", "half");  // it is also the content of the other name
    life.died = true;
    life.look();
    life.end(End::Killed);
    EXPECT_EQ(read("last.bin"), content) << before;
    EXPECT_EQ(read(name), content) << before;
  }
}

TEST_F(OddFiles, ALaterWriteHasAnotherTime) {
  Keeper watching = Keeper::open(files("")).value();
  ASSERT_TRUE(watching.begin());
  for (int i = 0; i < 20; ++i) {
    write("last.bin", std::to_string(i));
    const auto captured = watching.capture([](const std::string&) { return false; });
    ASSERT_TRUE(captured);
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    const std::int64_t earliest = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    EXPECT_GT(earliest, captured->rows.at(0).changed_ns) << "on a file system with a coarse clock";
    watching.discard(*captured);
  }
}

// Reading gigabytes again for a name that we made or removed would cost more than the save.
TEST_F(OddFiles, NamesThatWeMakeAndRemoveAreKnown) {
  Life life(files(""));
  for (int step = 1; step <= 8; ++step) {
    write("step_" + std::to_string(step) + ".bin", "content " + std::to_string(step));
    life.wait_for(1);
  }
  life.end(End::Killed);
  for (const Row& row : record().rows) EXPECT_EQ(row.changed_ns, changed(row.name)) << row.name;
}

// Each takes some milliseconds: those of 4,000 files took longer than the next save needed to come.
TEST_F(OddFiles, HundredsAreMadeDurableTogether) {
  Life life(files(""));
  for (const char* step : {"1", "2", "3"}) {
    for (int i = 0; i < 200; ++i)
      write("step_" + std::string(step) + "/" + std::to_string(i) + ".bin", step);
    synced = all_synced = 0;
    life.wait_for(1);
    EXPECT_LT(synced, 50) << step;
    EXPECT_GE(all_synced, 1) << step;
  }
  write("last.bin", "few");
  synced = 0;
  life.wait_for(1);
  EXPECT_GE(synced, 2) << "the file, and its copy";
}

// --- what is no file ---

TEST_F(OddFiles, LinksLeadWhereTheyLedAtTheSameMoment) {
  Life life(files(""));
  for (const char* step : {"1", "2", "3"}) {
    const std::string folder = "epoch_" + std::string(step);
    write(folder + "/model.bin", "weights " + folder);
    for (const auto& [name, to] : {std::pair<std::string, std::string>{"latest", folder},
                                   {"newest/model", "../" + folder + "/model.bin"},
                                   {"broken", "/nowhere/" + folder},
                                   {"loop", "loop"},
                                   {"parent", "."}}) {
      fs::create_directories(path(name).parent_path());
      fs::remove(path(name));
      fs::create_symlink(to, path(name));
    }
    life.wait_for(1);
    life.rest(31'000);
  }
  write("epoch_4/model.bin", "half");
  fs::remove(path("latest"));
  fs::create_symlink("epoch_4", path("latest"));
  life.died = true;
  life.look();
  life.end(End::Killed);
  EXPECT_FALSE(exists("epoch_4"));
  EXPECT_EQ(link_of("latest"), "epoch_3");
  EXPECT_EQ(link_of("newest/model"), "../epoch_3/model.bin");
  EXPECT_EQ(link_of("broken"), "/nowhere/epoch_3");
  EXPECT_EQ(link_of("loop"), "loop");
  EXPECT_EQ(read("latest/model.bin"), "weights epoch_3");
}

TEST_F(OddFiles, AFolderInThePlaceOfALinkMakesRoomForIt) {
  Life life(files(""));
  for (const char* step : {"1", "2", "3"}) {
    const std::string folder = "epoch_" + std::string(step);
    write(folder + "/model.bin", "weights " + folder);
    fs::remove(path("latest"));
    fs::create_symlink(folder, path("latest"));
    life.wait_for(1);
    life.rest(31'000);
  }
  fs::remove(path("latest"));
  write("latest/model.bin", "half");
  fs::create_directories(path("latest/empty/deeper"));
  ASSERT_EQ(::mkfifo(path("latest/pipe").c_str(), 0600), 0);
  life.died = true;
  life.look();
  life.end(End::Killed);
  EXPECT_EQ(link_of("latest"), "epoch_3");
  EXPECT_EQ(record().away.back().names, std::vector<std::string>{"latest"}) << "with the pipe";
}

TEST_F(OddFiles, ALinkInThePlaceOfAFolderMakesRoomForIt) {
  Life life(files(""));
  for (const char* step : {"1", "2", "3"}) {
    write("latest/model.bin", "weights " + std::string(step));
    write("latest/optim.bin", "optimizer " + std::string(step));
    life.wait_for(1);
  }
  write("epoch_4/model.bin", "half");
  fs::remove_all(path("latest"));
  fs::create_symlink("epoch_4", path("latest"));
  life.died = true;
  life.look();
  life.end(End::Killed);
  EXPECT_FALSE(fs::is_symlink(path("latest")));
  EXPECT_EQ(read("latest/model.bin"), "weights 3");
  EXPECT_EQ(read("latest/optim.bin"), "optimizer 3");
}

TEST_F(OddFiles, SocketsPipesAndEmptyFoldersAreOfNoSet) {
  Life life(files(""));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  for (const char* step : {"1", "2", "3", "4"}) {
    if (*step == '1') {
      ASSERT_EQ(::mkfifo(path("commands").c_str(), 0600), 0);
      fs::create_directories(path("empty/deeper"));
      path("socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
      const Descriptor own(::socket(AF_UNIX, SOCK_STREAM, 0));
      ASSERT_EQ(::bind(own.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    }
    write("model.bin", "weights " + std::string(step));
    life.rest(1'500);
    EXPECT_EQ(life.finished().size(), std::stoul(step)) << "nothing more is awaited";
    life.rest(20'000);
  }
  write("model.bin", "half");
  life.died = true;
  life.look();
  life.end(End::Killed);
  EXPECT_EQ(read("model.bin"), "weights 4");
  EXPECT_EQ(there(), (Names{"commands", "empty", "model.bin", "socket"}));
  EXPECT_TRUE(exists("empty/deeper"));
}

// A script that goes on in the second fold fails where those that it made at its start are gone.
TEST_F(OddFiles, EmptyFoldersThatWereMadeBeforehandStay) {
  Life life(files(""));
  for (const char* fold : {"fold_0", "fold_1", "fold_2", "fold_3"}) {
    fs::create_directories(path(fold));
    const timespec before{::time(nullptr) - 600, 0}, times[] = {before, before};
    ASSERT_EQ(::utimensat(AT_FDCWD, path(fold).c_str(), times, 0), 0);
  }
  for (const char* fold : {"fold_0", "fold_1"}) {
    write(std::string(fold) + "/model.bin", fold);
    life.wait_for(1);
  }
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(there(), (Names{"fold_0", "fold_1", "fold_2", "fold_3"}));
}

TEST_F(OddFiles, AnEmptyFolderThatWasToBeTheNextIsRemoved) {
  Life life(files(""));
  for (const char* step : {"10", "20"}) {
    write("checkpoint-" + std::string(step) + "/model.bin", "weights " + std::string(step));
    life.wait_for(1);
  }
  fs::create_directories(path("checkpoint-30/sub"));
  fs::create_directories(path("runs/1"));
  life.look();
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(there(), (Names{"checkpoint-10", "checkpoint-20", "runs"}));
}

// A kill between a file's last byte and its rename leaves it, whole: it is recorded, as all is.
TEST_F(Lives, ATemporaryFileThatWasLeftAndRecordedIsNotAwaited) {
  for (const bool looked_at : {false, true}) {  // between the two
    int step = 0;
    for (const bool is_left : {true, false}) {
      Life life(files("*.pt"));
      for (int i = 0; i < 3; ++i, life.rest(1'300)) {
        write("tmp.pt", zip(std::to_string(++step)));
        if (looked_at) life.look();
        fs::rename(path("tmp.pt"), path("last.pt"));
        life.look();
      }
      if (is_left) write("tmp.pt", zip("left"));
      life.look();
      life.died = is_left;
      life.end(End::Killed);
      EXPECT_EQ(read("last.pt"), zip(std::to_string(step)));
    }
    for (const char* name : {"ckpt/last.pt", "ckpt/tmp.pt", ".spotter"})
      fs::remove_all(mount_ / name);
    fs::create_directory(mount_ / ".spotter");
  }
}

// ckpt.2.pt <- ckpt.1.pt <- ckpt.pt: what got another number is no save's by itself.
TEST_F(Lives, TheFirstRotationOfARunIsOfOneSave) {
  {
    Life life(files("*.pt"));
    for (const char* step : {"1", "2", "3"}) {
      rotate();
      write("ckpt.pt", zip(step));
      life.rest(1'300);
    }
    life.end(End::Killed);
  }
  for (int again = 0; again < 2; ++again) {
    Life life(files("*.pt"));
    rotate();
    std::ofstream file(path("ckpt.pt"));
    file << "half" << std::flush;
    for (int i = 0; i < 3; ++i) life.look();
    life.died = true;
    life.end(End::Killed);
    EXPECT_EQ(read("ckpt.pt"), zip("3"));
    EXPECT_EQ(read("ckpt.1.pt"), zip("2"));
    EXPECT_EQ(read("ckpt.2.pt"), zip("1"));
  }
}

// The save of an epoch's end, and at once the one before a stop.
TEST_F(Lives, ACheckpointThatMakesRoomRightBehindItsSaveIsAwaited) {
  Life life(files("*.pt *.bak"));
  for (int step = 1; step <= 4; ++step) {
    if (step > 1) fs::rename(path("model.pt"), path("model.bak"));
    life.look();
    write("model.pt", zip(std::to_string(step)));
    life.rest(step < 4 ? 3'000 : 300);
  }
  fs::rename(path("model.pt"), path("model.bak"));
  life.rest(2'000);
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(read("model.pt"), zip("4"));
  EXPECT_EQ(read("model.bak"), zip("3"));
}

// A small file is written over in each step, for ever.
TEST_F(Lives, ABestModelThatMayComeHindersNoGeneration) {
  Life life(files("*"));
  write("model.pt", zip("1"));
  write("best.pt", zip("1"));
  life.rest(3'000);
  const std::size_t before = life.finished().size();
  for (int step = 0; step < 20; ++step) {
    write("model.pt", zip(std::to_string(step)));
    for (int i = 0; i < 3; ++i, life.rest(100)) write("step.bin", std::to_string(step * 3 + i));
  }
  EXPECT_GT(life.finished().size(), before);
}

}  // namespace
}  // namespace spotter::guard
