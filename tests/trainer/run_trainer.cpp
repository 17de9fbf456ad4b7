#include "tests/trainer/run_trainer.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace spotter::test {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const auto& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

}  // namespace

Trainer::Trainer(const std::vector<std::string>& arguments, const std::filesystem::path& output,
                 const std::vector<std::string>& environment) {
  std::vector<std::string> words = {SPOTTER_TRAIN};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = {"PATH=/usr/bin:/bin", "OMP_NUM_THREADS=1",
                                        "OPENBLAS_NUM_THREADS=1"};
  variables.insert(variables.end(), environment.begin(), environment.end());
  const auto argv = pointers(words);
  const auto envp = pointers(variables);
  child_ = ::fork();
  if (child_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing is left behind when the test is killed
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::execve(SPOTTER_TRAIN, argv.data(), envp.data());
  ::_exit(127);
}

Trainer::~Trainer() {
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  wait();
}

void Trainer::signal(int number) const {
  if (child_ > 0) ::kill(child_, number);
}

int Trainer::wait() {
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace spotter::test
