#include "agent/tools/init/checkout.hpp"

#include <optional>
#include <vector>

#include "agent/host/verb.hpp"
#include "agent/job/variables.hpp"
#include "agent/tools/init/job_text.hpp"

namespace spotter::command {
namespace {

// Its output without the last newline; none: it failed.
std::optional<std::string> ask_git(std::vector<std::string> words) {
  words.insert(words.begin(), "git");
  auto variables = config::variables_of_process();
  variables["GIT_OPTIONAL_LOCKS"] = "0";
  const auto done = act::host::run_tool({words, variables}, "git");
  if (!done || done->status != 0) return std::nullopt;
  std::string text = done->output;
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

GitCheckout current_checkout() {
  GitCheckout found;
  const auto head = ask_git({"rev-parse", "--verify", "HEAD^{commit}"});
  if (!head) return found;
  found.revision = *head;
  found.address = web_address(ask_git({"remote", "get-url", "origin"}).value_or(""));
  found.pushed = !ask_git({"branch", "--remotes", "--contains", *head}).value_or("").empty();
  found.changed = !ask_git({"status", "--porcelain", "--untracked-files=no"}).value_or("").empty();
  return found;
}

}  // namespace spotter::command
