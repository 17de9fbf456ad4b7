#include "agent/host/records.hpp"

#include <fstream>

#include "agent/io/files.hpp"
#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

class KeptJournal : public Directory {
 protected:
  void SetUp() override {
    Directory::SetUp();
    fs::create_directory(directory_ / ".spotter");
  }
  fs::path log() const { return directory_ / ".spotter/agent.log"; }
  std::string kept() const { return io::read_file(log(), 64U << 20).value_or("none"); }
};

TEST_F(KeptJournal, Grows) {
  ASSERT_TRUE(keep_lines(directory_, log_name, "one\n"));
  ASSERT_TRUE(keep_lines(directory_, log_name, "two\nthree\n"));
  EXPECT_EQ(kept(), "one\ntwo\nthree\n");
}

TEST_F(KeptJournal, MakesWayWhenItIsLarge) {
  const std::string large(9U << 20, 'x');
  ASSERT_TRUE(keep_lines(directory_, log_name, large));
  ASSERT_TRUE(keep_lines(directory_, log_name, "new\n"));
  EXPECT_EQ(kept(), "new\n");
  EXPECT_EQ(fs::file_size(directory_ / ".spotter/agent.log.1"), large.size());
}

// On a share another machine may have been upgraded meanwhile.
TEST_F(KeptJournal, LeavesTheHistoryOfANewerSpotterAsItIs) {
  const std::string line = R"({"time":1,"what":"rebalance","instance":"i-1"})";
  const fs::path history = directory_ / ".spotter" / history_name;
  ASSERT_TRUE(keep_lines(directory_, history_name, line + "\n"));
  std::ofstream(history, std::ios::app) << R"({"version":2,"time":2,"what":"rebalance"})"
                                        << "\n";
  const auto before = io::read_file(history, 1000).value();
  EXPECT_EQ(kind_of(keep_lines(directory_, history_name, line + "\n")), "newer-format");
  EXPECT_EQ(io::read_file(history, 1000).value(), before);
  // A large one does not make way either.
  std::ofstream(history) << std::string(9U << 20, '\n') << before;
  EXPECT_EQ(kind_of(keep_lines(directory_, history_name, line + "\n")), "newer-format");
  EXPECT_FALSE(fs::exists(history.string() + ".1"));
}

TEST_F(KeptJournal, FollowsNobodysLinkAndNeedsTheStorage) {
  const auto foreign = write("foreign", "kept as it was");
  fs::create_symlink(foreign, log());
  EXPECT_EQ(kind_of(keep_lines(directory_, log_name, "one\n")), "host-error");
  EXPECT_EQ(io::read_file(foreign, 100).value(), "kept as it was");
  EXPECT_EQ(kind_of(keep_lines(directory_ / "none", log_name, "one\n")), "not-mounted");
}

}  // namespace
}  // namespace spotter::act::host
