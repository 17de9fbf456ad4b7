// Parts of the code that are elsewhere: submodules, files of Git LFS; and servers by SSH.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <netinet/in.h>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/config/git_server.hpp"
#include "checkout.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

class Parts : public Checkout {
 protected:
  void SetUp() override {
    Checkout::SetUp();
    if (IsSkipped()) return;
    library_ = directory_ / "library";
    git({"init", "-q", "--initial-branch=main", library_.string()}, false);
    library_commit_ = commit_in(library_, "lib.py", "x = 1\n");
  }
  std::string commit_in(const fs::path& repository, const std::string& name,
                        const std::string& text) const {
    write(fs::relative(repository / name, directory_), text);
    const auto at = repository.string();
    must_run({"git", "-C", at, "add", name});
    must_run({"git", "-C", at, "commit", "-q", "-m", "x"});
    return must_run({"git", "-C", at, "rev-parse", "HEAD"}).substr(0, 40);
  }
  // A commit with a submodule; `more` ends its section of .gitmodules.
  std::string with_submodule(const std::string& url, const std::string& revision,
                             const std::string& more = "", const std::string& path = "dep") const {
    write("repository/.gitmodules",
          "[submodule \"d\"]\n\tpath = " + path + "\n\turl = " + url + "\n" + more);
    git({"add", ".gitmodules"});
    git({"update-index", "--add", "--cacheinfo", "160000," + revision + "," + path});
    git({"commit", "-q", "--allow-empty", "-m", "x"});
    return git({"rev-parse", "HEAD"});
  }

  fs::path library_;
  std::string library_commit_;
};

TEST_F(Parts, SubmodulesAreFetchedWhereverTheirAddressIsRelativeTo) {
  for (const auto& url : {std::string("../library"), library_.string()}) {
    for (const char* of : {"", "/.git"}) {
      SCOPED_TRACE(url + " of" + of);
      make_code();
      auto asked = request(with_submodule(url, library_commit_, "", "third party/dep"));
      asked.repository += of;
      const auto done = checkout(asked);
      ASSERT_TRUE(done) << words_of(done);
      EXPECT_EQ(done->missing, "");
      EXPECT_EQ(code("third party/dep/lib.py"), "x = 1\n");
      git({"rm", "-q", "--cached", "third party/dep"});
    }
  }
}

TEST_F(Parts, ASubmoduleFollowsTheCommitThatNamesIt) {
  ASSERT_TRUE(checkout(request(with_submodule("../library", library_commit_))));
  write("code/dep/cache.bin", "expensive");
  const auto newer = commit_in(library_, "lib.py", "x = 2\n");
  const auto done = checkout(request(with_submodule("../library", newer)));
  ASSERT_TRUE(done) << words_of(done);
  EXPECT_EQ(code("dep/lib.py"), "x = 2\n");
  EXPECT_EQ(code("dep/cache.bin"), "expensive");
}

TEST_F(Parts, ASubmoduleThatDoesNotComeIsSaidWithItsReason) {
  const auto said = [&](const std::string& revision) {
    make_code();
    const auto done = checkout(request(revision));
    EXPECT_TRUE(done) << words_of(done);
    EXPECT_EQ(code("train.sh"), "echo two\n");
    return done ? done->missing : "";
  };
  const std::string begins = "1 submodule did not come (dep): ";
  const auto has = [&](const std::string& words, const std::string& why) {
    EXPECT_EQ(words.substr(0, begins.size()), begins);
    EXPECT_NE(words.find(why), std::string::npos) << words;
  };
  has(said(with_submodule("../nowhere", library_commit_)), "cannot fetch from");
  has(said(with_submodule("../library", std::string(40, 'a'))), "was it pushed, or rewritten?");
  has(said(with_submodule("../library", library_commit_, "\tupdate = none\n")), "names no address");
  has(said(with_submodule("https://me:hunter2@example.com/x", library_commit_)), "a password");
  has(said(with_submodule("ext::touch /tmp/spotter-ran", library_commit_)), "");
  EXPECT_FALSE(fs::exists("/tmp/spotter-ran"));
}

