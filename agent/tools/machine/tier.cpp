#include "agent/tools/machine/tier.hpp"

#include <grp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/exit_status.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/child.hpp"
#include "agent/tier/tier.hpp"

namespace spotter::command {
namespace {

constexpr int not_fetched_status = 74;  // EX_IOERR, as of `spotter pipe`
constexpr int stopped_status = 75;      // of a trainer that was asked to stop, and can go on

struct TierOptions {
  tier::Options tier;
  std::string mount, to, as;
  std::vector<std::string> command;
};

// For good, with all three ids: what comes from S3 was written by whoever may write there.
Result<void> become(const act::host::User& user) {
  if (::geteuid() != 0 && ::getuid() != 0) return {};  // find_user(): we are that user
  const pid_t parent = ::getppid();
  const auto uid = user.uid;
  const auto gid = user.gid;
  const bool done =
      (::geteuid() != 0 || ::setgroups(user.groups.size(), user.groups.data()) == 0) &&
      ::setresgid(gid, gid, gid) == 0 && ::setresuid(uid, uid, uid) == 0;
  if (!done) return failure("cannot become '" + user.name + "': " + std::strerror(errno));
  ::setenv("HOME", user.home.c_str(), 1);
  // The change of identity cleared it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return failure("the guard has ended");
  return {};
}

// A mapped file has fewer bytes than when it was mapped.
void became_shorter(int) {
  constexpr std::string_view words = "a file became shorter while it was copied to S3\n";
  [[maybe_unused]] const auto written = ::write(1, words.data(), words.size());
  ::_exit(1);
}

int copy(TierOptions options) {
  std::signal(SIGBUS, became_shorter);
  const auto user = act::host::find_user(options.as);
  const auto became = user ? become(*user) : tl::unexpected<Error>(user.error());
  options.tier.s3.environment = act::Environment::of_this_process();  // with this user's home
  const auto copied = became ? tier::copy(options.tier) : tl::unexpected<Error>(became.error());
  const std::string words = copied ? copied->value_or("") : copied.error().message;
  if (!words.empty()) std::printf("%s\n", words.c_str());
  return copied ? 0 : 1;
}

void stop(int) { ::_exit(stopped_status); }

// Nothing of the trainer has run yet: a signal that asks it to stop loses nothing.
int fetch(TierOptions options) {
  options.tier.s3.environment = act::Environment::of_this_process();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) std::signal(signal, stop);
  const auto say = [](const std::string& words) {
    std::fprintf(stderr, "spotter tier: %s\n", words.c_str());
  };
  const auto fetched = tier::fetch(options.tier, say);
  if (!fetched) {
    say(fetched.error().message);
    return not_fetched_status;
  }
  if (*fetched) say(**fetched + " is fetched from S3");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) std::signal(signal, SIG_DFL);
  io::Program(options.command).execute_from_path();
  say(options.command.front() + ": " + std::strerror(errno));
  return 127;
}

}  // namespace

int tier(int argc, char** argv) {
  CLI::App app("Copies checkpoint folders to S3 and back", "spotter tier");
  app.require_subcommand(1);
  TierOptions options;
  auto* copying = app.add_subcommand("copy", "the newest recorded one to S3");
  auto* fetching = app.add_subcommand("fetch", "the newest to the storage; then the command");
  for (auto* each : {copying, fetching}) {
    each->add_option("--mount", options.mount, "the storage's mount point")->required();
    each->add_option("--directory", options.tier.where.directory, "relative to it")->required();
    each->add_option("--folders", options.tier.where.folders, "patterns of names")->required();
    each->add_option("--to", options.to, "s3://bucket/prefix/")->required();
    each->add_option("--job", options.tier.job, "whose they are")->required();
  }
  copying->add_option("--as", options.as, "the trainer's user")->required();
  // CLI11 would take words of a command in brackets for lists.
  char** const end = std::find_if(argv, argv + argc,
                                  [](const char* word) { return std::string_view(word) == "--"; });
  if (end < argv + argc) options.command.assign(end + 1, argv + argc);
  try {
    app.parse(static_cast<int>(end - argv), argv);
    if (fetching->parsed() && options.command.empty())
      throw CLI::RequiredError("a command behind --");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : wrong_input;
  }
  auto to = wire::parse_s3_url(options.to);
  if (!to) {
    std::fprintf(stderr, "spotter tier: --to: %s\n", to.error().message.c_str());
    return wrong_input;
  }
  options.tier.to = *std::move(to);
  options.tier.where.mount = options.mount;
  options.tier.where.as_trainer = true;
  return copying->parsed() ? copy(std::move(options)) : fetch(std::move(options));
}

}  // namespace spotter::command
