// What a file's own format says of its being whole.
#include "agent/guard/shape.hpp"

#include <fcntl.h>

#include "tests/guard/folder.hpp"

namespace spotter::guard {
namespace {

class TheShape : public Folder {
 protected:
  Look look(const std::string& name, const std::string& bytes) const {
    write(name, bytes);
    const Descriptor file(::open(path(name).c_str(), O_RDONLY | O_CLOEXEC));
    return look_at(file.get(), bytes.size(), name);
  }
  bool proven(const std::string& bytes) const {
    write("proof", bytes);
    const Descriptor file(::open(path("proof").c_str(), O_RDONLY | O_CLOEXEC));
    return is_proven(file.get(), bytes.size());
  }
};

TEST_F(TheShape, OfAZipIsSealedByItsEndAndTornByEveryCut) {
  const std::string whole = zip(std::string(3000, 'w'));
  EXPECT_EQ(look("a.pt", whole).shape, Shape::Sealed);
  EXPECT_TRUE(proven(whole));
  for (std::size_t size = 4; size < whole.size(); size += 29) {
    EXPECT_EQ(look("a.pt", whole.substr(0, size)).shape, Shape::Torn) << size;
    EXPECT_FALSE(proven(whole.substr(0, size))) << size;
  }
}

TEST_F(TheShape, OfAZipWithAHoleInItIsNoProof) {
  std::string holed = zip(std::string(3000, 'w'));
  for (std::size_t i = 1000; i < 1512; ++i) holed[i] = '\0';
  EXPECT_EQ(look("a.pt", holed).shape, Shape::Sealed) << "its end is there";
  EXPECT_FALSE(proven(holed)) << "as a power cut may leave it";
}

TEST_F(TheShape, OfHdf5IsTornWhenTheFileIsShorterThanItsSuperblockSays) {
  const std::string whole = hdf5(std::string(500, 'w'));
  EXPECT_EQ(look("a.h5", whole).shape, Shape::Open) << "the length is no proof of the content";
  EXPECT_FALSE(proven(whole));
  EXPECT_EQ(look("a.h5", whole.substr(0, 300)).shape, Shape::Torn);
  EXPECT_EQ(look("a.h5", whole.substr(0, 20)).shape, Shape::Torn);
  // Its metadata is written last: until then there may be no superblock at all.
  EXPECT_EQ(look("a.h5", std::string(500, '\0')).shape, Shape::Torn);
  EXPECT_EQ(look("b", std::string(512, 'u') + whole).shape, Shape::Open) << "after a user's block";
}

TEST_F(TheShape, OfSafetensorsIsItsHeadersLength) {
  const std::string header = R"({"__metadata__":{},"w":{"dtype":"U8","data_offsets":[0,9]}})";
  const std::string whole = number(header.size(), 8) + header + "123456789";
  EXPECT_EQ(look("a.safetensors", whole).shape, Shape::Sealed);
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_EQ(look("a.safetensors", whole.substr(0, size)).shape, Shape::Torn) << size;
  }
  EXPECT_EQ(look("a.safetensors", whole + "0").shape, Shape::Torn);
}

TEST_F(TheShape, OfAnythingElseIsNotKnown) {
  EXPECT_EQ(look("a.bin", "weights").shape, Shape::Open);
  EXPECT_EQ(look("a.bin", "").shape, Shape::Torn);
  EXPECT_FALSE(proven("weights"));
}

}  // namespace
}  // namespace spotter::guard
