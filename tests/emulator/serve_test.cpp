// The life of instances and disks under the real emulator, in both modes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/emulator/serve_fixture.hpp"

namespace spotter::emulator {
namespace {

// The metadata service, found as an SDK finds it.
constexpr const char* who_am_i = R"(#!/bin/sh
imds=${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}
token=$(curl -sS -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$imds/latest/api/token")
curl -sS -H "X-aws-ec2-metadata-token: $token" "$imds/latest/meta-data/instance-id" > who.partial
mv who.partial who
)";

// A shell's child in a session of its own, whose parent has ended.
constexpr const char* leave_a_daemon = "(setsid sh -c 'sleep 86399 & :' &) ; touch left\n";

constexpr const char* await_device = R"(#!/bin/sh
set -e
until device=$(ls -d "$SPOTTER_DEVICES"/disk/by-id/nvme-Amazon_Elastic_Block_Store_vol* 2>&-); do
  sleep 0.02
done
)";

// In root mode a device is a disk, in user mode a folder.
constexpr const char* write_to_device = R"(
if [ -b "$device" ]; then
  mkfs.ext4 -q "$device" && mount "$device" mnt && cp user-data mnt/content && umount mnt
else
  cp user-data "$device/content"
fi
touch written
)";
constexpr const char* read_from_device = R"(
if [ -b "$device" ]; then mount "$device" mnt; cp mnt/content content.partial
else cp "$device/content" content.partial; fi
mv content.partial content
)";

class Serve : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == "root" && ::geteuid() != 0)
      GTEST_SKIP() << "root mode (namespaces, loop devices) needs root";
  }
  // The processes that leave_a_daemon left below this instance's init.
  static std::vector<pid_t> daemons(const Served& served, const std::string& id) {
    std::vector<pid_t> found;
    for (const pid_t pid : processes_with("sleep")) {
      std::error_code gone;
      const auto folder =
          std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/cwd", gone);
      if (folder == served.instance(id)) found.push_back(pid);
    }
    return found;
  }
};

TEST_P(Serve, AnInstanceLearnsItsIdentityFromItsMetadata) {
  Served served(GetParam());
  const auto first = served.run_instance(who_am_i), second = served.run_instance(who_am_i);
  for (const auto& id : {first, second}) {
    EXPECT_TRUE(eventually([&] { return exists(served.instance(id) / "who"); }));
    EXPECT_EQ(read_file(served.instance(id) / "who"), id);
  }
}

TEST_P(Serve, AKillTakesADaemonisedGrandchildToo) {
  Served served(GetParam());
  const auto id = served.run_instance(leave_a_daemon);
  ASSERT_TRUE(eventually([&] { return !daemons(served, id).empty(); }));
  EXPECT_EQ(served.control("kill", {{"instance", id}}), nlohmann::json::object());
  EXPECT_TRUE(daemons(served, id).empty());  // when the answer is there, they are gone
  EXPECT_TRUE(eventually([&] { return served.state_of(id) == "terminated"; }));
}

TEST_P(Serve, AnInstanceWhoseInitIsKilledIsDead) {
  Served served(GetParam());
  const auto id = served.run_instance(leave_a_daemon);
  ASSERT_TRUE(eventually([&] { return !daemons(served, id).empty(); }));
  for (const pid_t pid : processes_with((served.instance(id) / "user-data").string()))
    ::kill(pid, SIGKILL);
  EXPECT_TRUE(eventually([&] { return served.state_of(id) == "terminated"; }));
  EXPECT_TRUE(eventually([&] { return daemons(served, id).empty(); }));
}

