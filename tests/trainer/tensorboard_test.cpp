// Event files survive being cut anywhere: no step twice, no torn record, nothing durable missing.
#include "trainer/reference/tensorboard.hpp"

#include <gtest/gtest.h>

#include "tests/trainer/scratch.hpp"

namespace spotter::train {
namespace {

std::string bytes_in(const test::Scratch& scratch) {
  return test::read_file(scratch.path() / "events.out.tfevents.0.spotter");
}

void write_steps(const test::Scratch& scratch, std::uint64_t from, std::uint64_t to) {
  auto board = TensorBoard::open(scratch.path(), from - 1);
  ASSERT_TRUE(board) << board.error().message;
  for (std::uint64_t step = from; step <= to; ++step) (*board)->add(step, {{"loss", 0.5}});
  ASSERT_TRUE((*board)->flush());
}

// The length of a record is its first number.
std::size_t count_records(const std::string& bytes) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes.size(); ++count) {
    at += 16 + static_cast<std::uint8_t>(bytes[at]);
  }
  return count;
}

TEST(TensorBoardFile, ARecordIsFramedAsTensorFlowFramesIt) {
  const std::string record = tensorboard_record("123456789");
  ASSERT_EQ(record.size(), 8U + 4 + 9 + 4);
  // CRC-32C of "123456789" is 0xe3069283 (RFC 3720, B.4's check value); masked: rotated right by
  // 15, plus 0xa282ead8.
  const std::uint32_t crc = 0xe3069283U;
  const std::uint32_t masked = (crc >> 15 | crc << 17) + 0xa282ead8U;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(static_cast<std::uint8_t>(record[21 + i]), masked >> 8 * i & 255U);
  }
}

TEST(TensorBoardFile, LaterStepsAreCutOffWhenTheRunGoesOn) {
  const test::Scratch scratch;
  write_steps(scratch, 1, 300);
  const std::string whole = bytes_in(scratch);
  EXPECT_EQ(count_records(whole), 301U) << "the version, then 300 steps";
  write_steps(scratch, 201, 300);
  EXPECT_EQ(count_records(bytes_in(scratch)), 301U);
  EXPECT_EQ(bytes_in(scratch).size(), whole.size());
}

TEST(TensorBoardFile, ATornEndIsCutOffAtEveryByte) {
  const test::Scratch scratch;
  write_steps(scratch, 1, 3);
  const std::string whole = bytes_in(scratch);
  const auto path = scratch.path() / "events.out.tfevents.0.spotter";
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    test::write_file(path, whole.substr(0, cut));
    ASSERT_TRUE(TensorBoard::open(scratch.path(), 3));
    const std::string left = bytes_in(scratch);
    ASSERT_LE(left.size(), cut);
    ASSERT_EQ(left, whole.substr(0, left.size()));
    ASSERT_EQ(count_records(left), count_records(whole.substr(0, left.size())));
  }
}

TEST(TensorBoardFile, AFlippedByteEndsWhatIsBelieved) {
  const test::Scratch scratch;
  write_steps(scratch, 1, 3);
  std::string bytes = bytes_in(scratch);
  const std::size_t first = 16 + static_cast<std::uint8_t>(bytes[0]);
  bytes[first + 14] ^= 1;
  test::write_file(scratch.path() / "events.out.tfevents.0.spotter", bytes);
  ASSERT_TRUE(TensorBoard::open(scratch.path(), 3));
  EXPECT_EQ(bytes_in(scratch).size(), first);
}

}  // namespace
}  // namespace spotter::train
