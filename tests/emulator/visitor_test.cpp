// A web page that its reader's browser lets reach the emulator: what it gets.
#include "tests/emulator/visitor.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/emulator/serve_fixture.hpp"

namespace spotter::emulator {
namespace {

using Visit = Served::Visit;

constexpr const char* rebound = "evil.example";  // whose DNS answers 127.0.0.1

// One request for each service, as whoever holds the keys may ask; each is answered with 200.
std::vector<Visit> requests(const std::string& metadata) {
  return {
      {"", "/", {}, "Action=DescribeInstances&Version=2016-11-15", "ec2"},
      {"", "/", {}, "Action=CreateUser&UserName=somebody&Version=2010-05-08", "iam"},
      {"", "/", {}, "Action=GetCallerIdentity&Version=2011-06-15", "sts"},
      {"", "/", {}, "Action=DescribeAutoScalingGroups&Version=2011-01-01", "autoscaling"},
      {"", "/v1/describejobqueues", {}, "{}", "batch"},
      {"", "/2015-02-01/file-systems", {}, "", "elasticfilesystem"},
      {"", "/", {"X-Amz-Target: AmazonSSM.GetParameter"}, R"({"Name": "mine"})", "ssm"},
      {"", "/data/k"},
      {"", "/_spotter/state"},
      {"", "/_spotter/health"},
      {"", "/_spotter/"},
      {"", "/_spotter/fault", {}, R"({"name": "clear"})"},
      {"", "/latest/api/token", {}, "", "", metadata},
  };
}

class Visitor : public testing::Test {
 protected:
  Visitor() : served("user") {
    std::filesystem::create_directories(served.folder() / "s3" / "data");
    std::ofstream(served.folder() / "s3" / "data" / "k") << "content";
    std::filesystem::create_directories(served.folder() / "ssm");
    std::ofstream(served.folder() / "ssm" / "mine") << "value";
    served.control("fault", {{"name", "s3-public"}, {"arguments", {{"bucket", "data"}}}});
    metadata = served.control("instance", {{"zone", "us-west-2a"}}).at("metadata");
  }
  // The statuses of all requests, each made of a request by `change`.
  template <class Change>
  void all(const Change& change, bool answered) {
    for (Visit visit : requests(metadata)) {
      change(visit);
      const long status = served.visit(visit);
      const std::string what = visit.service + " " + visit.path;
      if (answered)
        EXPECT_NE(status, 403) << what;
      else
        EXPECT_EQ(status, 403) << what;
    }
  }