TEST_P(Serve, WhatIsWrittenComesThroughASnapshotIntoANewVolume) {
  Served served(GetParam());
  const auto writer = served.run_instance(std::string(await_device) + write_to_device);
  const auto volume = served.make_volume();
  served.attach(volume, writer);
  ASSERT_TRUE(eventually([&] { return exists(served.instance(writer) / "written"); }))
      << read_file(served.instance(writer) / "console.log");
  served.ec2("DetachVolume", {{"VolumeId", volume}});
  ASSERT_TRUE(eventually([&] { return served.state_of(volume) == "available"; }));
  EXPECT_TRUE(eventually([&] { return served.loop_devices().empty(); }));
  const auto snapshot = served.ec2_value("CreateSnapshot", {{"VolumeId", volume}}, "snapshotId");
  ASSERT_TRUE(eventually([&] { return served.state_of(snapshot) == "completed"; }));
  const auto copy = served.make_volume({{"SnapshotId", snapshot}});
  const auto reader = served.run_instance(std::string(await_device) + read_from_device);
  served.attach(copy, reader);
  ASSERT_TRUE(eventually([&] { return exists(served.instance(reader) / "content"); }))
      << read_file(served.instance(reader) / "console.log");
  EXPECT_EQ(read_file(served.instance(reader) / "content"),
            read_file(served.instance(writer) / "user-data"));
}

TEST_P(Serve, AVolumeOfAKilledInstanceGoesToTheNext) {
  Served served(GetParam());
  const auto writer = served.run_instance(
      std::string(await_device) + write_to_device +
      "[ -b \"$device\" ] && mount \"$device\" mnt\ntouch mounted\nsleep 86399\n");
  const auto volume = served.make_volume();
  served.attach(volume, writer);
  ASSERT_TRUE(eventually([&] { return exists(served.instance(writer) / "mounted"); }));
  served.control("kill", {{"instance", writer}});
  ASSERT_TRUE(eventually([&] { return served.state_of(volume) == "available"; }));
  const auto reader = served.run_instance(std::string(await_device) + read_from_device);
  served.attach(volume, reader);
  EXPECT_TRUE(eventually([&] { return exists(served.instance(reader) / "content"); }))
      << read_file(served.instance(reader) / "console.log");
}

// SIGTERM and `stop` end it in order; after SIGKILL the kernel and the inits have to do it.
TEST_P(Serve, NothingIsLeftBehindHoweverItEnds) {
  for (const int end : {SIGTERM, SIGINT, SIGKILL}) {
    Served served(GetParam());
    const auto id = served.run_instance(std::string(await_device) + leave_a_daemon +
                                        "[ -b \"$device\" ] && mkfs.ext4 -q \"$device\" && "
                                        "mount \"$device\" mnt\ntouch ready\nsleep 86399\n");
    served.attach(served.make_volume(), id);
    ASSERT_TRUE(eventually([&] { return exists(served.instance(id) / "ready"); }));
    EXPECT_EQ(served.loop_devices().empty(), std::string(GetParam()) != "root");
    served.signal(end);
    const int status = served.wait();
    EXPECT_EQ(status == 0, end != SIGKILL) << end;
    EXPECT_TRUE(eventually([&] { return daemons(served, id).empty(); })) << end;
    EXPECT_TRUE(eventually([&] { return processes_with(served.folder().string()).empty(); }));
    EXPECT_TRUE(eventually([&] { return served.loop_devices().empty(); })) << end;
    EXPECT_NE(served.start(), "") << "it starts again in the folder of a run that ended by " << end;
    EXPECT_FALSE(exists(served.instance(id)));
  }
}

