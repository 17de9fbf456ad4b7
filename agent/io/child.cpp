#include "agent/io/child.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <utility>

namespace spotter::io {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

pid_t fork_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  const auto run = [&body]() noexcept { return body(); };  // nothing of the caller's is unwound
  if (child == 0) ::_exit(run());
  return child;
}

bool die_with(pid_t parent, int signal) {
  ::prctl(PR_SET_PDEATHSIG, signal);
  return ::getppid() == parent;
}

Program::Program(std::vector<std::string> arguments,
                 std::optional<std::vector<std::string>> environment, std::string path)
    : own_environment_(environment.has_value()),
      arguments_(std::move(arguments)),
      environment_(std::move(environment).value_or(std::vector<std::string>())),
      path_(path.empty() ? arguments_.at(0) : std::move(path)),
      argument_pointers_(pointers_to(arguments_)),
      environment_pointers_(pointers_to(environment_)) {}

void Program::execute() const {
  ::execve(path_.c_str(), argument_pointers_.data(),
           own_environment_ ? environment_pointers_.data() : ::environ);
}

void Program::execute_from_path() const {
  ::execvpe(path_.c_str(), argument_pointers_.data(),
            own_environment_ ? environment_pointers_.data() : ::environ);
}

}  // namespace spotter::io
