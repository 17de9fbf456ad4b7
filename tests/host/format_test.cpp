// A disk is formatted only when it is provably blank.
#include "agent/host/device.hpp"

#include <fcntl.h>

#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

using Format = Disk;

TEST_F(Format, MakesAnXfsOnABlankDiskOnce) {
  const auto before = inspect(loop_->path());
  ASSERT_TRUE(before) << words_of(before);
  EXPECT_TRUE(before->blank) << before->detail;
  EXPECT_EQ(before->bytes, disk_bytes);
  const auto made = format(loop_->path(), "xfs");
  ASSERT_TRUE(made) << words_of(made);
  EXPECT_EQ(made->filesystem, "xfs");
  EXPECT_FALSE(made->uuid.empty());
  EXPECT_EQ(kind_of(format(loop_->path(), "xfs")), "not-blank");
  EXPECT_EQ(inspect(loop_->path())->uuid, made->uuid) << "the refusal touched nothing";
}

TEST_F(Format, MakesAnExt4) {
  const auto made = format(loop_->path(), "ext4");
  ASSERT_TRUE(made) << words_of(made);
  EXPECT_EQ(made->filesystem, "ext4");
  EXPECT_EQ(kind_of(format(loop_->path(), "btrfs")), "bad-request");
}

void expect_refused(const Loop& loop, const std::string& signature, const std::string& words) {
  const auto found = inspect(loop.path());
  ASSERT_TRUE(found) << words_of(found);
  EXPECT_FALSE(found->blank);
  EXPECT_EQ(found->filesystem, "");
  EXPECT_EQ(found->signature, signature);
  EXPECT_NE(found->detail.find(words), std::string::npos) << found->detail;
  const auto refused = format(loop.path(), "xfs");
  EXPECT_EQ(kind_of(refused), "not-blank");
  EXPECT_NE(words_of(refused).find(words), std::string::npos) << words_of(refused);
}

TEST_F(Format, RefusesAPartitionTable) {
  // A master boot record with one Linux partition from sector 2048.
  const std::string entry("\0\x20\x21\0\x83\x5e\x1f\x41\0\x08\0\0\0\xf8\x0f\0", 16);
  loop_->write(446, entry);
  loop_->write(510, "\x55\xaa");
  expect_refused(*loop_, "dos", "partition table");
}

TEST_F(Format, RefusesALuksHeader) {
  std::string header(592, '\0');
  header.replace(0, 8, std::string("LUKS\xba\xbe\0\1", 8));
  header.replace(168, 36, "8a5f3c7e-0000-4000-8000-123456789abc");
  loop_->write(0, header);
  expect_refused(*loop_, "crypto_LUKS", "LUKS");
}

TEST_F(Format, RefusesSwap) {
  must_run({"mkswap", loop_->path().string()});
  expect_refused(*loop_, "swap", "swap");
}

TEST_F(Format, RefusesOneByteInAnySampledPlace) {
  const auto positions = sample_positions(disk_bytes);
  EXPECT_GE(positions.size(), 64U);
  EXPECT_EQ(positions, sample_positions(disk_bytes));
  const auto edge = static_cast<std::int64_t>(1U << 20);
  for (const std::int64_t place :
       {std::int64_t{0}, edge - 1, std::int64_t{-1}, -edge, static_cast<std::int64_t>(positions[1]),
        static_cast<std::int64_t>(positions[40]) + 4095,
        static_cast<std::int64_t>(positions[63]) + 7}) {
    loop_->write(place, "x");
    expect_refused(*loop_, "data", "no known signature");
    loop_->write(place, std::string_view("\0", 1));
    EXPECT_TRUE(inspect(loop_->path())->blank);
  }
}

TEST_F(Format, RefusesADiskThatIsInUse) {
  const io::Descriptor claim(::open(loop_->path().c_str(), O_RDWR | O_EXCL | O_CLOEXEC));
  ASSERT_TRUE(claim);
  EXPECT_EQ(kind_of(format(loop_->path(), "xfs")), "device-busy");
}

TEST_F(Format, SaysWhatAnotherFileSystemIs) {
  must_run({"mkfs.ext4", "-q", "-L", "mine", loop_->path().string()});
  const auto found = inspect(loop_->path());
  EXPECT_EQ(found->filesystem, "ext4");
  EXPECT_EQ(found->label, "mine");
  EXPECT_EQ(kind_of(format(loop_->path(), "xfs")), "not-blank");
}

TEST_F(Format, CannotTellBetweenTwoSignatures) {
  must_run({"mkfs.ext4", "-q", loop_->path().string()});
  const char swap[] = "SWAPSPACE2";
  loop_->write(4096 - 10, swap);
  const auto found = inspect(loop_->path());
  ASSERT_TRUE(found) << words_of(found);
  EXPECT_FALSE(found->blank);
  EXPECT_EQ(kind_of(format(loop_->path(), "xfs")), "not-blank");
}

TEST_F(Directory, InspectSaysWhatIsNoDisk) {
  EXPECT_EQ(kind_of(inspect(directory_ / "none")), "device-absent");
  EXPECT_EQ(kind_of(inspect(write("file", "x"))), "inspect-failed");
}

}  // namespace
}  // namespace spotter::act::host