TEST_F(Parts, TheTokenGoesWithASubmoduleToItsServerAlone) {
  const GitServer server(directory_, "server"), other(directory_, "other");
  for (const auto& repository : {repository_, library_})
    must_run({"git", "-C", repository.string(), "update-server-info"});
  const auto asked = [&](const std::string& url) {
    make_code();
    auto it = request(with_submodule(url, library_commit_));
    git({"update-server-info"});
    it.repository = server.url() + "/repository/.git";
    it.token = "s3cret";
    const auto done = checkout(it);
    EXPECT_TRUE(done) << words_of(done);
    return done ? done->missing : "";
  };
  EXPECT_EQ(asked("../library/.git"), "");
  EXPECT_EQ(code("dep/lib.py"), "x = 1\n");
  EXPECT_NE(asked(other.url() + "/library/.git").find("did not come"), std::string::npos);
  EXPECT_TRUE(other.saw("nothing"));
  EXPECT_FALSE(other.saw("s3cret"));
  EXPECT_NE(asked(library_.string()).find("a path of a machine"), std::string::npos);
}

// With git-lfs the weights, without it a pointer and a sentence that says how to get them.
TEST_F(Parts, FilesOfLfsComeByGitLfs) {
  const std::string oid = "1e39cd78c7c8b4bf5ec6dd8d4eefb3b0f2a1b1d5a5d2d6cd4b5a1dd6c0f0a111";
  const std::string weights = "weights\n";
  const auto sum = must_run({"sh", "-c", "printf 'weights\\n' | sha256sum"}).substr(0, 64);
  write("repository/.git/lfs/objects/" + sum.substr(0, 2) + "/" + sum.substr(2, 2) + "/" + sum,
        weights);
  const auto pointer = [](const std::string& of, std::size_t size) {
    return "version https://git-lfs.github.com/spec/v1\noid sha256:" + of + "\nsize " +
           std::to_string(size) + "\n";
  };
  commit(".gitattributes", "*.pt filter=lfs diff=lfs merge=lfs -text\n");
  commit("small.pt", "its content, not by LFS");
  const auto one = commit("weights.pt", pointer(sum, weights.size()));
  const bool installed = must_run({"sh", "-c", "command -v git-lfs || true"}) != "";
  const auto done = checkout(request(one));
  ASSERT_TRUE(done) << words_of(done);
  if (installed) {
    EXPECT_EQ(done->missing, "");
    EXPECT_EQ(code("weights.pt"), weights);
  } else {
    EXPECT_NE(done->missing.find("in the place of 1 file (weights.pt): git-lfs is not installed"),
              std::string::npos)
        << done->missing;
    EXPECT_EQ(code("weights.pt"), pointer(sum, weights.size()));
  }
  EXPECT_EQ(code("small.pt"), "its content, not by LFS");
  const auto lost = checkout(request(commit("lost.pt", pointer(oid, 9))));
  ASSERT_TRUE(lost) << words_of(lost);
  EXPECT_NE(lost->missing.find("lost.pt"), std::string::npos) << lost->missing;
  EXPECT_EQ(checkout(request(first_))->missing, "");
}

