// The frozen listing of a channel.
#include "agent/data/catalogue.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace spotter::data {
namespace {

namespace fs = std::filesystem;

class ListingFile : public testing::Test {
 protected:
  ListingFile() {
    std::string name = (fs::temp_directory_path() / "listing-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    file_ = folder_ / "train.listing";
  }
  ~ListingFile() override { fs::remove_all(folder_); }

  std::string text_of(const Listing& listing) {
    EXPECT_TRUE(write_listing(file_, channel_, listing));
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }
  // None: it is not read.
  std::optional<Listing> read_back(std::string_view text, const wire::Channel& channel) {
    std::ofstream(file_) << text;
    auto listing = read_listing(file_, channel);
    return listing ? *listing : std::nullopt;
  }
  std::optional<Listing> read_back(std::string_view text) { return read_back(text, channel_); }

  fs::path folder_;
  fs::path file_;
  wire::Channel channel_ = *wire::parse_channel("train=s3://bucket/p");
};

// SPOTTER_KEYS=10000000 says whether as many as a channel may have come back, and
// /usr/bin/time -v in how much memory.
TEST_F(ListingFile, OfManyKeysComesBackWhole) {
  const char* given = std::getenv("SPOTTER_KEYS");
  const std::size_t keys = given != nullptr ? std::stoul(given) : 20'000;
  Listing listing{"p", {}};
  listing.entries.reserve(keys);
  for (std::size_t i = 0; i < keys; ++i) {
    listing.entries.push_back({.key = "p/images/of/a/long/folder/" + std::to_string(i) + ".jpg",
                               .size = i,
                               .etag = "\"0123456789abcdef0123456789abcdef\"",
                               .modified = 1'700'000'000});
  }
  ASSERT_TRUE(write_listing(file_, channel_, listing));
  const auto read = read_listing(file_, channel_);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(*read);
  EXPECT_TRUE(**read == listing);
}

TEST_F(ListingFile, IsReadAsItWasWrittenAndNotOtherwise) {
  const Listing listing{"p",
                        {{"a \"b\"\n\xC3\xBC", 5, "\"e\"", true, "", std::nullopt},
                         {"c", 0, "\"f\"", false, "other-bucket", std::nullopt},
                         {"", 3, "", false, "", "v\"1"}}};
  const std::string text = text_of(listing);
  EXPECT_EQ(read_back(text), listing);
  EXPECT_FALSE(read_back(text, *wire::parse_channel("train=s3://bucket/q")));
  for (std::size_t cut = 0; cut < text.size(); ++cut) {
    const auto part = read_back(text.substr(0, cut));
    EXPECT_TRUE(!part || part->entries.size() < listing.entries.size()) << cut;
  }
  EXPECT_FALSE(read_back(text + "[1]\n"));
  const auto timed =
      read_back(text + "[\"k\",1,\"e\",true,\"b\",7]\n" + "[\"k\",1,\"e\",true,8]\n");
  ASSERT_TRUE(timed);
  EXPECT_EQ(timed->entries[3].modified, 7);
  EXPECT_EQ(timed->entries[4].modified, 8);
  EXPECT_EQ(read_back(text_of(*timed))->entries[4].modified, 8);
  Listing elsewhere = listing;
  elsewhere.prefix = "of/a/manifest/";
  EXPECT_EQ(read_back(text_of(elsewhere)), elsewhere);
}

TEST_F(ListingFile, OfANewerSpotterIsRefusedWithoutTheAdviceToRemoveIt) {
  std::ofstream(file_) << R"({"format":2,"source":"s3://bucket/p"})"
                       << "\n{}\n";
  const auto read = read_listing(file_, channel_);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("written by a newer Spotter"), std::string::npos);
  EXPECT_EQ(read.error().message.find("remove it"), std::string::npos);
}

TEST_F(ListingFile, ThatIsNotThereIsNoneAndThatIsCutIsAnError) {
  EXPECT_EQ(read_listing(file_, channel_).value(), std::nullopt);
  const Listing listing{
      "p",
      {{"p/a", 1, "\"e\"", true, "", std::nullopt}, {"p/b", 1, "\"e\"", true, "", std::nullopt}}};
  ASSERT_TRUE(write_listing(file_, channel_, listing));
  fs::resize_file(file_, fs::file_size(file_) - 1);
  const auto read = read_listing(file_, channel_);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message.find("its last line is cut off"), std::string::npos);
  fs::resize_file(file_, 0);
  EXPECT_FALSE(read_listing(file_, channel_));
}

}  // namespace
}  // namespace spotter::data
