// A metadata service at its own address, in a network namespace beside that of the test.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>

#include "agent/host/metadata.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/supervise/trainer.hpp"

namespace spotter::supervise {
namespace {

constexpr uid_t trainer = 65534;
constexpr uid_t other = 65533;

bool sh(const std::string& line) { return std::system(line.c_str()) == 0; }

Account account(uid_t user = trainer) {
  return {.name = "somebody", .uid = user, .gid = user, .home = "/", .groups = {}, .shell = ""};
}

// It accepts, and that is all.
[[noreturn]] void serve(int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::unshare(CLONE_NEWNET) != 0 || ::write(ready, "x", 1) != 1) ::_exit(1);
  const int listener = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(80);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
      ::listen(listener, 64) != 0)
    ::_exit(1);
  while (true) ::close(::accept(listener, nullptr, nullptr));
}

bool lay_cable(pid_t server) {
  const std::string there = "nsenter -t " + std::to_string(server) + " -n ip ";
  return sh("ip link add cable type veth peer name other netns " + std::to_string(server)) &&
         sh("ip addr add 10.99.0.1/24 dev cable; ip addr add fd01::1/64 dev cable nodad") &&
         sh("ip link set lo up; ip link set cable up") &&
         sh(there + "addr add 10.99.0.2/24 dev other; " + there +
            "addr add 169.254.169.254/32 dev other; " + there +
            "addr add fd01::2/64 dev other nodad; " + there +
            "addr add fd00:ec2::254/128 dev other nodad; " + there + "link set other up") &&
         sh("ip route add default via 10.99.0.2; ip -6 route add default via fd01::2 dev cable");
}

