#include "agent/host/cold.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <latch>
#include <thread>

#include "agent/host/device.hpp"
#include "agent/host/mount.hpp"
#include "disk.hpp"
#include "trainer/library/bulk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class Cold : public testing::Test {
 protected:
  Cold() { fs::create_directories(folder_); }
  ~Cold() override { fs::remove_all(folder_); }

  void write(const std::string& name, std::size_t bytes) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << std::string(bytes, 'x');
  }
  io::SafeDirectory folder() const { return *io::SafeDirectory::open(folder_); }
  // Writes it out and lets the kernel forget it. False: this file system keeps it in memory.
  bool cools(const std::string& name) const {
    const io::Descriptor file(::open((folder_ / name).c_str(), O_RDONLY));
    ::fsync(file.get());
    ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    return pages_in_memory(name) == 0;
  }
  std::size_t pages_in_memory(const std::string& name) const {
    const io::Descriptor file(::open((folder_ / name).c_str(), O_RDONLY));
    const std::size_t bytes = fs::file_size(folder_ / name);
    void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.get(), 0);
    std::vector<unsigned char> pages((bytes + 4095) / 4096);
    ::mincore(memory, bytes, pages.data());
    ::munmap(memory, bytes);
    return static_cast<std::size_t>(
        std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
  }

  fs::path folder_ = fs::current_path() / ("cold-" + std::to_string(::getpid()));
};

// Each waits for all the others: where fewer are begun this never ends.
TEST_F(Cold, ManyBlocksAreReadAtOnce) {
  std::latch all(reads_at_once);
  std::atomic<std::size_t> done{0};
  const auto task = [&](std::size_t) {
    all.arrive_and_wait();
    ++done;
    return Result<void>();
  };
  EXPECT_TRUE(checkpoint::run_parallel(reads_at_once, reads_at_once, task));
  EXPECT_EQ(done, reads_at_once);
  EXPECT_TRUE(checkpoint::run_parallel(0, reads_at_once, task));
  EXPECT_EQ(done, reads_at_once);
}

TEST_F(Cold, WhatIsReadIsInMemoryForWhoeverIsNext) {
  constexpr std::size_t large = (3U << 20) + 5;
  std::vector<std::string> names{"step-1/large.bin", "small.bin", "empty.bin"};
  write(names[0], large);
  write(names[1], 100);
  write(names[2], 0);
  for (int i = 0; i < 600; ++i) write(names.emplace_back("shard-" + std::to_string(i)), 10);
  const bool forgotten = cools(names[0]);
  for (const std::string& name : names) (void)cools(name);  // its blocks exist once written out
  EXPECT_EQ(read_cold(folder(), names), large + 100 + 600 * 10);
  if (!forgotten) GTEST_SKIP() << "this file system keeps all in memory";
  EXPECT_EQ(pages_in_memory(names[0]), (large + 4095) / 4096);
}

TEST_F(Cold, NothingElseIsReadAndNothingFails) {
  write("secret", 50);
  write("checkpoint/model.bin", 70);
  (void)cools("checkpoint/model.bin");
  fs::create_symlink(folder_ / "secret", folder_ / "checkpoint/link");
  ASSERT_EQ(::mkfifo((folder_ / "checkpoint/fifo").c_str(), 0600), 0);
  write("checkpoint/holes", 0);
  fs::resize_file(folder_ / "checkpoint/holes", 4ULL << 40);
  const auto inside = folder().folder("checkpoint");
  ASSERT_TRUE(inside);
  EXPECT_EQ(read_cold(*inside, {"link", "fifo", "holes", "../secret", "gone", "model.bin"}), 70U);
  EXPECT_EQ(read_cold(*inside, {}), 0U);
}

