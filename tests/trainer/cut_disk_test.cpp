// The same story on real file systems: before each call that changes something, the disk is copied
// as it is at that instant (what is only in the page cache is lost), and the copy is mounted: its
// journal is replayed as after a power cut. The disk is a file behind a loop device. Writes that
// were not flushed are the subject of power_test.cpp.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>

#include "tests/trainer/power_story.hpp"
#include "tests/trainer/shim.hpp"
#include "trainer/library/files.hpp"

namespace spotter::checkpoint {
namespace {

using namespace power;  // NOLINT: the story is these tests' own
using test::Call;
using test::Shim;

bool shell(const std::string& line) {
  return std::system((line + " >/dev/null 2>&1").c_str()) == 0;
}

// Only what holds data: the file has many holes.
bool copy_sparse(const fs::path& from, const fs::path& to) {
  const Descriptor source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  const Descriptor target(::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const off_t end = ::lseek(source.get(), 0, SEEK_END);
  if (!source || !target || ::ftruncate(target.get(), end) != 0) return false;
  std::string buffer(1 << 20, ' ');
  for (off_t at = ::lseek(source.get(), 0, SEEK_DATA); at >= 0;
       at = ::lseek(source.get(), at, SEEK_DATA)) {
    const off_t hole = ::lseek(source.get(), at, SEEK_HOLE);
    while (at < hole) {
      const auto wanted = std::min<std::size_t>(buffer.size(), static_cast<std::size_t>(hole - at));
      const ssize_t got = ::pread(source.get(), buffer.data(), wanted, at);
      if (got <= 0 ||
          ::pwrite(target.get(), buffer.data(), static_cast<std::size_t>(got), at) != got)
        return false;
      at += got;
    }
  }
  return true;
}

class CutDisk : public ::testing::TestWithParam<const char*> {
 protected:
  // A mount namespace of our own: whatever happens to this process, its mounts end with it, and the
  // kernel detaches the loop devices behind them.
  void SetUp() override {
    if (::geteuid() != 0 || ::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      GTEST_SKIP() << "mounting needs root";
    }
    fs::create_directories(memory_ / "mnt");
    fs::create_directories(memory_ / "after");
    const bool made =
        shell("truncate -s " + std::string(xfs() ? "320M " : "48M ") + image()) &&
        shell(std::string("mkfs.") + GetParam() + (xfs() ? " -q " : " -q -F ") + image());
    if (!made || !mount(image(), memory_ / "mnt")) {
      GTEST_SKIP() << "no loop devices, or no " << GetParam() << ", here";
    }
  }
  void TearDown() override {
    for (const char* name : {"after", "mnt"}) ::umount2((memory_ / name).c_str(), MNT_DETACH);
  }
  bool xfs() const { return std::string(GetParam()) == "xfs"; }
  std::string image() const { return (memory_ / "image").string(); }
  bool mount(const std::string& file, const fs::path& where) const {
    const std::string options = xfs() ? "loop,nouuid " : "loop ";
    return shell("mount -t " + std::string(GetParam()) + " -o " + options + file + " " +
                 where.string());
  }
  // Says what is wrong on the disk as it would be after a cut now.
  std::string after_cut(std::uint64_t acknowledged) {
    const std::string copy = (memory_ / "copy").string();
    if (!copy_sparse(image(), copy)) return "cannot copy the disk";
    if (!mount(copy, memory_ / "after")) return "the copy cannot be mounted";
    const auto wrong = wrong_with(memory_ / "after/c", acknowledged);
    ::umount2((memory_ / "after").c_str(), 0);
    return wrong;
  }

  Memory memory_;
};

TEST_P(CutDisk, BeforeEachCallWhatWasAcknowledgedIsThere) {
  std::atomic<std::uint64_t> acknowledged{0};
  std::atomic<int> cuts{0};
  std::string wrong;
  Shim shim;
  shim.before = [&](const Call&) {
    const std::uint64_t promised = acknowledged;
    const auto found = after_cut(promised);
    if (!found.empty() && wrong.empty()) {
      wrong =
          found + "; acknowledged " + std::to_string(promised) + ", cut " + std::to_string(cuts);
    }
    ++cuts;
    return 0;
  };
  shim.install((memory_ / "mnt").string());
  run(memory_ / "mnt/c", [&](const Durable& durable) { acknowledged = durable.step; });
  shim.remove();
  EXPECT_EQ(wrong, "");
  EXPECT_EQ(after_cut(kSteps), "");
  std::printf("%d cuts of %s\n", cuts.load(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(FileSystems, CutDisk, ::testing::Values("ext4", "xfs"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace spotter::checkpoint
