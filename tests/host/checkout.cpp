#include "checkout.hpp"

#include <fcntl.h>
#include <sys/wait.h>

#include <cstdlib>

namespace spotter::act::host {

void Checkout::SetUp() {
  Directory::SetUp();
  user_ = "nobody";
  if (::geteuid() != 0) {
    const auto* entry = ::getpwuid(::geteuid());
    if (entry == nullptr) GTEST_SKIP() << "our own user has no name";
    user_ = entry->pw_name;
  }
  make_code();
  repository_ = directory_ / "repository";
  git({"init", "-q", "--initial-branch=main", repository_.string()}, false);
  first_ = commit("train.sh", "echo one\n");
  second_ = commit("train.sh", "echo two\n");
}

void Checkout::make_code() const {
  const auto folder = directory_ / "code";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  must_run({"chown", user_, folder.string()});
}

std::string Checkout::git(std::vector<std::string> arguments, bool inside) const {
  std::vector<std::string> argv{"git"};
  if (inside) argv.insert(argv.end(), {"-C", repository_.string()});
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  auto output = must_run(std::move(argv));
  return output.substr(0, output.find('\n'));
}

std::string Checkout::commit(const std::string& name, const std::string& text) const {
  write("repository/" + name, text);
  git({"add", name});
  git({"commit", "-q", "-m", "x"});
  return git({"rev-parse", "HEAD"});
}

verbs::Checkout Checkout::request(const std::string& revision) const {
  return {.repository = repository_.string(),
          .revision = revision,
          .directory = directory_ / "code",
          .user = user_};
}

GitServer::GitServer(const std::filesystem::path& directory, const std::string& name,
                     std::initializer_list<std::string> pairs)
    : seen_(directory / ("seen-" + name)) {
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) return;
  std::vector<std::string> words{"python3", "tests/host/git_server.py", directory, seen_};
  words.insert(words.end(), pairs);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(to[0], 0);
    ::dup2(from[1], 1);
    ::execv("/usr/bin/python3", arguments.data());
    ::_exit(127);
  }
  input_ = io::Descriptor(to[1]);
  const io::Descriptor unused_input(to[0]), answers(from[0]);
  ::close(from[1]);
  // To the end of the line: closing before it would break the server's pipe.
  std::string line;
  for (char letter = 0; ::read(answers.get(), &letter, 1) == 1 && letter != '\n';) line += letter;
  port_ = std::atoi(line.c_str());
  EXPECT_NE(port_, 0) << "no server: is /usr/bin/python3 there?";
}

GitServer::~GitServer() {
  input_.close();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

}  // namespace spotter::act::host
