// The id of a job's folder on a share: one for all who see the folder.
#include "agent/host/records.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <vector>

#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

class HomeId : public Directory {
 protected:
  fs::path home(const std::string& name = "home") const {
    fs::create_directories(directory_ / name / ".spotter");  // as it is laid out
    return directory_ / name;
  }
  static Result<std::string> id_of(const fs::path& path) {
    return home_id(io::SafeDirectory::open(path).value());
  }
};

TEST_F(HomeId, IsTheSameForEverybodyAndAnotherElsewhere) {
  const auto id = id_of(home());
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(id->size(), 32U);
  EXPECT_EQ(id_of(home()).value(), *id);
  EXPECT_NE(id_of(home("other")).value(), *id);
  fs::rename(home(), directory_ / "moved");
  EXPECT_EQ(id_of(directory_ / "moved").value(), *id);
}

TEST_F(HomeId, IsDrawnOnceByManyAtOnce) {
  for (int round = 0; round < 20; ++round) {
    const auto path = home("round-" + std::to_string(round));
    std::vector<std::future<Result<std::string>>> asked;
    for (int machine = 0; machine < 8; ++machine)
      asked.push_back(std::async(std::launch::async, [&path] { return id_of(path); }));
    std::vector<std::string> ids;
    for (auto& each : asked) {
      const auto id = each.get();
      ASSERT_TRUE(id) << id.error().message;
      ids.push_back(*id);
    }
    EXPECT_EQ(std::ranges::count(ids, ids.front()), 8);
    const auto left = std::distance(fs::directory_iterator(path / ".spotter"), {});
    EXPECT_EQ(left, 1) << "the others' are removed";
  }
}

TEST_F(HomeId, IsNotDisturbedByWhoBrokeOff) {
  fs::create_directories(home() / ".spotter/.id-0123/0123");
  fs::create_directories(home() / ".spotter/id");  // never ours
  const auto id = id_of(home());
  ASSERT_TRUE(id) << id.error().message;
  EXPECT_EQ(id_of(home()).value(), *id);
}

TEST_F(HomeId, OfSomethingElseIsRefusedAndLeftAlone) {
  fs::create_directories(home() / ".spotter/id/mine");
  const auto foreign = id_of(home());
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().kind, "layout-unusable");
  EXPECT_TRUE(fs::exists(home() / ".spotter/id/mine"));
  fs::create_directory_symlink("/etc", home("linked") / ".spotter/id");
  EXPECT_FALSE(id_of(home("linked")));
}

}  // namespace
}  // namespace spotter::act::host
