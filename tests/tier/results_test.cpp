// A job's files for a person: sent under their own names, and brought whole or not at all.
#include "agent/tier/results.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/s3/server.hpp"

namespace spotter::tier {
namespace {

namespace fs = std::filesystem;

class Results : public ::testing::Test {
 protected:
  Results() {
    char name[] = "/tmp/spotter-results-XXXXXX";
    root_ = ::mkdtemp(name);
    write("result/weights.bin", std::string(3'000'000, 'w'));
    write("result/deep/curve.csv", "1,0.5\n");
    write("result/same.bin", std::string(3'000'000, 'w'));
    write("result/empty", "");
    write("result/.hidden", "x");
    write("secret", "s");
    fs::create_symlink("../secret", root_ / "home/result/link");
    fs::create_directory_symlink("..", root_ / "home/up");
  }
  ~Results() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / "home" / path).parent_path());
    std::ofstream(root_ / "home" / path) << text;
  }
  std::string read(const std::string& path) const {
    std::ifstream file(root_ / "out" / path);
    std::stringstream text;
    text << file.rdbuf();
    return file ? text.str() : "none";
  }
  Result<Sent> send(const std::vector<std::string>& paths) {
    return send_files(bucket_, "mine", {root_ / "home", paths, [](const auto& work) { work(); }});
  }
  Result<Arrived> bring(const std::vector<std::string>& paths = {}) {
    const auto manifest = bucket_.read(results_manifest());
    EXPECT_TRUE(manifest && *manifest);
    return bring_files(bucket_, **manifest, {paths, root_ / "out", {}});
  }

  fs::path root_;
  s3_test::Server server_;
  bucket::Bucket bucket_{{"bucket", "jobs/mine/results/"}, "mine", s3_test::settings_for(server_)};
};

TEST_F(Results, ArriveUnderTheirOwnNamesAndNoLinkIsFollowed) {
  const auto sent = send({"result", "up", "nothing"});
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_EQ(sent->files, 5);
  EXPECT_EQ(server_.find("jobs/mine/results/result/deep/curve.csv")->bytes, "1,0.5\n");
  const auto arrived = bring();
  ASSERT_TRUE(arrived) << arrived.error().message;
  EXPECT_EQ(arrived->files, 5);
  EXPECT_EQ(read("result/same.bin"), std::string(3'000'000, 'w')) << "of two alike both go";
  EXPECT_EQ(read("result/empty"), "");
  EXPECT_EQ(read("result/.hidden"), "x");
  EXPECT_EQ(read("result/link"), "none");
  EXPECT_EQ(read("up/secret"), "none");
}

TEST_F(Results, AreFetchedOnceAndAgainWhereTheyDiffer) {
  ASSERT_TRUE(send({"result"}));
  ASSERT_TRUE(bring({"result/deep/"}));
  EXPECT_EQ(read("result/weights.bin"), "none");
  std::ofstream(root_ / "out/result/deep/curve.csv") << "1,0.6\n";
  auto arrived = bring({"./result/deep"});
  ASSERT_TRUE(arrived);
  EXPECT_EQ(arrived->files, 1);
  EXPECT_EQ(read("result/deep/curve.csv"), "1,0.5\n");
  arrived = bring();
  ASSERT_TRUE(arrived);
  EXPECT_EQ(arrived->there, 1);
  EXPECT_EQ(arrived->files, 4);
  EXPECT_FALSE(bring({"result/de"})) << "no path of a file or folder";
}

TEST_F(Results, WithAnotherSumAreNoFiles) {
  ASSERT_TRUE(send({"result"}));
  server_.put("jobs/mine/results/result/deep/curve.csv", "1,0.7\n");
  server_.put("jobs/mine/results/result/.hidden", "xx");
  const auto arrived = bring();
  ASSERT_TRUE(arrived) << arrived.error().message;
  EXPECT_EQ(arrived->torn.size(), 2);
  EXPECT_EQ(arrived->files, 3);
  EXPECT_EQ(read("result/deep/curve.csv"), "none");
  for (const auto& each : fs::recursive_directory_iterator(root_ / "out"))
    EXPECT_EQ(each.path().filename().string().find("fetching"), std::string::npos) << each.path();
}

TEST_F(Results, ThatAreNotThereMakeNoManifest) {
  const auto sent = send({"nothing"});
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent->files, 0);
  const auto manifest = bucket_.read(results_manifest());
  ASSERT_TRUE(manifest);
  EXPECT_FALSE(*manifest);
}

TEST_F(Results, OfAnotherJobAreRefused) {
  ASSERT_TRUE(
      send_files(bucket_, "other", {root_ / "home", {"result"}, [](const auto& work) { work(); }}));
  EXPECT_FALSE(bucket_.read(results_manifest()));
}

}  // namespace
}  // namespace spotter::tier
