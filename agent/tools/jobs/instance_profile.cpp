#include "agent/tools/jobs/instance_profile.hpp"

#include <chrono>
#include <thread>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/io/complain.hpp"

namespace spotter::command {
namespace {

using Clock = std::chrono::steady_clock;
using Verdict = Finding::Verdict;

// The longest that people have seen; AWS names no bound.
constexpr std::chrono::minutes until_it_is_known{2};
constexpr std::chrono::seconds until_asked_again{3};

bool is_unknown_profile(const CallError& error) {
  return error.message.find("Invalid IAM Instance Profile") != std::string::npos;
}

}  // namespace

Finding examine_profile(AwsCalls& calls, const config::Launch& launch) {
  constexpr const char* check = "profile";
  const std::string name = launch.profile.substr(launch.profile.rfind('/') + 1);
  const auto found = calls.ask(wire::GetInstanceProfile{name, calls.region()});
  if (found && !found->role.empty())
    return {check, Verdict::Ok, name + " gives instances the role " + found->role, ""};
  if (found)
    return {check, Verdict::Fail, "the instance profile " + name + " has no role",
            "add it: `spotter iam roles` prints the commands"};
  if (found.error().code == "NoSuchEntity")
    return {check, Verdict::Fail, "this account has no instance profile " + name,
            "make it: `spotter iam roles` prints the commands"};
  return {check, Verdict::Warn, found.error().message,
          found.error().forbidden()
              ? "whether it is there is open: give who launches what `spotter iam launcher` prints"
              : "whether it is there is open"};
}

Result<void, CallError> await_profile(AwsCalls& calls, const wire::Query& run,
                                      const char* command) {
  const auto until = Clock::now() + until_it_is_known;
  for (bool said = false;; said = true) {
    const auto answer = calls.perform(wire::dry_run(run));
    if (answer || !is_unknown_profile(answer.error())) return {};
    if (Clock::now() > until) return tl::unexpected(answer.error());
    if (!said)
      io::complain(command,
                   "EC2 does not know the instance profile yet: IAM tells it of a new one within "
                   "two minutes; waiting");
    std::this_thread::sleep_for(until_asked_again);
  }
}

}  // namespace spotter::command
