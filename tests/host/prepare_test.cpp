// `spotter prepare` writes as root, on a volume that a trainer may have had before.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/file.h>

#include <fstream>
#include <optional>

#include "agent/host/prepare.hpp"
#include "agent/io/files.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;

class Prepared : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/spotter-prepare-XXXXXX";
    top_ = ::mkdtemp(name);
    fs::permissions(top_, fs::perms(0755));
    for (const char* folder : {"mount/.spotter", "source", "roots"})
      fs::create_directories(top_ / folder);
    std::ofstream(top_ / "source/file") << "content";
    request_ = {"job", "vol-1", top_ / "mount", ::getpwuid(::geteuid())->pw_name, {}};
    request_.sources = {{.from = top_ / "source", .to = "data", .sha256 = {}, .via = {}}};
  }
  void TearDown() override { fs::remove_all(top_); }

  Result<std::vector<std::string>> fill_it(const Stopping& stop = [] { return false; }) const {
    const auto request = verbs::parse_request(verbs::to_json({request_, {}}));
    if (!request) return tl::unexpected(request.error());
    return fill(std::get<verbs::Fill>(request->verb), stop);
  }

  fs::path top_;
  verbs::Fill request_;
};

TEST_F(Prepared, ItsFilesAndWhatItKnowsOfThemAreThere) {
  const auto filled = fill_it();
  ASSERT_TRUE(filled) << filled.error().message;
  EXPECT_NE(filled->front().find("1 of them fetched now"), std::string::npos);
  EXPECT_TRUE(fs::exists(top_ / "mount/data/file"));
  EXPECT_TRUE(fs::exists(top_ / "mount/.spotter/prepared.json"));
  const auto again = fill_it();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_NE(again->front().find("0 of them fetched now"), std::string::npos);
}

TEST_F(Prepared, NothingIsMadeWhereAPlantedLinkLeads) {
  fs::create_directory_symlink(top_ / "roots", top_ / "mount/.spotter/prepare");
  EXPECT_FALSE(fill_it());
  EXPECT_TRUE(fs::is_empty(top_ / "roots"));

  fs::remove_all(top_ / "mount/.spotter");
  fs::create_directory_symlink(top_ / "roots", top_ / "mount/.spotter");
  fs::create_directory(top_ / "roots/prepare");
  EXPECT_FALSE(fill_it());
  EXPECT_TRUE(fs::is_empty(top_ / "roots/prepare"));
  EXPECT_FALSE(fs::exists(top_ / "roots/prepared.json"));
}

TEST_F(Prepared, OneThatAnAgentThatDiedHasBegunIsWaitedFor) {
  const std::string lock = top_ / "mount/.spotter/filling.lock";
  std::optional<io::Descriptor> earlier(::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(earlier->get(), LOCK_EX), 0);
  const auto stopped = fill_it([] { return true; });
  ASSERT_FALSE(stopped);
  EXPECT_NE(stopped.error().message.find("an earlier"), std::string::npos);
  EXPECT_FALSE(fs::exists(top_ / "mount/data/file"));

  const auto filled = fill_it([&, asked = 0]() mutable {
    if (++asked == 3) earlier.reset();
    return false;
  });
  ASSERT_TRUE(filled) << filled.error().message;
  EXPECT_FALSE(earlier);
  EXPECT_TRUE(fs::exists(top_ / "mount/data/file"));
}

TEST_F(Prepared, NoOtherBeginsUntilItIsDone) {
  int refused = 0;
  const auto filled = fill_it([&] {
    const io::Descriptor other(
        ::open((top_ / "mount/.spotter/filling.lock").c_str(), O_RDWR | O_CLOEXEC));
    refused += ::flock(other.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK ? 1 : 0;
    return false;
  });
  ASSERT_TRUE(filled) << filled.error().message;
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace spotter::command
