// Whether the kernel killed for want of memory, by what it counts in the control group.
#include "agent/supervise/processes.hpp"

#include <filesystem>
#include <fstream>

#include "tests/supervise/stage.hpp"

namespace spotter::supervise {
namespace {

class Memory : public Stage {
 protected:
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path(file)).parent_path());
    std::ofstream(path(file)) << text;
  }
  std::uint64_t kills() { return kills_for_want_of_memory(path("")); }
};

TEST_F(Memory, IsCountedInTheGroupThatWeAreIn) {
  write("proc/self/cgroup",
        "1:name=systemd:/elsewhere\n0::/system.slice/spotter-trainer.service\n");
  EXPECT_EQ(kills(), 0U) << "the kernel does not count";
  write("sys/fs/cgroup/system.slice/spotter-trainer.service/memory.events",
        "low 0\nhigh 0\nmax 217\noom 3\noom_kill 2\noom_group_kill 0\n");
  EXPECT_EQ(kills(), 2U);
  write("proc/self/cgroup", "4:memory:/old\n");
  EXPECT_EQ(kills(), 0U);
}

}  // namespace
}  // namespace spotter::supervise
