#include "agent/host/cold.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <latch>

#include "trainer/library/bulk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

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

}  // namespace
}  // namespace spotter::act::host
