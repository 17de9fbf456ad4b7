// Secrets are found where the job says, and nowhere else.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/config/secrets.hpp"
#include "tests/config/smallest.hpp"

namespace spotter::config {
namespace {

using Kind = SecretReference::Kind;

class Secrets : public testing::Test {
 protected:
  void SetUp() override {
    const int file = mkstemp(name_);
    ASSERT_GE(file, 0);
    close(file);
  }
  void TearDown() override { unlink(name_); }

  void write(const std::string& content, mode_t mode) {
    FILE* file = fopen(name_, "w");
    ASSERT_NE(file, nullptr);
    fwrite(content.data(), 1, content.size(), file);
    fclose(file);
    ASSERT_EQ(chmod(name_, mode), 0);
  }
  Result<ResolvedSecret> read() { return resolve({Kind::File, name_}, {}); }

  char name_[32] = "/tmp/spotter-secret-XXXXXX";
};

TEST_F(Secrets, AreReferredTo) {
  EXPECT_EQ(parse_secret_reference("file:/a b").value(), (SecretReference{Kind::File, "/a b"}));
  EXPECT_EQ(parse_secret_reference("env:KEY").value(), (SecretReference{Kind::Environment, "KEY"}));
  EXPECT_EQ(parse_secret_reference("ssm:/a/b").value(), (SecretReference{Kind::Parameter, "/a/b"}));
  for (const char* text : {"", "hunter2", "file:", "file:relative", "env:", "env:/x", "ssm:x",
                           "FILE:/x", "env:A=B", "vault:/x"}) {
    const auto reference = parse_secret_reference(text);
    ASSERT_FALSE(reference) << text;
    EXPECT_EQ(reference.error().message.find("hunter2"), std::string::npos);
  }
}

TEST_F(Secrets, ComeFromAFileWithoutItsNewline) {
  write("hunter2\n", 0600);
  const auto secret = read();
  ASSERT_TRUE(secret) << secret.error().message;
  EXPECT_EQ(secret->value, "hunter2");
  EXPECT_EQ(secret->warning, "");
}

TEST_F(Secrets, KeepAllButTheLastNewline) {
  write("one\ntwo\n\n", 0600);
  EXPECT_EQ(read()->value, "one\ntwo\n");
}

TEST_F(Secrets, ThatEverybodyCanReadAreWarnedAbout) {
  write("hunter2", 0644);
  const auto secret = read();
  ASSERT_TRUE(secret);
  EXPECT_EQ(secret->warning,
            std::string(name_) + " holds a secret and everybody can read it: chmod 600 " + name_);
}

TEST_F(Secrets, ThatCannotBeRightAreRefused) {
  const std::string start = "the secret file:" + std::string(name_) + " cannot be read: ";
  write("\n", 0600);
  EXPECT_EQ(read().error().message, start + "it is empty");
  write(std::string("a\0b", 3), 0600);
  EXPECT_EQ(read().error().message, start + "it holds NUL bytes");
  write(std::string(secret_size_limit, 'x'), 0600);
  EXPECT_TRUE(read());
  write(std::string(secret_size_limit + 1, 'x'), 0600);
  EXPECT_EQ(read().error().message, start + "larger than 64 KiB");
  unlink(name_);
  EXPECT_EQ(read().error().message, start + "No such file or directory");
}

TEST_F(Secrets, ComeFromAVariable) {
  const std::map<std::string, std::string> variables{{"KEY", "hunter2"}};
  EXPECT_EQ(resolve({Kind::Environment, "KEY"}, variables)->value, "hunter2");
  EXPECT_EQ(resolve({Kind::Environment, "NONE"}, variables).error().message,
            "the secret env:NONE cannot be read: the environment has no such variable");
}

TEST_F(Secrets, InTheParameterStoreAreNotReadHere) {
  EXPECT_EQ(resolve({Kind::Parameter, "/x"}, {}).error().message,
            "the secret ssm:/x cannot be read: SSM parameters cannot be read here");
}

TEST(CodeToken, MayComeWithoutTlsWhereNoTokenLeavesTheMachine) {
  const std::string revision = ", revision: 0123456789abcdef0123456789abcdef01234567";
  const std::string token = ", token: env:TOKEN";
  for (const std::string& code :
       {"http://git.example.com/x" + revision, "http://localhost:8080/x" + revision + token,
        "https://git.example.com/x" + revision + token, "/srv/x.git" + revision + token})
    EXPECT_EQ(problems_of(smallest_and("code: {repository: " + code + "}")), "");
}

}  // namespace
}  // namespace spotter::config
