// Manifests that a bucket may have, and the part of them that may become files.
#include "agent/tier/manifest.hpp"

#include <gtest/gtest.h>

#include "trainer/library/manifest.hpp"

namespace spotter::tier {
namespace {

const std::string sum(32, 'a');

Manifest with(const std::vector<std::string>& names) {
  Manifest manifest{"mine", "checkpoint-5", 5, 1000, {}};
  for (const auto& name : names) manifest.parts.push_back({name, 7, -3, sum});
  return manifest;
}

Result<Manifest> read(const Manifest& manifest) { return decode(encode(manifest)); }

TEST(Manifest, ReadsAsItWasWritten) {
  const auto manifest = with({"a", "b/c", "b/d/\xc3\xa9"});
  const auto again = read(manifest);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, manifest);
  EXPECT_EQ(again->sum(), manifest.sum());
}

TEST(Manifest, EachFlippedBitIsFound) {
  std::string text = encode(with({"a", "b"}));
  for (std::size_t i = 0; i < text.size() * 8; ++i) {
    text[i / 8] = static_cast<char>(text[i / 8] ^ (1 << i % 8));
    EXPECT_FALSE(decode(text)) << i;
    text[i / 8] = static_cast<char>(text[i / 8] ^ (1 << i % 8));
  }
  for (std::size_t i = 0; i < text.size(); ++i) EXPECT_FALSE(decode(text.substr(0, i)));
}

// With a sum that is right, as whoever may write to the bucket can make one.
TEST(Manifest, NothingLeadsOutOfTheFolder) {
  for (const char* name : {"../x", "..", ".", "", "/x", "/etc/passwd", "a//b", "a/", "a/../../x",
                           "a/./b", "a/..", "x\ny", "a\"b", "a\\b"})
    EXPECT_FALSE(read(with({name}))) << name;
  EXPECT_FALSE(read(with({std::string("x\0y", 3)})));
  EXPECT_FALSE(read(with({std::string(256, 'x')})));
  EXPECT_FALSE(read(with({"1/2/3/4/5/6/7/8/9/x"})));
  for (const char* name : {"..", ".", "", ".hidden", "a/b", "/a", "a\nb"}) {
    auto manifest = with({"x"});
    manifest.name = name;
    EXPECT_FALSE(read(manifest)) << name;
  }
}

// A name without a number has the storage's own count as its step: a later storage counts from one.
TEST(Manifest, OfNamesWithoutANumberTheLaterOneIsNewer) {
  const Manifest lost{"job", "last", 7, 1000, {}}, after{"job", "last", 3, 2000, {}};
  EXPECT_GT(after.order(), lost.order());
  const Manifest high{"job", "checkpoint-7", 7, 1000, {}}, low{"job", "checkpoint-3", 3, 2000, {}};
  EXPECT_GT(high.order(), low.order());
}

TEST(Manifest, FilesAreThereOnceAndAreNoFolders) {
  EXPECT_FALSE(read(with({"a", "a"})));
  EXPECT_FALSE(read(with({"b", "a"})));
  EXPECT_FALSE(read(with({"a", "a-b", "a/b"})));
  EXPECT_TRUE(read(with({"a-b", "a/b"})));
}

TEST(Manifest, HasNotMoreThanACheckpoint) {
  EXPECT_FALSE(read(with({})));
  std::vector<std::string> many;
  for (int i = 100'000; i < 117'000; ++i) many.push_back(std::to_string(i));
  EXPECT_FALSE(read(with(many)));
  auto large = with({"a", "b"});
  large.parts[0].bytes = large.parts[1].bytes = UINT64_MAX / 2 + 1;
  EXPECT_FALSE(read(large));
  auto strange = with({"a"});
  strange.parts[0].sum = "../../../../../../../../etc/xxxx";
  EXPECT_FALSE(read(strange));
}

TEST(Manifest, IsReadOnlyWhereItsNumbersAreSuch) {
  const auto text = [](const std::string& part, const std::string& step) {
    const std::string body = R"({"format":1,"job":"j","name":"c","step":)" + step +
                             R"(,"saved_ms":1,"parts":[{"name":"a","mtime_ns":1,"sum":")" + sum +
                             R"(","bytes":)" + part + "}]";
    return body + ",\"xxh3_128\":\"" + checkpoint::sum_of(body) + "\"}\n";
  };
  EXPECT_TRUE(decode(text("1", "1")));
  for (const char* wrong : {"-1", "1.5", "1e300", "\"1\"", "null", "[]", "18446744073709551616"}) {
    EXPECT_FALSE(decode(text(wrong, "1"))) << wrong;
    EXPECT_FALSE(decode(text("1", wrong))) << wrong;
  }
}

}  // namespace
}  // namespace spotter::tier
