// The data files are believed in nothing.
#include "trainer/reference/dataset.hpp"

#include <gtest/gtest.h>

#include "tests/trainer/small_cifar10.hpp"
#include "tests/trainer/small_mnist.hpp"

namespace spotter::train {
namespace {

class Cifar10Files : public ::testing::Test {
 protected:
  void SetUp() override { test::write_small_cifar10(scratch_.path()); }
  void expect_error(const std::string& part) {
    const auto read = read_dataset(scratch_.path());
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().message.find(part), std::string::npos) << read.error().message;
    EXPECT_NE(read.error().message.find("scripts/fetch-cifar10"), std::string::npos);
  }
  std::filesystem::path batch() const { return scratch_.path() / "data_batch_3.bin"; }
  test::Scratch scratch_;
};

TEST_F(Cifar10Files, GoodOnesAreReadInTheirOrder) {
  const auto read = read_dataset(scratch_.path());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->training.count, 160U);
  EXPECT_EQ(read->test.count, 50U);
  EXPECT_EQ(read->shape.pixels(), 3072U);
  const std::string second = test::cifar10_batch(32, 2);
  EXPECT_EQ(read->training.labels[32], static_cast<std::uint8_t>(second[0]));
  EXPECT_EQ(read->training.images[32 * 3072], static_cast<std::uint8_t>(second[1]));
}

TEST_F(Cifar10Files, AFolderOfMnistIsMnist) {
  const test::Scratch other;
  test::write_small_mnist(other.path());
  EXPECT_EQ(read_dataset(other.path())->shape.channels, 1U);
}

TEST_F(Cifar10Files, AMissingBatch) {
  std::filesystem::remove(batch());
  expect_error("No such file");
}

TEST_F(Cifar10Files, ATruncatedBatch) {
  std::filesystem::resize_file(batch(), 5000);
  expect_error("has 5000 bytes, which is no whole number of records of 3073");
}

TEST_F(Cifar10Files, AnEmptyBatch) {
  std::filesystem::resize_file(batch(), 0);
  expect_error("has 0 bytes");
}

TEST_F(Cifar10Files, ALabelOutOfRange) {
  test::write_file(batch(), std::string(3073, 11));
  expect_error("holds the label 11 in record 0");
}

}  // namespace
}  // namespace spotter::train