// sshd on a port of its own, which shows this machine's repositories to one key. Its
// sessions get no GIT_PROTOCOL: no commit is served by its id but the ends of branches.
class Sshd {
 public:
  explicit Sshd(const fs::path& place) : place_(place) {
    fs::create_directories(place_);
    fs::create_directories("/run/sshd");
    for (const char* name : {"host", "user"})
      must_run({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f",
                (place_ / name).string()});
    const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(probe, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::getsockname(probe, reinterpret_cast<sockaddr*>(&at), &size), 0);
    ::close(probe);
    port_ = std::to_string(ntohs(at.sin_port));
    const auto text = "Port " + port_ + "\nListenAddress 127.0.0.1\nHostKey " +
                      (place_ / "host").string() + "\nPidFile none\nAuthorizedKeysFile " +
                      (place_ / "user.pub").string() +
                      "\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
                      "PermitRootLogin yes\nUseDNS no\n";
    EXPECT_TRUE(io::atomic_write(place_ / "config", text, 0600));
    pid_ = ::fork();
    if (pid_ == 0) {
      const int log = ::open((place_ / "log").c_str(), O_WRONLY | O_CREAT, 0600);
      ::dup2(log, 2);
      ::execl("/usr/sbin/sshd", "/usr/sbin/sshd", "-D", "-e", "-f", (place_ / "config").c_str(),
              nullptr);
      ::_exit(127);
    }
    must_run({"sh", "-c",
              "until grep -q 'Server listening' \"$0\"; do kill -0 $1; sleep 0.05; done",
              (place_ / "log").string(), std::to_string(pid_)});
  }
  ~Sshd() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }

  std::string url(const fs::path& repository) const {
    return "ssh://" + std::string(::getpwuid(::geteuid())->pw_name) + "@127.0.0.1:" + port_ +
           repository.string();
  }
  std::string key() const { return io::read_file(place_ / "user", 1U << 16).value_or(""); }
  std::string known_hosts() const {
    return "[127.0.0.1]:" + port_ + " " + io::read_file(place_ / "host.pub", 1U << 16).value_or("");
  }

 private:
  fs::path place_;
  std::string port_;
  pid_t pid_ = -1;
};

TEST_F(Parts, ADeployKeyFetchesBySshAndIsKeptNowhere) {
  if (::access("/usr/sbin/sshd", X_OK) != 0) GTEST_SKIP() << "sshd is not installed";
  const Sshd server(directory_ / "sshd");
  auto asked = request(first_);  // not the end of a branch
  asked.repository = server.url(repository_);
  asked.token = "s3cret";
  EXPECT_NE(words_of(checkout(asked)).find("a private key"), std::string::npos);
  asked.token = server.key();
  const auto unknown = checkout(asked);
  EXPECT_EQ(kind_of(unknown), "code-denied");
  EXPECT_NE(words_of(unknown).find("ssh-keyscan"), std::string::npos) << words_of(unknown);
  asked.token += server.known_hosts();
  const auto done = checkout(asked);
  ASSERT_TRUE(done) << words_of(done);
  EXPECT_EQ(code("train.sh"), "echo one\n");
  for (const auto& entry : fs::recursive_directory_iterator(directory_ / "code")) {
    if (!entry.is_regular_file()) continue;
    const auto text = io::read_file(entry.path(), 1U << 20).value_or("");
    EXPECT_EQ(text.find("OPENSSH PRIVATE"), std::string::npos) << entry.path();
  }
  asked.revision = with_submodule("../library", library_commit_);
  const auto both = checkout(asked);
  ASSERT_TRUE(both) << words_of(both);
  EXPECT_EQ(both->missing, "");
  EXPECT_EQ(code("dep/lib.py"), "x = 1\n");
}

TEST(GitServers, WantTheirOwnUsersNames) {
  EXPECT_EQ(wire::git_user("https://github.com", "ghp_x"), "x-access-token");
  EXPECT_EQ(wire::git_user("https://bitbucket.org", "ATCTTx"), "x-token-auth");
  EXPECT_EQ(wire::git_user("https://bitbucket.org", "ATATTx"), "x-bitbucket-api-token-auth");
  EXPECT_TRUE(token_server("https://me%40corp.com@bitbucket.org/x/y.git"));
  EXPECT_TRUE(token_server("https://CORP%5Cme@h/x/y.git"));
  EXPECT_TRUE(token_server("https://my%20t%C3%BCken@h/x/y.git"));
  for (const char* name : {"me%2fcorp", "me%0a", "me%", "me%4", "me%4g", "me%3F", "a:b"})
    EXPECT_FALSE(token_server("https://" + std::string(name) + "@bitbucket.org/x/y.git")) << name;
}