bool answers(uid_t user, const char* device = nullptr, bool forbidden = false) {
  const pid_t child = ::fork();
  if (child == 0) {
    if ((forbidden && !forbid_bound_sockets()) || !take_identity(account(user))) ::_exit(2);
    const int made = ::socket(AF_INET, SOCK_STREAM, 0);
    if (device != nullptr && ::setsockopt(made, SOL_SOCKET, SO_BINDTODEVICE, device, 5) != 0)
      ::_exit(1);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(80);
    ::inet_pton(AF_INET, "169.254.169.254", &address.sin_addr);
    ::_exit(::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The body runs in a process of its own, whose network it is; what fails there fails here.
class Metadata : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
  }
  void on_an_instance(const std::function<void()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      int ends[2];
      char byte = 0;
      if (::unshare(CLONE_NEWNET) != 0 || ::pipe(ends) != 0) ::_exit(1);
      const pid_t server = ::fork();
      if (server == 0) serve(ends[1]);
      EXPECT_TRUE(::read(ends[0], &byte, 1) == 1 && lay_cable(server)) << "no network";
      // The server may still be about to listen.
      for (int round = 0; round < 500 && !HasFailure() && !answers(0); ++round) ::usleep(10'000);
      if (!HasFailure()) body();
      ::kill(server, SIGKILL);
      ::waitpid(server, nullptr, 0);
      std::fflush(nullptr);
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "see above";
  }
};

TEST_F(Metadata, ThatAnswersIsFoundOutAndSaid) {
  on_an_instance([] {
    const auto kept = keep_from_metadata(account());
    ASSERT_FALSE(kept);
    EXPECT_NE(kept.error().message.find("trainer.imds: allow"), std::string::npos)
        << kept.error().message;
  });
}

// Also of a process that has left the trainer's unit, in which nothing else refuses it.
TEST_F(Metadata, IsRefusedToSocketsThatAreBoundToADeviceByThePacketFilter) {
  if (!sh("nft list tables >/dev/null 2>&1")) GTEST_SKIP() << "nftables is not there";
  on_an_instance([] {
    ASSERT_TRUE(act::host::refuse_bound_sockets_to(other));
    ASSERT_TRUE(act::host::refuse_metadata_to(trainer));
    EXPECT_TRUE(answers(trainer, "cable"));
    const auto loaded = act::host::refuse_bound_sockets_to(trainer);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_FALSE(answers(trainer, "cable"));
    EXPECT_TRUE(answers(other, "cable"));
    EXPECT_TRUE(answers(0, "cable"));
    const auto kept = keep_from_metadata(account());
    ASSERT_TRUE(kept) << kept.error().message;
    EXPECT_EQ(*kept, BoundSockets::Allowed);
    ASSERT_TRUE(sh("ip rule del pref 169; ip -6 rule del pref 169"));
    EXPECT_FALSE(answers(trainer)) << "nor does it depend on the rule";
    act::host::release_metadata();
    EXPECT_TRUE(answers(trainer, "cable"));
  });
}

TEST_F(Metadata, IsKeptFromSocketsThatAreBoundToADevice) {
  on_an_instance([] {
    ASSERT_TRUE(act::host::refuse_metadata_to(trainer));
    EXPECT_FALSE(answers(trainer));
    EXPECT_TRUE(answers(trainer, "cable")) << "the rule holds by itself now: simplify";
    EXPECT_TRUE(answers(0));
    const auto kept = keep_from_metadata(account());
    ASSERT_TRUE(kept) << kept.error().message;
    EXPECT_EQ(*kept, BoundSockets::Forbidden);
    EXPECT_FALSE(answers(trainer, "cable", true));
  });
}

TEST_F(Metadata, DecidesWhetherATrainerStartsAndWithWhat) {
  on_an_instance([] {
    const Launch launch{.account = account(),
                        .shell = "/bin/sh",
                        .arguments = {"sh", "-c", "grep -q '^Seccomp:.*2' /proc/self/status"},
                        .environment = {"PATH=/usr/bin:/bin"},
                        .working_directory = "/",
                        .refuse_metadata = true};
    const Descriptor log(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const auto answered = spawn_trainer(launch, log, "");
    ASSERT_FALSE(answered) << "it started";
    EXPECT_NE(answered.error().message.find("imds: allow"), std::string::npos);
    ASSERT_TRUE(act::host::refuse_metadata_to(trainer));
    const auto started = spawn_trainer(launch, log, "");
    ASSERT_TRUE(started) << started.error().message;
    int status = 0;
    ::waitpid(*started, &status, 0);
    EXPECT_EQ(status, 0) << "it runs without the filter";
  });
}

TEST_F(Metadata, NeedsNothingMoreWhereItAnswersNobody) {
  on_an_instance([] {
    ASSERT_TRUE(sh("ip link set cable down"));
    const auto kept = keep_from_metadata(account());
    ASSERT_TRUE(kept) << kept.error().message;
    EXPECT_EQ(*kept, BoundSockets::Allowed);
  });
}

TEST_F(Metadata, IsRefusedAtEveryMomentWhileThatIsSaidAgain) {
  on_an_instance([] {
    ASSERT_TRUE(act::host::refuse_metadata_to(other));
    ASSERT_TRUE(act::host::refuse_metadata_to(trainer));
    EXPECT_TRUE(answers(other)) << "another user's rule is removed";
    pid_t again[2];
    for (pid_t& each : again) {
      each = ::fork();
      for (int round = 0; each == 0; ++round) {
        if (round == 25) ::_exit(0);
        if (!act::host::refuse_metadata_to(trainer)) ::_exit(1);
      }
    }
    int reads = 0, tries = 0, status = 0;
    while (::waitpid(again[0], &status, WNOHANG) == 0 && ++tries < 100'000)
      reads += answers(trainer) ? 1 : 0;
    EXPECT_EQ(status, 0);
    ::waitpid(again[1], &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(reads, 0) << "of " << tries;
    EXPECT_GT(tries, 10);
    EXPECT_TRUE(sh("test $(ip rule show pref 169 | wc -l) = 1"));
    act::host::release_metadata();
    EXPECT_TRUE(answers(trainer));
  });
}

}  // namespace
}  // namespace spotter::supervise