TEST_P(Serve, AResetEmulatorIsAsNewOnceItAnswers) {
  Served served(GetParam());
  const auto id = served.run_instance(std::string(await_device) + leave_a_daemon +
                                      "[ -b \"$device\" ] && mkfs.ext4 -q \"$device\" && "
                                      "mount \"$device\" mnt\ntouch ready\nsleep 86399\n");
  const auto volume = served.make_volume();
  served.attach(volume, id);
  ASSERT_TRUE(eventually([&] { return exists(served.instance(id) / "ready"); }));
  served.ec2("CreateSnapshot", {{"VolumeId", volume}});
  std::filesystem::create_directories(served.folder() / "s3" / "data" / "a");
  std::ofstream(served.folder() / "s3" / "data" / "a" / "key") << "content";
  served.own();
  served.control("fault", {{"name", "s3-public"}, {"arguments", {{"bucket", "data"}}}});
  ASSERT_EQ(served.get("/data/a/key"), "content");
  served.control("fault", {{"name", "throttle"}, {"arguments", {{"for", "9000s"}}}});

  EXPECT_EQ(served.control("reset", nlohmann::json::object()), nlohmann::json::object());
  EXPECT_TRUE(daemons(served, id).empty());
  EXPECT_FALSE(exists(served.instance(id)));
  EXPECT_FALSE(exists(served.folder() / "s3" / "data"));
  EXPECT_TRUE(eventually([&] { return served.loop_devices().empty(); }));
  const auto state = served.control("state");
  for (const char* what : {"instances", "volumes", "snapshots", "buckets", "events"})
    EXPECT_TRUE(state.at(what).empty()) << what << ": " << state.at(what);
  EXPECT_TRUE(state.at("s3").at("requests").empty());

  const auto next = served.run_instance(std::string(await_device) + write_to_device);
  served.attach(served.make_volume(), next);
  EXPECT_TRUE(eventually([&] { return exists(served.instance(next) / "written"); }))
      << read_file(served.instance(next) / "console.log");
}

INSTANTIATE_TEST_SUITE_P(Modes, Serve, ::testing::Values("root", "user", "isolated"),
                         [](const auto& mode) { return std::string(mode.param); });

TEST(ServeAsRoot, WhatWasNotSyncedIsLostWhenTheInstanceIsKilled) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  Served served("root");
  const auto writer = served.run_instance(std::string(await_device) + R"(
mkfs.ext4 -q "$device"; mount "$device" mnt
echo synced > mnt/synced; sync -f mnt; echo lost > mnt/lost; touch written; sleep 86399
)");
  const auto volume = served.make_volume();
  served.attach(volume, writer);
  ASSERT_TRUE(eventually([&] { return exists(served.instance(writer) / "written"); }));
  served.control("kill", {{"instance", writer}});
  ASSERT_TRUE(eventually([&] { return served.state_of(volume) == "available"; }));
  const auto reader = served.run_instance(
      std::string(await_device) +
      "mount \"$device\" mnt; cat mnt/synced mnt/lost > all || :; mv all content\n");
  served.attach(volume, reader);
  ASSERT_TRUE(eventually([&] { return exists(served.instance(reader) / "content"); }));
  EXPECT_EQ(read_file(served.instance(reader) / "content"), "synced\n");
}

TEST(ServeAsRoot, AMountedVolumeStaysBusyUntilItIsUnmounted) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  Served served("root");
  const auto id = served.run_instance(std::string(await_device) + R"(
mkfs.ext4 -q "$device"; mount "$device" mnt; touch mounted
until [ -e unmount ]; do sleep 0.02; done; umount mnt; sleep 86399
)");
  const auto volume = served.make_volume();
  served.attach(volume, id);
  ASSERT_TRUE(eventually([&] { return exists(served.instance(id) / "mounted"); }));
  served.ec2("DetachVolume", {{"VolumeId", volume}});
  ASSERT_TRUE(eventually([&] {
    return element(served.ec2("DescribeVolumes"), "attachmentSet").empty() &&
           served.ec2("DescribeVolumes").find("<status>busy</status>") != std::string::npos;
  }));
  EXPECT_FALSE(served.loop_devices().empty());
  std::ofstream(served.instance(id) / "unmount") << "now";
  EXPECT_TRUE(eventually([&] { return served.state_of(volume) == "available"; }));
}

TEST(ServeOne, OneEmulatorAFolder) {
  Served served("user");
  Served second("user", {"--directory", served.folder().string()});
  EXPECT_EQ(second.api(), "");
  EXPECT_EQ(WEXITSTATUS(second.wait()), 1);
}

TEST(ServeOne, TheControlApiSaysWhatIsWrong) {
  Served served("user");
  EXPECT_NE(served.control("kill", {{"instance", "i-unknown"}}).value("error", ""), "");
  EXPECT_NE(served.control("no-such", {{"a", 1}}).value("error", ""), "");
  EXPECT_NE(served.control("fault", {{"name", "no-such"}}).value("error", ""), "");
  EXPECT_NE(served.control("instance", {{"zone", "mars-1a"}}).value("error", ""), "");
}

