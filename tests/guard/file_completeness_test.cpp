// A file's own format tells whether the file is whole.
#include "agent/guard/file_completeness.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

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
  bool complete(const std::string& bytes) const {
    write("proof", bytes);
    const Descriptor file(::open(path("proof").c_str(), O_RDONLY | O_CLOEXEC));
    return is_known_complete(file.get(), bytes.size());
  }
};

TEST_F(TheShape, OfAZipIsSealedByItsEndAndTornByEveryCut) {
  const std::string whole = zip(std::string(3000, 'w'));
  EXPECT_EQ(look("a.pt", whole).shape, Shape::Sealed);
  EXPECT_TRUE(complete(whole));
  for (std::size_t size = 4; size < whole.size(); size += 29) {
    EXPECT_EQ(look("a.pt", whole.substr(0, size)).shape, Shape::Torn) << size;
    EXPECT_FALSE(complete(whole.substr(0, size))) << size;
  }
}

TEST_F(TheShape, OfAZipWithAHoleInItIsNoProof) {
  std::string holed = zip(std::string(3000, 'w'));
  for (std::size_t i = 1000; i < 1512; ++i) holed[i] = '\0';
  EXPECT_EQ(look("a.pt", holed).shape, Shape::Sealed) << "its end is there";
  EXPECT_FALSE(complete(holed)) << "as a power cut may leave it";
}

TEST_F(TheShape, OfHdf5IsTornWhenTheFileIsShorterThanItsSuperblockSays) {
  const std::string whole = hdf5(std::string(500, 'w'));
  EXPECT_EQ(look("a.h5", whole).shape, Shape::Open) << "the length is no proof of the content";
  EXPECT_FALSE(complete(whole));
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
  EXPECT_FALSE(complete("weights"));
}

// In no more memory than a few times what is read, or the child is ended.
TEST_F(TheShape, OfALargeHeaderCostsLittleMemory) {
  for (const std::size_t size : {15U << 20, 24U << 20}) {
    std::string header = "{\"a\":[";
    while (header.size() + 8 < size) header += "[],";
    header += "1]}";
    const std::string bytes = number(header.size(), 8) + header;
    write("a.safetensors", bytes);
    const pid_t child = ::fork();
    if (child == 0) {
      std::ifstream statm("/proc/self/statm");
      std::uint64_t pages = 0;
      statm >> pages;
      const rlim_t most = pages * 4096 + (96U << 20);
      const rlimit limit{most, most};
      ::setrlimit(RLIMIT_AS, &limit);
      const Descriptor file(::open(path("a.safetensors").c_str(), O_RDONLY | O_CLOEXEC));
      const Shape shape = look_at(file.get(), bytes.size(), "a.safetensors").shape;
      ::_exit(shape == (size > 16U << 20 ? Shape::Open : Shape::Sealed) ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << size;
  }
}

// The four terabytes are not on the disk: to read them would take an hour.
TEST_F(TheShape, OfAHollowFileIsNotRead) {
  write("a.bin", "");
  std::filesystem::resize_file(path("a.bin"), 4ULL << 40);
  Keeper watched = keeper();
  ASSERT_TRUE(watched.begin());
  const auto captured = watched.capture([](const std::string&) { return false; });
  ASSERT_TRUE(captured);
  EXPECT_TRUE(captured->rows.empty());
  ASSERT_EQ(captured->left_out.size(), 1U);
  EXPECT_NE(captured->left_out[0].words.find("never written"), std::string::npos);
}

TEST_F(TheShape, OfAZipWhoseEntriesShareTheirContentProvesNothing) {
  const std::string content(3000, 'w');
  const std::string one = zip(content);
  const auto entry_at = one.find("PK\x01\x02");
  const auto end_at = one.find("PK\x05\x06");
  const std::string entry = one.substr(entry_at, end_at - entry_at);
  const std::string twice = one.substr(0, entry_at) + entry + entry + "PK\x05\x06" + number(0, 4) +
                            number(2, 2) + number(2, 2) + number(2 * entry.size(), 4) +
                            number(entry_at, 4) + number(0, 2);
  EXPECT_TRUE(complete(one));
  EXPECT_FALSE(complete(twice));
}

}  // namespace
}  // namespace spotter::guard
