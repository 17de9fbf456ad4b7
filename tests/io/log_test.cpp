// The journal's entries. The child has a /run of its own with a socket where journald's would be.
#include "agent/io/log.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <thread>

namespace spotter::io {
namespace {

struct Kind {
  std::string_view name, id;
};
constexpr Kind notice{"interruption-notice", "0123456789abcdef0123456789abcdef"};
using spdlog::level::info;

std::string read_all(int descriptor) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(descriptor, buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

int listen_as_journald() {
  std::filesystem::create_directories("/run/systemd/journal");
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, "/run/systemd/journal/socket");
  const auto* as_any = reinterpret_cast<const sockaddr*>(&address);
  return ::bind(socket, as_any, sizeof address) == 0 ? socket : -1;
}

std::string identity_of(int descriptor) {
  struct stat seen {};
  ::fstat(descriptor, &seen);
  return std::to_string(seen.st_dev) + ":" + std::to_string(seen.st_ino);
}

// The text that `speak` sent to journald, a line of "--" after each entry.
std::string journal_of(const std::function<void()>& speak) {
  int out[2];
  if (::pipe(out) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(out[0]);
    const bool apart = ::unshare(CLONE_NEWNS) == 0 &&
                       ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       ::mount("tmpfs", "/run", "tmpfs", 0, nullptr) == 0;
    const int socket = apart ? listen_as_journald() : -1;
    ::dup2(out[1], STDERR_FILENO);
    ::setenv("JOURNAL_STREAM", identity_of(STDERR_FILENO).c_str(), 1);
    std::thread journald([&] {  // its queue is short, and who sends waits
      char entry[65536];
      for (ssize_t got; socket >= 0 && (got = ::recv(socket, entry, sizeof entry, 0)) > 0;)
        ::dprintf(out[1], "%.*s--\n", static_cast<int>(got), entry);
    });
    set_up_log();
    speak();
    ::shutdown(socket, SHUT_RD);
    journald.join();
    ::_exit(0);
  }
  ::close(out[1]);
  const std::string text = read_all(out[0]);
  ::close(out[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}

class Log : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can have a /run of its own";
  }
};

TEST_F(Log, GoesToTheJournalWithItsFields) {
  const auto said = journal_of([] {
    set_log_field("INSTANCE_ID", "i-1");
    set_log_field("VOLUME_ID", "vol-1");
    note(notice, spdlog::level::warn, "it ends in {} s", 120);
    set_log_field("VOLUME_ID", "");
    spdlog::error("plain");
  });
  EXPECT_EQ(said,
            "MESSAGE=it ends in 120 s\nPRIORITY=4\nSYSLOG_IDENTIFIER=spotter\n"
            "MESSAGE_ID=0123456789abcdef0123456789abcdef\nSPOTTER_EVENT=interruption-notice\n"
            "INSTANCE_ID=i-1\nVOLUME_ID=vol-1\n--\n"
            "MESSAGE=plain\nPRIORITY=3\nSYSLOG_IDENTIFIER=spotter\nINSTANCE_ID=i-1\n--\n");
}

TEST_F(Log, OfAKindThatComesThickIsThinnedOutAndTheRestCounted) {
  const auto said = journal_of([] {
    for (int i = 0; i < 1000; ++i) note(notice, info, "line {}", i);
    note(Kind{"other", notice.id}, info, "another kind");
  });
  EXPECT_NE(said.find("MESSAGE=line 0\n"), std::string::npos) << "a burst is logged";
  EXPECT_EQ(said.find("MESSAGE=line 999\n"), std::string::npos);
  EXPECT_NE(said.find("MESSAGE=another kind\n"), std::string::npos);
}

TEST_F(Log, IsKeptForWhoeverKeepsItElsewhere) {
  const auto said = journal_of([] {
    spdlog::info("before");
    set_log_field("INSTANCE_ID", "i-1");
    note(notice, spdlog::level::warn, "it ends");
    std::string lines = take_log();
    spdlog::error("since");
    put_log_back(std::move(lines));
    const std::string kept = take_log();
    for (int i = 0; i < 100'000; ++i) note(notice, info, "line {}", i);
    for (int i = 0; i < 10'000; ++i) spdlog::info("line {} of those that are logged all", i);
    const std::string much = take_log();
    // In one piece: entries of the journal come between others.
    std::cerr << kept + "then " + (take_log().empty() ? "nothing" : "more") + "\n" +
                     (much.size() < (300U << 10) ? "short" : "long") + "\n" +
                     much.substr(0, much.find('\n') + 1) + much.substr(much.size() - 40);
  });
  const auto at = [&said](const char* words) { return said.find(words); };
  EXPECT_NE(at("Z - info    before\n"), std::string::npos) << said;
  EXPECT_NE(at("Z i-1 warning it ends\n"), std::string::npos) << said;
  EXPECT_LT(at("Z i-1 warning it ends\n"), at("Z i-1 error   since\n"));
  EXPECT_NE(at("then nothing\nshort\n(older lines"), std::string::npos);
  EXPECT_NE(at("line 9999 of those that are logged all\n"), std::string::npos);
}

}  // namespace
}  // namespace spotter::io
