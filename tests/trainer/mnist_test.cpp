// The data files are believed in nothing.
#include "trainer/reference/dataset.hpp"

#include <gtest/gtest.h>

#include "tests/trainer/small_mnist.hpp"

namespace spotter::train {
namespace {

namespace fs = std::filesystem;

class MnistFiles : public ::testing::Test {
 protected:
  void SetUp() override { test::write_small_mnist(scratch_.path()); }
  void expect_error(const std::string& part) {
    const auto read = read_mnist(scratch_.path());
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().message.find(part), std::string::npos) << read.error().message;
    EXPECT_NE(read.error().message.find("scripts/fetch-mnist"), std::string::npos);
  }
  test::Scratch scratch_;
  fs::path images() const { return scratch_.path() / "train-images-idx3-ubyte"; }
  fs::path labels() const { return scratch_.path() / "train-labels-idx1-ubyte"; }
};

TEST_F(MnistFiles, GoodOnesAreRead) {
  const auto read = read_mnist(scratch_.path());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->training.count, 300U);
  EXPECT_EQ(read->test.count, 100U);
  EXPECT_EQ(read->training.images.size(), 300U * kPixels);
}

TEST_F(MnistFiles, OtherDataHasAnotherSum) {
  const auto before = read_mnist(scratch_.path())->sum;
  test::write_set(scratch_.path(), "t10k", 100, 3);
  EXPECT_NE(read_mnist(scratch_.path())->sum, before);
}

TEST_F(MnistFiles, AMissingFile) {
  fs::remove(labels());
  expect_error("No such file");
}

TEST_F(MnistFiles, ATruncatedFile) {
  fs::resize_file(images(), 1000);
  expect_error("has 984 bytes of data, its header says 235200");
}

TEST_F(MnistFiles, AFileStillCompressed) {
  test::write_file(images(), std::string("\x1f\x8b\x08\x00", 4) + std::string(100, 'x'));
  expect_error("still compressed");
}

TEST_F(MnistFiles, LabelsInThePlaceOfImages) {
  fs::copy_file(labels(), images(), fs::copy_options::overwrite_existing);
  expect_error("magic is wrong");
}

TEST_F(MnistFiles, MoreLabelsThanImages) {
  test::write_file(labels(), test::big_endian(0x801) + test::big_endian(301) + std::string(301, 1));
  expect_error("300 images but 301 labels");
}

TEST_F(MnistFiles, ALabelThatIsNoDigit) {
  test::write_file(labels(),
                   test::big_endian(0x801) + test::big_endian(300) + std::string(300, 10));
  expect_error("holds the label 10");
}

TEST_F(MnistFiles, SizesThatOverflow) {
  test::write_file(images(), test::big_endian(0x803) + test::big_endian(0xffffffff) +
                                 test::big_endian(0xffffffff) + test::big_endian(0xffffffff));
  expect_error("impossible sizes");
}

}  // namespace
}  // namespace spotter::train