  Served served;
  std::string metadata;
};

TEST_F(Visitor, AProgramIsAnsweredByEachService) {
  for (const Visit& visit : requests(metadata))
    EXPECT_EQ(served.visit(visit), visit.at.empty() ? 200 : 405) << visit.service << visit.path;
}

TEST_F(Visitor, APageWhoseDnsNamesThisMachineGetsNothing) {
  all([](Visit& it) { it.host = rebound; }, false);
}

TEST_F(Visitor, APageOfAnotherOriginGetsNothing) {
  for (const char* header : {"Origin: http://evil.example", "Origin: null",
                             "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"})
    all([&](Visit& it) { it.headers.emplace_back(header); }, false);
}

TEST_F(Visitor, NothingIsDoneForAPage) {
  const Visit launch{rebound,
                     "/",
                     {},
                     "Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1"
                     "&ImageId=ami-0123456789abcdef0&InstanceType=p3.2xlarge",
                     "ec2"};
  const auto before = served.control("state").at("instances").size();
  EXPECT_EQ(served.visit(launch), 403);
  EXPECT_EQ(served.control("state").at("instances").size(), before);
  for (const char* what : {"stop", "reset"})
    EXPECT_EQ(served.visit({rebound, std::string("/_spotter/") + what, {}, "{}"}), 403);
  EXPECT_EQ(served.visit({rebound, "/data/made", {"Expect: 100-continue"}, "bytes", "s3"}), 403);
  EXPECT_EQ(served.visit({"", "/_spotter/state"}), 200);
}

TEST_F(Visitor, TheEmulatorsOwnPageIsServed) {
  all(
      [&](Visit& it) {
        it.headers.emplace_back("Origin: " + (it.at.empty() ? served.api() : it.at));
        it.headers.emplace_back("Sec-Fetch-Site: same-origin");
      },
      true);
}

TEST_F(Visitor, TheNamesOfAwsAndOfThisMachineAreServed) {
  for (const char* name : {"localhost", "data.localhost", "ec2.us-west-2.amazonaws.com",
                           "data.s3.us-west-2.amazonaws.com"})
    all([&](Visit& it) { it.host = name; }, true);
  EXPECT_EQ(served.visit({"data.localhost", "/k"}), 200);
  EXPECT_EQ(served.visit({"data.s3.us-west-2.amazonaws.com", "/k"}), 200);
}

TEST_F(Visitor, TheSecretOfAnotherStartOpensNothing) {
  served.signal(SIGTERM);
  const std::string before = served.secret();
  served.wait();
  EXPECT_FALSE(exists(served.folder() / "credentials"));
  served.start();
  EXPECT_EQ(before.size(), std::string("emulator-").size() + 40);
  EXPECT_NE(served.secret(), before);
  for (Visit visit : requests("")) {
    if (visit.service.empty()) continue;
    EXPECT_EQ(served.visit(visit), 200) << visit.service;
    for (const std::string& secret : {before, std::string("emulator-secret"), std::string()}) {
      visit.secret = secret;
      EXPECT_NE(served.visit(visit), 200) << visit.service << " " << secret;
    }
  }
  const Visit object{"", "/data/k", {"x-amz-content-sha256: UNSIGNED-PAYLOAD"}, "", "s3"};
  EXPECT_EQ(served.visit(object), 200);
  Visit stranger = object;
  stranger.secret = before;
  EXPECT_EQ(served.visit(stranger), 403);
}

TEST_F(Visitor, OnlyWhoStartedItReadsTheKeys) {
  const auto mode = std::filesystem::status(served.folder() / "credentials").permissions();
  EXPECT_EQ(mode, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const std::string printed = served.folder() / "printed";
  const std::string command = std::string(SPOTTER_EMULATOR_PATH) + " env --directory " +
                              served.folder().string() + " >" + printed;
  ASSERT_EQ(::system(command.c_str()), 0);
  const std::string text = read_file(printed);
  for (const std::string line :
       {"AWS_ACCESS_KEY_ID='AKIAEMULATOR00000000'", "AWS_REGION='us-west-2'"})
    EXPECT_NE(text.find("export " + line + "\n"), text.npos) << text;
  EXPECT_NE(text.find("export AWS_SECRET_ACCESS_KEY='" + served.secret() + "'\n"), text.npos)
      << text;
  EXPECT_NE(text.find("export AWS_ENDPOINT_URL='" + served.api() + "'\n"), text.npos) << text;
}

// Its text is a shell's to run, and the folder may be another user's.
TEST_F(Visitor, WhatAFolderSaysIsAWordToTheShell) {
  const auto folder = served.folder() / "planted";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "emulator.json")
      << R"json({"api": "a b';touch ran;'", "region": "$(touch ran)"})json";
  std::ofstream(folder / "credentials")
      << "aws_access_key_id = `touch ran`\naws_secret_access_key = x;touch${IFS}ran\n";
  const std::string command = "cd " + folder.string() + " && eval \"$(" + SPOTTER_EMULATOR_PATH +
                              " env)\" && printf %s \"$AWS_ENDPOINT_URL\" >api";
  ASSERT_EQ(::system(command.c_str()), 0);
  EXPECT_FALSE(exists(folder / "ran"));
  EXPECT_EQ(read_file(folder / "api"), "a b';touch ran;'");
}

// Else an identity's metadata give out its role's keys to everybody on this machine.
TEST_F(Visitor, AnotherUserOfThisMachineGetsWhatIsSignedAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  constexpr uid_t other = 65534;
  const std::string secret = served.secret();
  for (Visit visit : requests(metadata)) {
    visit.secret = secret;
    const pid_t child = ::fork();
    if (child == 0) {
      const bool is_other = ::setgid(other) == 0 && ::setuid(other) == 0;
      ::_exit(!is_other ? 0 : static_cast<int>(served.visit(visit) / 100));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const bool open =
        !visit.service.empty() || visit.path == "/data/k" || visit.path == "/_spotter/health";
    EXPECT_EQ(WEXITSTATUS(status), open ? 2 : 4) << visit.service << " " << visit.path;
  }
}

TEST(FixedKeys, AreForRootOnlyIfHeSaysSo) {
  Served plain("user", {"--fixed-keys"});
  const bool root = ::geteuid() == 0;
  EXPECT_EQ(plain.api().empty(), root);
  if (root) {
    EXPECT_EQ(WEXITSTATUS(plain.wait()), 2);
  }
  Served asked("user", {"--fixed-keys", "--even-as-root"});
  EXPECT_EQ(asked.secret(), "emulator-secret");
  EXPECT_EQ(asked.visit({"", "/", {}, "Action=DescribeInstances&Version=2016-11-15", "ec2"}), 200);
}

TEST(KeysOfTheEnvironment, AreTaken) {
  ::setenv("AWS_ACCESS_KEY_ID", "AKIAEMULATOR00000000", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "chosen-by-me", 1);
  Served mine("user", {});
  EXPECT_EQ(mine.secret(), "chosen-by-me");
  ::setenv("AWS_ACCESS_KEY_ID", "AKIAOFAREALACCOUNT00", 1);
  Served drawn("user", {});
  EXPECT_NE(drawn.secret(), "chosen-by-me") << "a real account's";
  ::unsetenv("AWS_ACCESS_KEY_ID");
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
}

TEST(VisitorNames, ServedOnes) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:4566", "127.1.2.3:80", "[::1]:4566", "LocalHost:4566",
        "b.localhost:4566", "169.254.169.254", "169.254.169.254:80", "[fd00:ec2::254]",
        "10.0.0.1:4566", "s3.us-west-2.amazonaws.com:4566", "b.s3.cn-north-1.amazonaws.com.cn"})
    EXPECT_TRUE(is_served_name(host, "10.0.0.1")) << host;
}

TEST(VisitorNames, OthersOnes) {
  for (const char* host :
       {"", ":4566", "evil.example", "evil.example:4566", "127.0.0.1.evil.example",
        "127.evil.example", "localhost.evil.example", "notlocalhost", ".localhost", "amazonaws.com",
        "evilamazonaws.com", "s3.amazonaws.com.evil.example", "metadata", "10.0.0.2:4566",
        "[::1].evil.example", "[::2]", "0.0.0.0:4566"})
    EXPECT_FALSE(is_served_name(host, "10.0.0.1")) << host;
}

TEST(VisitorNames, OneHostARequest) {
  EXPECT_TRUE(refusal_of_visitor({"GET", "/", {}, ""}, "127.0.0.1"));
  const Headers two = {{"host", "127.0.0.1"}, {"host", "127.0.0.1"}};
  EXPECT_TRUE(refusal_of_visitor({"GET", "/", two, ""}, "127.0.0.1"));
  EXPECT_FALSE(refusal_of_visitor({"GET", "/", {two[0]}, ""}, "127.0.0.1"));
}

}  // namespace
}  // namespace spotter::emulator
