// A guard beside scripts that do what few do: times that are set, second names, links to folders,
// what is no file at all.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/guard/lives.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

class OddFiles : public Lives {
 protected:
  // As shutil.copystat() of an older file does it.
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

}  // namespace
}  // namespace spotter::guard
