// Code from a repository made for the test, fetched as the trainer's user.
#include "agent/act/host/checkout.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "agent/io/files.hpp"
#include "disk.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

// Root fetches as nobody from a repository of root's; anybody else as themselves.
class Checkout : public Directory {
 protected:
  void SetUp() override {
    Directory::SetUp();
    user_ = "nobody";
    if (::geteuid() != 0) {
      const auto* entry = ::getpwuid(::geteuid());
      if (entry == nullptr) GTEST_SKIP() << "our own user has no name";
      user_ = entry->pw_name;
    }
    repository_ = directory_ / "repository";
    git({"init", "-q", "--initial-branch=main", repository_.string()}, false);
    first_ = commit("train.sh", "echo one\n");
    second_ = commit("train.sh", "echo two\n");
  }
  std::string git(std::vector<std::string> arguments, bool inside = true) const {
    std::vector<std::string> argv{"git"};
    if (inside) argv.insert(argv.end(), {"-C", repository_.string()});
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    auto output = must_run(std::move(argv));
    return output.substr(0, output.find('\n'));
  }
  std::string commit(const std::string& name, const std::string& text) const {
    write("repository/" + name, text);
    git({"add", name});
    git({"commit", "-q", "-m", "x"});
    return git({"rev-parse", "HEAD"});
  }
  CheckoutRequest request(const std::string& revision) const {
    return {.repository = repository_.string(),
            .revision = revision,
            .directory = directory_ / "code",
            .user = user_};
  }
  std::string code(const std::string& name) const {
    return io::read_file(directory_ / "code" / name, 1U << 16).value_or("(none)");
  }
  std::string user_;
  fs::path repository_;
  std::string first_, second_;
};

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

TEST_F(Checkout, LeavesSubmodulesAlone) {
  write("repository/.gitmodules",
        "[submodule \"dep\"]\n\tpath = dep\n\turl = " + repository_.string() + "\n");
  git({"add", ".gitmodules"});
  git({"update-index", "--add", "--cacheinfo", "160000," + first_ + ",dep"});
  git({"commit", "-q", "-m", "x"});
  const auto done = checkout(request(git({"rev-parse", "HEAD"})));
  ASSERT_TRUE(done) << words_of(done);
  EXPECT_FALSE(fs::exists(directory_ / "code/dep/train.sh"));
}

TEST_F(Checkout, TellsFailuresApart) {
  EXPECT_EQ(kind_of(checkout(request(std::string(40, 'a')))), "revision-missing");
  fs::remove_all(directory_ / "code");  // what was fetched needs no repository any more
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

// A server that wants a password and, being a "dumb" one, cannot serve a commit by its id.
// Prints its port; ends when its standard input does, that is with us.
constexpr const char* server = R"(
import base64, functools, http.server, os, sys, threading
expected = 'Basic ' + base64.b64encode(b'x-access-token:s3cret').decode()
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.headers.get('Authorization') == expected: return super().do_GET()
        self.send_response(401)
        self.send_header('WWW-Authenticate', 'Basic realm="x"')
        self.send_header('Content-Length', '0')
        self.end_headers()
    def log_message(self, *_): pass
handler = functools.partial(Handler, directory=sys.argv[1])
s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
print(s.server_address[1], flush=True)
threading.Thread(target=s.serve_forever, daemon=True).start()
sys.stdin.read()
)";

class Server {
 public:
  explicit Server(const fs::path& directory) {
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      ::execl("/usr/bin/python3", "python3", "-c", server, directory.c_str(), nullptr);
      ::_exit(127);
    }
    input_ = Fd(to[1]);
    const Fd unused_input(to[0]), answers(from[0]);
    ::close(from[1]);
    // To the end of the line: closing before it would break the server's pipe.
    std::string line;
    for (char letter = 0; ::read(answers.get(), &letter, 1) == 1 && letter != '\n';) line += letter;
    port_ = std::atoi(line.c_str());
  }
  ~Server() {
    input_.close();
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }
  int port() const { return port_; }

 private:
  Fd input_;
  pid_t pid_ = -1;
  int port_ = 0;
};

TEST_F(Checkout, AnswersAServerWithTheTokenAndKeepsItNowhere) {
  git({"update-server-info"});
  const Server served(directory_);
  if (served.port() == 0) GTEST_SKIP() << "needs /usr/bin/python3 for its server";
  auto asked = request(first_);
  asked.repository = "http://127.0.0.1:" + std::to_string(served.port()) + "/repository/.git";
  EXPECT_EQ(kind_of(checkout(asked)), "code-denied") << "no token";
  asked.token = "wrong";
  EXPECT_EQ(kind_of(checkout(asked)), "code-denied");
  asked.token = "s3cret";
  const auto done = checkout(asked);
  ASSERT_TRUE(done) << words_of(done);
  EXPECT_EQ(code("train.sh"), "echo one\n");
  for (const auto& entry : fs::recursive_directory_iterator(directory_ / "code")) {
    if (!entry.is_regular_file()) continue;
    const auto text = io::read_file(entry.path(), 1U << 20).value_or("");
    EXPECT_EQ(text.find("s3cret"), std::string::npos) << entry.path();
  }
  asked.revision = std::string(40, 'a');
  EXPECT_EQ(kind_of(checkout(asked)), "revision-missing");
}

}  // namespace
}  // namespace spotter::act::host
