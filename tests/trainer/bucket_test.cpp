// Manifests that a bucket may have, and the part of them that may become files.
#include "trainer/library/bucket.hpp"

#include <gtest/gtest.h>

#include "trainer/library/manifest.hpp"

namespace spotter::bucket {
namespace {

const std::string sum(32, 'a');

Manifest with(const std::vector<std::string>& paths) {
  Manifest manifest{"mine", "checkpoint-5", 5, 1000, {}, {}};
  for (const auto& path : paths) manifest.files[path] = {7, -3, sum, "checkpoint-5-x"};
  return manifest;
}

Result<Manifest> read(const Manifest& manifest) { return decode(encode(manifest)); }

TEST(BucketManifest, ReadsAsItWasWritten) {
  auto manifest = with({"a", "b/c", "b/d/\xc3\xa9"});
  const auto again = read(manifest);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, manifest);
  EXPECT_EQ(again->sum(), manifest.sum());
  manifest.metric = 0.125;
  EXPECT_EQ(read(manifest).value_or(Manifest()), manifest);
  Manifest home{.job = "mine-7"};
  home.files["c"] = {0, 1'000'000'000, sum, "9"};
  EXPECT_EQ(read(home).value_or(Manifest()), home);
}

TEST(BucketManifest, EachFlippedBitIsFound) {
  std::string text = encode(with({"a", "b"}));
  for (std::size_t i = 0; i < text.size() * 8; ++i) {
    text[i / 8] = static_cast<char>(text[i / 8] ^ (1 << i % 8));
    EXPECT_FALSE(decode(text)) << i;
    text[i / 8] = static_cast<char>(text[i / 8] ^ (1 << i % 8));
  }
  for (std::size_t i = 0; i < text.size(); ++i) EXPECT_FALSE(decode(text.substr(0, i)));
}

// With a sum that is right, as whoever may write to the bucket can make one.
TEST(BucketManifest, NothingLeadsOutOfTheFolder) {
  for (const char* path : {"../x", "..", ".", "", "/x", "/etc/passwd", "a//b", "a/", "a/../../x",
                           "a/./b", "./a", "a/..", "x\ny", "a\"b", "a\\b"})
    EXPECT_FALSE(read(with({path}))) << path;
  EXPECT_FALSE(read(with({std::string("x\0y", 3)})));
  EXPECT_FALSE(read(with({std::string(256, 'x')})));
  std::string deep;
  for (int i = 0; i < 32; ++i) deep += "1/";
  EXPECT_FALSE(read(with({deep + "x"})));
  for (const char* name : {"..", ".", ".hidden", "a/b", "/a", "a\nb"}) {
    auto manifest = with({"x"});
    manifest.name = name;
    EXPECT_FALSE(read(manifest)) << name;
  }
  for (const char* group : {"a/b", "../../heads", "a\nb"}) {
    auto manifest = with({"x"});
    manifest.files["x"].group = group;
    EXPECT_FALSE(read(manifest)) << group;
  }
}

TEST(BucketManifest, FilesAreThereOnceAndAreNoFolders) {
  EXPECT_FALSE(read(with({"a", "a-b", "a/b"})));
  EXPECT_TRUE(read(with({"a-b", "a/b"})));
  std::string twice = encode(with({"a", "b"}));
  twice.resize(twice.size() - checkpoint::kSealBytes);
  twice.replace(twice.find(R"("path":"b")"), 10, R"("path":"a")");
  EXPECT_FALSE(decode(twice + ",\"xxh3_128\":\"" + checkpoint::sum_of(twice) + "\"}\n"));
}

TEST(BucketManifest, HasNotMoreThanACheckpoint) {
  EXPECT_FALSE(read(with({})));
  std::vector<std::string> many;
  for (std::size_t i = 0; i <= most_files; ++i) many.push_back(std::to_string(i));
  EXPECT_FALSE(read(with(many)));
  auto large = with({"a", "b"});
  large.files["a"].bytes = large.files["b"].bytes = UINT64_MAX / 2 + 1;
  EXPECT_FALSE(read(large));
  auto strange = with({"a"});
  strange.files["a"].sum = "../../../../../../../../etc/xxxx";
  EXPECT_FALSE(read(strange));
}

TEST(BucketManifest, IsReadOnlyWhereItsNumbersAreSuch) {
  const auto text = [](const std::string& bytes, const std::string& step,
                       const std::string& name = "c") {
    const std::string body = R"({"format":1,"job":"j","name":")" + name + R"(","step":)" + step +
                             R"(,"saved_ms":1,"files":[{"path":"a","mtime_ns":1,"sum":")" + sum +
                             R"(","group":"c","bytes":)" + bytes + "}]";
    return body + ",\"xxh3_128\":\"" + checkpoint::sum_of(body) + "\"}\n";
  };
  EXPECT_TRUE(decode(text("1", "1")));
  EXPECT_FALSE(decode(text("1", "1", "")));
  for (const char* wrong : {"-1", "1.5", "1e300", "\"1\"", "null", "[]", "18446744073709551616"}) {
    EXPECT_FALSE(decode(text(wrong, "1"))) << wrong;
    EXPECT_FALSE(decode(text("1", wrong))) << wrong;
  }
}

}  // namespace
}  // namespace spotter::bucket