TEST(GitServers, CodeCommitTakesTheRolesSignature) {
  const auto found = wire::codecommit_repository("codecommit::us-west-2://trainer");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->url(), "https://git-codecommit.us-west-2.amazonaws.com/v1/repos/trainer");
  EXPECT_EQ(wire::codecommit_repository(found->url())->region, "us-west-2");
  EXPECT_EQ(wire::codecommit_repository("codecommit::cn-north-1://x")->host,
            "git-codecommit.cn-north-1.amazonaws.com.cn");
  for (const char* url : {"https://git-codecommit.us-west-2.amazonaws.com.example.com/v1/repos/x",
                          "https://git-codecommit.us-west-2.amazonaws.com/x", "https://github.com",
                          "codecommit::us-west-2", "codecommit://x"})
    EXPECT_FALSE(wire::codecommit_repository(url)) << url;
  // By botocore's own SigV4Auth, as `aws codecommit credential-helper` uses it.
  const wire::Credentials keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "", {}};
  EXPECT_EQ(wire::git_password(
                found->host, found->path, keys,
                {"codecommit", "us-west-2", wire::parse_rfc3339("2026-11-21T10:15:30Z").value()}),
            "20261121T101530Z222da768c8727f4b05f6791036f3ade349219f638a69fd25e1a718aec33755a5");
}

TEST(GitServers, SubmodulesAddressesAreTakenAsGitDoes) {
  const auto at = [](const char* base, const char* url, const char* server = "") {
    return wire::submodule_url(base, url, server).value_or("refused");
  };
  EXPECT_EQ(at("https://h/org/repo.git", "../lib.git"), "https://h/org/lib.git");
  EXPECT_EQ(at("https://h/org/repo.git/", "../../other/lib"), "https://h/other/lib");
  EXPECT_EQ(at("https://h/org/repo", "./lib"), "https://h/org/repo/lib");
  EXPECT_EQ(at("git@h:org/repo.git", "../lib.git"), "git@h:org/lib.git");
  EXPECT_EQ(at("git@h:repo.git", "../lib.git"), "git@h:lib.git");
  EXPECT_EQ(at("/srv/repo/.git", "../lib"), "/srv/lib");
  EXPECT_EQ(at("https://h/r", "git@h:org/lib.git", "https://h"), "https://h/org/lib.git");
  EXPECT_EQ(at("https://h/r", "ssh://git@h/org/lib.git", "https://h"), "https://h/org/lib.git");
  EXPECT_EQ(at("https://h/r", "git@other:org/lib.git", "https://h"), "git@other:org/lib.git");
  EXPECT_EQ(at("https://h/r", "git@h:org/lib.git"), "git@h:org/lib.git") << "no token";
  EXPECT_EQ(at("https://me@h/r", "https://h/lib"), "https://me@h/lib") << "whose token it is";
  EXPECT_EQ(at("https://me@h/r", "git@h:lib", "https://h"), "https://me@h/lib");
  EXPECT_EQ(at("https://me@h/r", "https://you@h/lib"), "https://you@h/lib");
  EXPECT_EQ(at("https://me@h/r", "https://other/lib"), "https://other/lib");
  EXPECT_EQ(at("https://h/r", "/etc"), "refused");
  EXPECT_EQ(at("https://h/r", "file:///etc"), "refused");
  // The instance's role would open these, and another job's code is not the repository's to name.
  const std::string west = "https://git-codecommit.us-west-2.amazonaws.com/v1/repos/";
  EXPECT_EQ(at("https://h/r", (west + "b").c_str()), "refused");
  EXPECT_EQ(at("https://h/r", "codecommit::us-west-2://b"), "refused");
  EXPECT_EQ(at("s3://bucket/a/code/", "s3://bucket/b/code/"), "refused");
  EXPECT_EQ(at((west + "a").c_str(), "../b"), west + "b");
  EXPECT_EQ(at("codecommit::us-west-2://a", (west + "b").c_str()), west + "b");
  EXPECT_EQ(at("codecommit::us-east-1://a", (west + "b").c_str()), "refused");
}

}  // namespace
}  // namespace spotter::act::host
