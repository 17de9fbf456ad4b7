// The head of a home in a bucket: read as it was written, and nothing else is taken for one.
#include <gtest/gtest.h>

#include "agent/wire/head.hpp"

namespace spotter::wire {
namespace {

constexpr const char* a_manifest = "manifests/7-0123456789abcdef0123456789abcdef.json";

Head a_head() {
  Head head;
  head.epoch.number = 7;
  head.epoch.state = decide::Epoch::State::Using;
  head.epoch.holder = "i-0123";
  head.job = "mnist";
  head.id = "00112233445566778899aabbccddeeff";
  head.commits = 12;
  head.attempt = 3;
  head.manifest = a_manifest;
  head.newest = 1500;
  head.bytes = 100'000'000;
  return head;
}

TEST(Head, IsReadAsItWasWritten) {
  const auto read = parse_head(to_json(a_head()));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, a_head());
  Head first;
  first.epoch.number = 1;
  first.epoch.holder = "run-laptop-0123456789abcdef";
  const auto empty = parse_head(to_json(first));
  ASSERT_TRUE(empty) << empty.error().message;
  EXPECT_EQ(empty->newest, -1);
  EXPECT_EQ(empty->manifest, "");
}

TEST(Head, IsNotReadOfAnythingElse) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = to_json(a_head());
    const auto at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return text.replace(at, from.size(), to);
  };
  EXPECT_FALSE(parse_head(""));
  EXPECT_FALSE(parse_head(with("\"using\"", "\"used\"")));
  EXPECT_FALSE(parse_head(with("\"epoch\":7", "\"epoch\":0")));
  EXPECT_FALSE(parse_head(with("\"epoch\":7", "\"epoch\":4294967295")));
  EXPECT_FALSE(parse_head(with("i-0123", "i-0123/..")));
  EXPECT_FALSE(parse_head(with("i-0123", std::string(40, 'i'))));
  EXPECT_FALSE(parse_head(with(a_manifest, "manifests/../x")));
  EXPECT_FALSE(parse_head(with("\"version\":1", "\"version\":2")));
  EXPECT_FALSE(parse_head(with("00112233", "../../..")));
  EXPECT_FALSE(parse_head(with("\"bytes\":100000000,", "")));
  EXPECT_FALSE(parse_head(with("\"newest\":1500", "\"newest\":-2")));
  EXPECT_FALSE(parse_head(with("\"commits\":12", "\"commits\":9223372036854775807")));
}

TEST(Head, NamesNoManifestOutsideOfTheHome) {
  EXPECT_TRUE(is_manifest_name(a_manifest));
  for (const char* wrong : {"", "manifests/", "manifests/7-.json", "7-0123.json",
                            "manifests/-0123456789abcdef0123456789abcdef.json",
                            "manifests/7-0123456789abcdef0123456789abcde/.json"})
    EXPECT_FALSE(is_manifest_name(wrong)) << wrong;
}

}  // namespace
}  // namespace spotter::wire
