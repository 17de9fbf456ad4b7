// The copies of a trainer's finished files, where every call fails by which they are made and put
// back: what was finished is there afterwards, or its copy is.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "agent/guard/keeper.hpp"
#include "tests/trainer/shim.hpp"

namespace spotter::test {
namespace {

namespace fs = std::filesystem;
using guard::Keeper;

constexpr const char* name = "last.bin";
const std::string first(300'000, '1'), second(300'000, '2'), torn(100'000, '3');

enum class CopyFault {
  Once,
  Lasting,
  Short  // a part is written, and no more
};

class Copies : public testing::TestWithParam<CopyFault> {
 protected:
  Copies() {
    std::string place = (fs::temp_directory_path() / "copies-XXXXXX").string();
    mount_ = ::mkdtemp(place.data());
    start();
  }
  ~Copies() override { fs::remove_all(mount_); }

  void start() const {
    for (const auto& each : fs::directory_iterator(mount_)) fs::remove_all(each);
    fs::create_directories(mount_ / ".spotter");
    fs::create_directories(mount_ / "ckpt/sub");
  }
  // By the kernel itself: what the trainer does does not fail.
  void trainer_writes(const std::string& bytes) const {
    const auto path = mount_ / "ckpt" / name;
    const int file = static_cast<int>(
        ::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644));
    ASSERT_GE(file, 0);
    ASSERT_EQ(::syscall(SYS_write, file, bytes.data(), bytes.size()),
              static_cast<long>(bytes.size()));
    ::close(file);
  }
  std::string read(const fs::path& path) const {
    std::ostringstream text;
    text << std::ifstream(mount_ / path, std::ios::binary).rdbuf();
    return text.str();
  }
  std::string file() const { return read(fs::path("ckpt") / name); }

  Keeper keeper() const { return *Keeper::open({mount_, "ckpt", "*.bin"}); }
  // Does the same as the guard; false: it says that it failed.
  static bool finish(Keeper& keeper) {
    auto captured = keeper.capture([](const std::string&) { return false; });
    return captured && keeper.finish(*std::move(captured));
  }
  void finished(const std::string& bytes) const {
    Keeper watching = keeper();
    ASSERT_TRUE(watching.begin());
    trainer_writes(bytes);
    ASSERT_TRUE(finish(watching));
  }
  std::map<std::string, std::string> in(const char* folder) const {
    std::map<std::string, std::string> all;
    const fs::path path = fs::path(".spotter") / folder;
    for (const auto& each : fs::directory_iterator(mount_ / path))
      all[each.path().filename()] = read(path / each.path().filename());
    return all;
  }

  // Does `work` as its call `at` fails; false: it has fewer.
  bool with_fault(int at, int error, const std::function<void()>& work) const {
    int calls = 0;
    bool reached = false, full = false;
    Shim shim;
    shim.shorten = [&](const Call& call) {
      const bool part = GetParam() == CopyFault::Short && calls == at && call.bytes.size() > 1;
      return part ? call.bytes.size() / 2 : call.bytes.size();
    };
    shim.before = [&](const Call& call) {
      const int number = calls++;
      reached = reached || number == at;
      const bool writes = call.kind == Call::Kind::Write;
      if (GetParam() == CopyFault::Short)
        return std::exchange(full, full || (number == at && writes)) && writes ? error : 0;
      return number == at || (GetParam() == CopyFault::Lasting && number > at) ? error : 0;
    };
    shim.install(mount_.string());
    shim.follow(mount_.string());
    work();
    shim.remove();
    return reached;
  }
  void try_all(const std::function<void()>& before, const std::function<void()>& work,
               const std::function<void()>& after) const;

  fs::path mount_;
};

void Copies::try_all(const std::function<void()>& before, const std::function<void()>& work,
                     const std::function<void()>& after) const {
  for (const int error : {EIO, ENOSPC}) {
    int calls = 0;
    for (;; ++calls) {
      SCOPED_TRACE("call " + std::to_string(calls) + ", " + std::strerror(error));
      start();
      before();
      if (!with_fault(calls, error, work)) break;
      after();
      if (HasFailure()) return;
    }
    EXPECT_GE(calls, 10) << "too few were seen";
  }
}

// Whatever the record names as a copy is the content that it says, and nothing else stays.
TEST_P(Copies, AreWholeOrNone) {
  try_all(
      [&] {
        finished(first);
        trainer_writes(second);
      },
      [&] {
        Keeper watching = keeper();
        (void)finish(watching);
      },
      [&] {
        Keeper now = keeper();
        for (const guard::Row& row : now.record().rows) {
          if (row.kept.empty()) continue;
          const fs::path copy = fs::path(".spotter") / guard::kept_directory / row.kept;
          EXPECT_TRUE(read(copy) == (row.until != 0 || now.record().step == 1 ? first : second));
        }
        EXPECT_TRUE(finish(now)) << "the next attempt";
        ASSERT_TRUE(now.settle(true));
        EXPECT_EQ(file(), second);
        const auto kept = in(guard::kept_directory);
        ASSERT_FALSE(kept.empty());
        for (const auto& [copy, bytes] : kept)
          EXPECT_TRUE(bytes == first || bytes == second) << copy;
        // A copy that could not be made is no reason not to record.
        EXPECT_TRUE(kept.rbegin()->second == second || kept.size() == 1U);
      });
}

// The machine was lost while the file was overwritten; another one is older, and whole.
TEST_P(Copies, ArePutBackByTheNextAttemptIfNotByThisOne) {
  try_all(
      [&] {
        finished(second);
        Keeper lost = keeper();
        ASSERT_TRUE(lost.begin());
        std::ofstream(mount_ / "ckpt/other.bin") << "another one, which is whole";
        ASSERT_TRUE(finish(lost));
        trainer_writes(torn);
      },
      [&] { (void)keeper().settle(true); },
      [&] {
        const auto settled = keeper().settle(true);
        ASSERT_TRUE(settled) << settled.error().message;
        EXPECT_TRUE(file() == second) << file().size() << " bytes of " << file()[0];
        EXPECT_FALSE(fs::exists(mount_ / ".spotter/putting-back"));
      });
}

// The disk has no room for the file beside its copy.
TEST(FullDisk, TheCopyItselfIsPutBack) {
  std::string place = (fs::temp_directory_path() / "copies-XXXXXX").string();
  const fs::path mount = ::mkdtemp(place.data());
  fs::create_directories(mount / ".spotter");
  fs::create_directories(mount / "ckpt");
  Keeper lost = *Keeper::open({mount, "ckpt", "*.bin"});
  ASSERT_TRUE(lost.begin());
  std::ofstream(mount / "ckpt/last.bin") << second;
  ASSERT_TRUE(lost.finish(*lost.capture([](const std::string&) { return false; })));
  std::ofstream(mount / "ckpt/last.bin") << torn;
  Shim shim;
  shim.before = [](const Call& call) {
    return call.kind == Call::Kind::Write && call.bytes.size() > 100'000 ? ENOSPC : 0;
  };
  shim.install(mount.string());
  shim.follow(mount.string());
  const auto settled = Keeper::open({mount, "ckpt", "*.bin"})->settle(true);
  shim.remove();
  ASSERT_TRUE(settled) << settled.error().message;
  std::ostringstream text;
  text << std::ifstream(mount / "ckpt/last.bin", std::ios::binary).rdbuf();
  EXPECT_TRUE(text.str() == second);
  EXPECT_EQ(settled->name, "last.bin");
  fs::remove_all(mount);
}

INSTANTIATE_TEST_SUITE_P(Each, Copies,
                         testing::Values(CopyFault::Once, CopyFault::Lasting, CopyFault::Short));

}  // namespace
}  // namespace spotter::test