TEST(ServeOne, AnInstanceNeedsNoNameWhileItIsTheOnlyOne) {
  Served served("user");
  const auto refused = [&] {
    const auto answer = served.control("interrupt", {{"in_ms", 9'000'000}});
    return answer.value("error", "").starts_with("which instance?");
  };
  EXPECT_TRUE(refused());
  const auto id = served.control("instance", nlohmann::json::object()).at("instance");
  EXPECT_EQ(served.control("kill", nlohmann::json::object()), nlohmann::json::object());
  EXPECT_NE(served.state_of(id), "running");
  served.control("instance", nlohmann::json::object());
  EXPECT_FALSE(refused());
  served.control("instance", {{"zone", "us-west-2b"}});
  EXPECT_TRUE(refused());
}

TEST(ServeOne, AnIdentityWithoutAProcessHasMetadata) {
  Served served("user");
  const auto added = served.control("instance", {{"zone", "us-west-2b"}});
  EXPECT_TRUE(added.value("instance", "").starts_with("i-"));
  EXPECT_TRUE(added.value("metadata", "").starts_with("http://127."));
  EXPECT_FALSE(exists(served.instance(added.value("instance", "")) / "run"));
}

TEST(ServeOne, MetadataAnswersHeadWithoutABody) {
  Served served("user");
  const std::string at = served.control("instance", {{"zone", "us-west-2b"}}).at("metadata");
  const auto file = served.folder() / "head";
  const std::string asked =
      "token=$(curl -sS -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' " + at +
      "/latest/api/token) && curl -sS --max-time 30 -H \"X-aws-ec2-metadata-token: $token\" -I " +
      at + "/2009-04-04/meta-data/placement/availability-zone " + at + "/latest/meta-data/mac > " +
      file.string();
  ASSERT_EQ(::system(asked.c_str()), 0);
  const std::string heads = read_file(file);
  EXPECT_NE(heads.find("Content-Length: 10\r\n"), std::string::npos) << heads;
  EXPECT_NE(heads.find("Content-Length: 17\r\n"), std::string::npos) << heads;
  EXPECT_EQ(heads.find("us-west-2b"), std::string::npos);
}

TEST(ServeOne, AThrottledActionIsRefusedAndALatencyIsKept) {
  Served served("user");
  served.control("fault", {{"name", "throttle"},
                           {"arguments", {{"action", "DescribeVolumes"}, {"for", "60s"}}}});
  EXPECT_EQ(element(served.ec2("DescribeVolumes"), "Code"), "RequestLimitExceeded");
  EXPECT_EQ(element(served.ec2("DescribeSnapshots"), "Code"), "");
  served.control("fault",
                 {{"name", "fail-next"},
                  {"arguments", {{"action", "DescribeSnapshots"}, {"code", "timeout-lost"}}}});
  EXPECT_TRUE(served.ec2("DescribeSnapshots").starts_with("curl: "));  // no answer at all
}

TEST(ServeOne, TheApiSpeaksTls) {
  char name[] = "/tmp/spotter-emulator-tls-XXXXXX";
  const std::filesystem::path folder = ::mkdtemp(name);
  const std::string certificate = folder / "cert.pem", key = folder / "key.pem";
  ASSERT_EQ(::system(("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 "
                      "-addext subjectAltName=IP:127.0.0.1 -keyout " +
                      key + " -out " + certificate + " 2>/dev/null")
                         .c_str()),
            0);
  {
    Served served("user", {"--tls-certificate", certificate, "--tls-key", key});
    EXPECT_TRUE(served.api().starts_with("https://"));
    EXPECT_NE(served.ec2("DescribeVolumes").find("DescribeVolumesResponse"), std::string::npos);
    const std::string content(3'000'000, 'x');
    std::filesystem::create_directory(served.folder() / "s3" / "data");
    std::ofstream(served.folder() / "s3" / "data" / "k") << content;
    served.control("fault", {{"name", "s3-public"}, {"arguments", {{"bucket", "data"}}}});
    EXPECT_TRUE(served.get("/data/k") == content);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace spotter::emulator
