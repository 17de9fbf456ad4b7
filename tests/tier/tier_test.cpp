// Folders in S3: what is there after copies, and what a machine that has lost its storage goes on
// with.
#include <sys/stat.h>

#include <fstream>

#include "tests/tier/fixture.hpp"
#include "tests/trainer/newer_manifest.hpp"
#include "trainer/library/bucket.hpp"

namespace spotter::tier {
namespace {

namespace fs = std::filesystem;

// A manifest of one file, x.
bucket::Manifest by_hand(const std::string& name, std::uint64_t bytes) {
  bucket::Manifest made{"mine", name, 4, 1, {}, {}};
  made.files["x"] = {bytes, 0, checkpoint::sum_of("x"), ""};
  made.files["x"].group = name + "-" + made.sum();
  return made;
}

TEST_F(InS3, HasEachFileAndTheManifestLast) {
  save("checkpoint-5");
  std::vector<std::string> written;
  for (const auto& request : server_.requests())
    if (request.method == "PUT") written.push_back(request.path);
  EXPECT_EQ(written.size(), contents("checkpoint-5").size() + 1);
  EXPECT_EQ(written.back(), "/bucket/" + manifest_of("checkpoint-5"));
  EXPECT_EQ(server_.find(key_of("checkpoint-5", "optimizer.pt"))->bytes,
            read("checkpoint-5/optimizer.pt"));
}

TEST_F(InS3, AMachineWithoutTheStorageGetsTheSameBytesAndTimes) {
  record_one("checkpoint-5", distributed("checkpoint-5"));
  write("checkpoint-7/deep/er/model.safetensors", guard::safetensors(std::string(20U << 20, 'w')));
  write("checkpoint-7/empty", "");
  record_one("checkpoint-7", transformers("checkpoint-7"));
  ASSERT_TRUE(copy(options()));
  const auto before = contents("checkpoint-7");
  const auto time = fs::last_write_time(path("checkpoint-7/trainer_state.json"));
  lose_the_storage();
  EXPECT_EQ(fetched(), "checkpoint-7");
  EXPECT_EQ(contents("checkpoint-7"), before);
  EXPECT_EQ(fs::last_write_time(path("checkpoint-7/trainer_state.json")), time);
  expect_whole("checkpoint-7");
}

TEST_F(InS3, WhatIsThereIsNotCopiedAgain) {
  save("checkpoint-5");
  const auto puts = [this] {
    return std::ranges::count(server_.requests(), "PUT", &s3_test::Request::method);
  };
  const auto before = puts();
  save("checkpoint-5");
  EXPECT_EQ(puts(), before);
}

TEST_F(InS3, TheNewestTwoAreKept) {
  for (const char* name : {"checkpoint-5", "checkpoint-6", "checkpoint-10"}) save(name);
  EXPECT_EQ(manifest_of("checkpoint-5"), "");
  EXPECT_NE(manifest_of("checkpoint-6"), "");
  EXPECT_NE(manifest_of("checkpoint-10"), "");
  for (const std::string& key : keys()) EXPECT_EQ(key.find("checkpoint-5"), key.npos) << key;
}

// Also the rest of an interrupted copy; but nothing that is no folder of ours.
TEST_F(InS3, OnlyWhatIsOursIsRemoved) {
  const std::string sum(32, '0');
  const std::vector<std::string> others = {"runs/one 1/notes.txt", "runs/one 1/data/checkpoint-1/x",
                                           "runs/one 1/manifests/notes.txt",
                                           "runs/one 10/data/checkpoint-1-" + sum + "/x"};
  for (const auto& key : others) server_.put(key, "x");
  const std::string left = "runs/one 1/data/checkpoint-1-" + sum + "/x";
  const std::vector<std::string> under_way = {"runs/one 1/data/checkpoint-9-" + sum + "/x",
                                              "runs/one 1/data/checkpoint-last-" + sum + "/x",
                                              "runs/one 1/data/checkpoint-2-" + sum + "/x"};
  for (const auto& key : under_way) server_.put(key, "x");
  server_.put(left, "x");
  for (const auto& key : {left, under_way[0], under_way[1]}) server_.make_old(key);
  save("checkpoint-5");
  for (const auto& key : others) EXPECT_TRUE(server_.find(key)) << key;
  EXPECT_FALSE(server_.find(left));
  for (const auto& key : under_way) EXPECT_TRUE(server_.find(key)) << key;
}

// A manifest that came after the others were read was not judged, nor what it names.
TEST_F(InS3, WhatIsCommittedMeanwhileStays) {
  const auto theirs = by_hand("checkpoint-4", 1);
  const std::string stem = theirs.name + "-" + theirs.sum();
  const std::string data = "runs/one 1/" + theirs.files.at("x").key();
  const std::string manifest = "runs/one 1/" + bucket::manifest_name(stem);
  server_.put(data, "x");
  server_.make_old(data);
  bool is_saved = false, is_listed = false;
  server_.trouble([&](const auto& request, auto&) {
    is_saved |= request.method == "PUT" && request.path.find("/manifests/") != std::string::npos;
    const auto prefix = request.query.find("prefix");
    if (!is_saved || is_listed || prefix == request.query.end()) return;
    if (!prefix->second.ends_with("manifests/")) return;
    is_listed = true;
    server_.put(manifest, bucket::encode(theirs));
  });
  save("checkpoint-5");
  server_.trouble({});
  ASSERT_TRUE(is_listed);
  EXPECT_TRUE(server_.find(manifest));
}

TEST_F(InS3, OfNamesWithoutANumberTheLaterSavedIsNewer) {
  record_one("checkpoint-1000", transformers("checkpoint-1000"));
  save("checkpoint-last");
  lose_the_storage();
  write("checkpoint-last/extra.bin", guard::zip("more"));
  save("checkpoint-last");
  const auto before = contents("checkpoint-last");
  lose_the_storage();
  EXPECT_EQ(fetched(), "checkpoint-last");
  EXPECT_EQ(contents("checkpoint-last"), before);
}

// A manifest that asks for so many pieces would take days.
TEST_F(InS3, NoMoreIsAskedForOfAFileThatIsTorn) {
  save("checkpoint-5");
  const auto large = by_hand("checkpoint-7", std::uint64_t{4} << 40);
  server_.put("runs/one 1/" + bucket::manifest_name(large.name + "-" + large.sum()),
              bucket::encode(large));
  for (const bool is_there : {false, true}) {
    if (is_there) server_.put("runs/one 1/" + large.files.at("x").key(), "x");
    lose_the_storage();
    EXPECT_EQ(fetched(), "checkpoint-5");
  }
  EXPECT_EQ(said_.size(), 2U);
}

TEST_F(InS3, ANameThatIsWrittenAgainHasItsNewContent) {
  save("checkpoint-5");
  write("checkpoint-5/extra.bin", guard::zip("more"));
  save("checkpoint-5");
  const auto before = contents("checkpoint-5");
  lose_the_storage();
  EXPECT_EQ(fetched(), "checkpoint-5");
  EXPECT_EQ(contents("checkpoint-5"), before);
}

TEST_F(InS3, TheNewestWinsWhereverItIs) {
  save("checkpoint-5");
  EXPECT_EQ(fetched(), "");
  record_one("checkpoint-6", transformers("checkpoint-6"));
  EXPECT_EQ(fetched(), "");
  save("checkpoint-10");
  lose_the_storage();
  record_one("checkpoint-9", transformers("checkpoint-9"));
  EXPECT_EQ(fetched(), "checkpoint-10");
  expect_whole("checkpoint-10");
}

TEST_F(InS3, ATornOneIsSaidAndTheOneBeforeServes) {
  for (const char* name : {"checkpoint-5", "checkpoint-6"}) save(name);
  const std::string key = key_of("checkpoint-6", "optimizer.pt");
  std::string bytes = server_.find(key)->bytes;
  bytes[10] ^= 1;
  for (const std::string& wrong : {bytes, bytes.substr(1), std::string()}) {
    server_.put(key, wrong);
    said_.clear();
    lose_the_storage();
    EXPECT_EQ(fetched(), "checkpoint-5");
    EXPECT_EQ(said_.size(), 1U);
    EXPECT_FALSE(exists("checkpoint-6"));
    expect_whole("checkpoint-5");
  }
}

TEST_F(InS3, WhereAllAreTornNothingBeginsFromScratch) {
  save("checkpoint-5");
  server_.put(manifest_of("checkpoint-5"), "{}");
  lose_the_storage();
  const auto none = fetch();
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("are torn: remove them there"), std::string::npos);
}

TEST_F(InS3, AnEmptyPlaceIsABeginning) {
  lose_the_storage();
  EXPECT_EQ(fetched(), "");
}

TEST_F(InS3, WithoutAWordFromS3NothingBeginsFromScratch) {
  save("checkpoint-5");
  for (const int status : {403, 500}) {
    // Neither while it is listed, nor while a manifest or a file is read.
    for (int request = 1; request < 5; ++request) {
      refuse_from(request, status);
      lose_the_storage();
      EXPECT_FALSE(fetch()) << status << " from " << request;
      EXPECT_TRUE(contents("").empty());
      refuse_from(0, 0);
    }
  }
  record_one("checkpoint-2", transformers("checkpoint-2"));
  refuse_from(1, 500);
  EXPECT_EQ(fetched(), "");  // the storage's own does
  EXPECT_EQ(said_.size(), 1U);
}

TEST_F(InS3, TwoJobsInOnePlaceDoNotMix) {
  save("checkpoint-5");
  const auto copied = copy(options("another"));
  ASSERT_FALSE(copied);
  EXPECT_NE(copied.error().message.find("of the job 'mine'"), std::string::npos);
  lose_the_storage();
  EXPECT_FALSE(tier::fetch(options("another"), [](const auto&) {}));
  EXPECT_TRUE(contents("").empty());
}

TEST_F(InS3, WhatANewerSpotterWroteIsRefusedAndStays) {
  save("checkpoint-5");
  const std::string key = manifest_of("checkpoint-5");
  const std::string newer = test::newer_manifest(server_.find(key)->bytes);
  server_.put(key, newer);
  record_one("checkpoint-6", transformers("checkpoint-6"));
  EXPECT_FALSE(copy(options()));
  EXPECT_FALSE(fetch());
  EXPECT_EQ(server_.find(key)->bytes, newer);
}

TEST_F(InS3, WhatIsNotAsItWasRecordedIsNotCopied) {
  record_one("checkpoint-5", transformers("checkpoint-5"));
  const auto file = path("checkpoint-5/optimizer.pt");
  const auto time = fs::last_write_time(file);
  std::string other = read("checkpoint-5/optimizer.pt");
  other.back() ^= 1;
  write("checkpoint-5/optimizer.pt", other);  // as long, and as old
  fs::last_write_time(file, time);
  EXPECT_FALSE(copy(options()));
  fs::remove(file);
  fs::create_symlink(path("checkpoint-1/optimizer.pt"), file);
  EXPECT_FALSE(copy(options()));
  fs::remove(file);
  EXPECT_FALSE(copy(options()));
  EXPECT_EQ(manifest_of("checkpoint-5"), "");
}

// A manifest that names such a file is refused by whoever reads it.
TEST_F(InS3, WhatNoManifestCanNameIsNotCopiedAndSaid) {
  save("checkpoint-4");
  auto steps = transformers("checkpoint-5");
  steps.insert(steps.begin(), [this] { write("checkpoint-5/\"best\".bin", "x"); });
  record_one("checkpoint-5", steps);
  const auto copied = copy(options());
  ASSERT_FALSE(copied);
  EXPECT_NE(copied.error().message.find("\"best\".bin"), std::string::npos)
      << copied.error().message;
  EXPECT_EQ(manifest_of("checkpoint-5"), "");
  lose_the_storage();
  EXPECT_EQ(fetched(), "checkpoint-4");
}

// Nothing is replaced: neither what its owner put there, nor by a link that leads elsewhere.
TEST_F(InS3, WhatIsInTheWayStays) {
  save("checkpoint-5");
  lose_the_storage();
  write("checkpoint-5/notes", "mine");
  EXPECT_FALSE(fetch());
  EXPECT_EQ(contents("checkpoint-5"), (std::map<std::string, std::string>{{"notes", "mine"}}));
  lose_the_storage();
  fs::create_directories(path(""));
  fs::create_symlink(lost_.front(), path("checkpoint-5"));
  EXPECT_FALSE(fetch());
}

}  // namespace
}  // namespace spotter::tier
