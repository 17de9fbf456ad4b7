// Code from a repository made for the test, fetched as the trainer's user.
#include "checkout.hpp"

#include <sys/stat.h>

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

TEST_F(Checkout, PutsThePinnedCommitInPlaceAsTheUser) {
  const auto done = checkout(request(first_));
  ASSERT_TRUE(done) << words_of(done);
  EXPECT_TRUE(done->fetched);
  EXPECT_EQ(code("train.sh"), "echo one\n");
  if (::geteuid() != 0) return;
  struct stat status {};
  ASSERT_EQ(::stat((directory_ / "code/train.sh").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 65534U);
}

// A home on a share is the trainer's to replace by a link, between its preparation and this.
TEST_F(Checkout, MakesNothingWhereALinkOfTheUsersLeads) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  fs::create_directory(directory_ / "roots");
  fs::create_directory_symlink(directory_ / "roots", directory_ / "home");
  auto asked = request(first_);
  asked.directory = directory_ / "home/code";
  EXPECT_FALSE(checkout(asked));
  EXPECT_TRUE(fs::is_empty(directory_ / "roots"));
}

TEST_F(Checkout, AgainKeepsCachesAndMendsTrackedFiles) {
  ASSERT_TRUE(checkout(request(first_)));
  write("code/cache.bin", "expensive");
  write("code/train.sh", "edited");
  write("code/.git/index.lock", "");
  const auto again = checkout(request(first_));
  ASSERT_TRUE(again) << words_of(again);
  EXPECT_FALSE(again->fetched);
  EXPECT_EQ(code("train.sh"), "echo one\n");
  const auto next = checkout(request(second_));
  ASSERT_TRUE(next) << words_of(next);
  EXPECT_EQ(code("train.sh"), "echo two\n");
  EXPECT_EQ(code("cache.bin"), "expensive");
}

TEST_F(Checkout, TheIdOfAnAnnotatedTagIsThatOfItsCommit) {
  git({"tag", "-a", "v1", "-m", "x", first_});
  const auto tag = git({"rev-parse", "v1"});
  ASSERT_NE(tag, first_);
  for (const bool fetched : {true, false}) {
    const auto done = checkout(request(tag));
    ASSERT_TRUE(done) << words_of(done);
    EXPECT_EQ(done->fetched, fetched);
    EXPECT_EQ(code("train.sh"), "echo one\n");
    EXPECT_EQ(code(".git/HEAD"), first_ + "\n");
  }
}

TEST_F(Checkout, FromAUrlOfAFileWorksToo) {
  auto asked = request(second_);
  asked.repository = "file://" + repository_.string();
  const auto done = checkout(asked);
  EXPECT_TRUE(done) << words_of(done);
}

TEST_F(Checkout, MendsARepositoryThatAPowerCutDamaged) {
  ASSERT_TRUE(checkout(request(first_)));
  for (const auto& entry : fs::recursive_directory_iterator(directory_ / "code/.git/objects")) {
    if (!entry.is_regular_file()) continue;
    fs::permissions(entry.path(), fs::perms(0644));
    fs::resize_file(entry.path(), 0);
  }
  const auto done = checkout(request(first_));
  ASSERT_TRUE(done) << words_of(done);
  EXPECT_EQ(code("train.sh"), "echo one\n");
}

TEST_F(Checkout, RunsNothingOfTheRepository) {
  const auto proof = directory_ / "proof";
  fs::create_directory(proof);
  fs::permissions(proof, fs::perms::all);
  const auto script = "#!/bin/sh\ntouch " + (proof / "ran").string() + "\n";
  ASSERT_TRUE(checkout(request(first_)));
  for (const char* hook : {"post-checkout", "reference-transaction", "post-index-change"}) {
    fs::permissions(write(std::string("code/.git/hooks/") + hook, script), fs::perms(0755));
  }
  const auto program = write("evil.sh", script);
  fs::permissions(program, fs::perms(0755));
  write("code/.git/config",
        "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = " + program.string() +
            "\n[filter \"x\"]\n\tsmudge = " + program.string() +
            "\n[credential]\n\thelper = " + program.string() + "\n");
  write("code/.git/info/attributes", "* filter=x\n");
  const auto done = checkout(request(second_));
  ASSERT_TRUE(done) << words_of(done);
  EXPECT_EQ(code("train.sh"), "echo two\n");
  EXPECT_FALSE(fs::exists(proof / "ran"));
}

TEST_F(Checkout, TellsFailuresApart) {
  EXPECT_EQ(kind_of(checkout(request(std::string(40, 'a')))), "revision-missing");
  make_code();  // what was fetched needs no repository any more
  auto nowhere = request(first_);
  nowhere.repository = (directory_ / "nowhere").string();
  EXPECT_EQ(kind_of(checkout(nowhere)), "code-unreachable");
  auto refused = request(first_);
  refused.repository = "http://127.0.0.1:9/x.git";
  const auto unreachable = checkout(refused);
  EXPECT_EQ(kind_of(unreachable), "code-unreachable") << words_of(unreachable);
  auto command = request(first_);
  command.repository = "ext::touch " + (directory_ / "ran").string();
  EXPECT_EQ(kind_of(checkout(command)), "code-unreachable");
  EXPECT_FALSE(fs::exists(directory_ / "ran"));
}

TEST_F(Checkout, RefusesWhatIsNoPinnedCommit) {
  EXPECT_EQ(kind_of(checkout(request("main"))), "bad-request");
  EXPECT_EQ(kind_of(checkout(request(first_.substr(0, 12)))), "bad-request");
  auto secret = request(first_);
  secret.repository = "https://me:hunter2@example.com/x.git";
  EXPECT_EQ(kind_of(checkout(secret)), "bad-request");
  EXPECT_EQ(words_of(checkout(secret)).find("hunter2"), std::string::npos);
  auto option = request(first_);
  option.repository = "--upload-pack=touch /tmp/x";
  EXPECT_EQ(kind_of(checkout(option)), "bad-request");
  auto stranger = request(first_);
  stranger.user = "no-such-user";
  EXPECT_EQ(kind_of(checkout(stranger)), "user-missing");
}

}  // namespace
}  // namespace spotter::act::host