// A volume with files on it, of which nothing is in memory.
class Warm : public Disk, public testing::WithParamInterface<const char*> {
 protected:
  static constexpr std::uint64_t bytes = 24U << 20, most = 140U << 20;  // XFS has a log of 64 MiB
  void SetUp() override {
    Disk::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(format(loop_->path(), GetParam()));
    const verbs::Mount request{.device = loop_->path(),
                               .filesystem = GetParam(),
                               .mount_point = mount_point(),
                               .volume = volume_id,
                               .user = "nobody"};
    const auto mounted = mount(request);
    ASSERT_TRUE(mounted) << words_of(mounted);
    const auto data = mount_point() / "code" / "data";
    ASSERT_TRUE(io::atomic_write(data, std::string(bytes, 'x'), 0644));
    ASSERT_TRUE(sync(mount_point()));
    record_ = mount_point();
  }
  verbs::Warm request(std::uint64_t from, std::chrono::milliseconds time,
                      const std::string& volume = volume_id) const {
    return {mount_point(), volume, record_, from, time};
  }
  std::string record_;
  // Counts what the kernel has asked the disk for.
  std::uint64_t read_by_now() const {
    std::ifstream counts("/sys/block/" + loop_->path().filename().string() + "/stat");
    std::uint64_t reads = 0, merged = 0, sectors = 0;
    counts >> reads >> merged >> sectors;
    return sectors * 512;
  }
};

TEST_P(Warm, AllThatIsAllocatedIsReadInPartsAndNothingElse) {
  const std::uint64_t before = read_by_now();
  const auto none = warm(request(0, 0ms));
  ASSERT_TRUE(none) << words_of(none);
  EXPECT_EQ(none->read, 0U);
  Warmth is = *none;
  int parts = 0;
  for (; is.read < is.total && parts < 100; ++parts) {
    const auto next = warm(request(is.at, 200ms));
    ASSERT_TRUE(next) << words_of(next);
    EXPECT_GT(next->at, is.at);
    is = *next;
  }
  EXPECT_GT(parts, 1) << "no more than a part of a gp3 volume's throughput is taken";
  EXPECT_GE(is.total, bytes);
  EXPECT_LT(is.total, most);
  EXPECT_GE(read_by_now() - before, is.total);
  EXPECT_LT(read_by_now() - before, is.total + (8U << 20));
}

TEST_P(Warm, WhatWasReadIsNotReadAgainButACopyIs) {
  const auto all = warm(request(0, 60s));
  ASSERT_TRUE(all) << words_of(all);
  EXPECT_EQ(all->read, all->total);
  const auto again = warm(request(0, 60s));
  ASSERT_TRUE(again) << words_of(again);
  EXPECT_EQ(again->total, 0U);
  EXPECT_GE(warm(request(0, 60s, "vol-0fedcba9876543210"))->total, bytes);
}

// Whoever filled it may have left anything there, under our names, too: the job's volume knows.
TEST_P(Warm, AVolumeOfDataIsReadOnceWhateverItSaysOfItself) {
  ASSERT_TRUE(warm(request(0, 60s)));  // which leaves a record there
  ASSERT_TRUE(unmount(mount_point(), 0s));
  ASSERT_TRUE(mount_data(loop_->path(), mount_point()));
  record_ = directory_ / "own";
  ASSERT_TRUE(fs::create_directories(directory_ / "own/.spotter"));
  EXPECT_GE(warm(request(0, 60s, "vol-0aaaaaaaaaaaaaaaa"))->total, bytes);
  EXPECT_GE(warm(request(0, 60s))->total, bytes);
  for (const char* volume : {volume_id, "vol-0aaaaaaaaaaaaaaaa"})
    EXPECT_EQ(warm(request(0, 60s, volume))->total, 0U) << volume;
}

TEST_P(Warm, TheVolumeIsUnmountedWhileItIsRead) {
  std::latch begun(1);
  Result<Warmth> is = failure("not begun");
  std::jthread reader([&] {
    begun.count_down();
    is = warm(request(0, 60s));
  });
  begun.wait();
  const std::uint64_t before = read_by_now();
  for (int i = 0; i < 100 && read_by_now() == before; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_GT(read_by_now(), before);
  const auto gone = unmount(mount_point(), 0s);
  EXPECT_TRUE(gone) << words_of(gone);
  reader.join();
  ASSERT_TRUE(is) << words_of(is);
  EXPECT_EQ(is->read, is->total);
  EXPECT_EQ(kind_of(warm(request(0, 0ms))), "not-mounted");
}

INSTANTIATE_TEST_SUITE_P(Filesystems, Warm, testing::Values("xfs", "ext4"),
                         [](const auto& it) { return std::string(it.param); });

}  // namespace
}  // namespace spotter::act::host
