#include "agent/tools/machine/unit.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "agent/host/host.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/complain.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/supervise/supervisor.hpp"
#include "agent/systemd/manager.hpp"
#include "agent/systemd/settings.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::command {
namespace {

using supervise::Descriptor;
using units::Manager;

constexpr int tries_to_start = 50;  // a unit of that name may just be ending
constexpr useconds_t microseconds_between = 100'000;

std::string all_of(std::istream& stream) { return {std::istreambuf_iterator<char>(stream), {}}; }

// A file of root's alone that is gone when this is.
class Scratch {
 public:
  Scratch(std::string path, std::string_view content) : path_(std::move(path)) {
    ::unlink(path_.c_str());
    const Descriptor file(
        open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    good_ = static_cast<bool>(file);
    while (good_ && !content.empty()) {
      const ssize_t put = ::write(file.get(), content.data(), content.size());
      good_ = put > 0;
      if (good_) content.remove_prefix(static_cast<std::size_t>(put));
    }
    if (!good_) why_ = std::string("cannot write ") + path_ + ": " + std::strerror(errno);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { ::unlink(path_.c_str()); }

  const std::string& path() const { return path_; }
  explicit operator bool() const { return good_; }
  const std::string& why() const { return why_; }
  std::string read() const {
    std::ifstream stream(path_, std::ios::binary);
    return all_of(stream);
  }

 private:
  std::string path_;
  std::string why_;
  bool good_ = false;
};

// Readable once we shall end; and whoever started us does not leave us behind.
Descriptor until_asked() {
  sigset_t asked;
  sigemptyset(&asked);
  sigaddset(&asked, SIGTERM);
  sigaddset(&asked, SIGINT);
  sigprocmask(SIG_BLOCK, &asked, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  return Descriptor(signalfd(-1, &asked, SFD_CLOEXEC));
}

struct Request {
  std::string unit;
  std::vector<std::string> command;
  units::Settings settings;
};

Result<void> try_to_begin(const Request& request) {
  act::host::ToolRequest tool{
      .argv = units::to_start(request.unit, request.command, request.settings),
      .environment = {{"SYSTEMD_BUS_TIMEOUT", "10s"}}};
  const auto ran = act::host::run_tool(tool, "systemd");
  if (!ran) return tl::unexpected(ran.error());
  if (ran->status == 0) return {};
  return failure("systemd does not start " + request.unit + ": " + act::host::last_words(*ran));
}

// The unit is being started, or why it is not.
Result<void> begin(Manager& manager, const Request& request) {
  for (int tries = 0; tries < tries_to_start && manager.is_loaded(request.unit); ++tries)
    usleep(microseconds_between);
  return try_to_begin(request);
}

struct TrainerOptions {
  units::TrainerPlace place;
  std::string user;
};

std::string home_of(const std::string& user) {
  const passwd* entry = getpwnam(user.c_str());
  return entry == nullptr ? std::string() : entry->pw_dir;
}

int start_trainer(TrainerOptions options) {
  const Descriptor asked = until_asked();
  auto& place = options.place;
  place.users_home = home_of(options.user);
  const Scratch spec(place.run_directory + "/trainer.spec", all_of(std::cin));
  const Scratch report(place.run_directory + "/trainer.report", "");
  for (const auto* file : {&spec, &report})
    if (!*file) return io::complain("unit", file->why());
  const auto manager = Manager::connect();
  if (!manager) return io::complain("unit", manager.error().message);
  const Request request{units::trainer_unit(place.name),
                        {own_program(), "supervise", "--run-directory", place.run_directory,
                         "--spec", spec.path(), "--report", report.path()},
                        units::of_trainer(place)};
  if (const auto begun = begin(**manager, request); !begun)
    return io::complain("unit", begun.error().message);
  const std::string how = (*manager)->wait(request.unit, asked.get());
  if (how.empty()) return io::complain("unit", "given up while " + request.unit + " started");
  const std::string said = report.read();
  if (said.empty())
    return io::complain("unit", request.unit + ": " + how + "; see journalctl -u " + request.unit);
  const auto started = supervise::read_report(said);
  if (started) return 0;
  return io::complain("unit", started.error().message, supervise::exit_status(started.error()));
}

struct VerbOptions {
  std::string run_directory;
  std::int64_t limit = 60'000;
};

// It ends at once, and whatever of it is stuck in the kernel is systemd's.
void give_up(Manager& manager, const Request& request) {
  manager.stop(request.unit);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  const Descriptor never(ends[0]);
  const Descriptor open_end(ends[1]);
  (void)manager.wait(request.unit, never.get());
}

// What was mounted stays until the agent has stopped, when the system stops. In vain: the mount is
// used all the same.
void anchor(const std::string& place) {
  if (!place.empty())
    (void)try_to_begin({units::anchor_unit(place), {"/bin/true"}, units::of_anchor(place)});
}

// What is no request is refused by the one who is to do it.
int do_verb(const VerbOptions& options) {
  const Descriptor asked = until_asked();
  const std::string json = all_of(std::cin);
  const auto wanted = verbs::parse_request(json);
  const bool leaves_processes = wanted && verbs::traits_of(wanted->verb).leaves_processes;
  const std::string name = options.run_directory + "/host-" + std::to_string(getpid());
  const Scratch answer(name + ".answer", "");
  const Scratch asked_for(name + ".request",
                          to_bytes({getpid(), answer.path(), environment_of_this_process(), json}));
  for (const auto* file : {&answer, &asked_for})
    if (!*file) return io::complain("unit", file->why());
  const auto manager = Manager::connect();
  if (!manager) return io::complain("unit", manager.error().message);
  const Request request{"spotter-host-" + std::to_string(getpid()) + ".service",
                        {own_program(), "host", "--request", asked_for.path()},
                        units::of_verb(std::chrono::milliseconds(options.limit), leaves_processes)};
  if (const auto begun = begin(**manager, request); !begun)
    return io::complain("unit", begun.error().message);
  const std::string how = (*manager)->wait(request.unit, asked.get());
  if (how.empty()) {
    give_up(**manager, request);
    return 1;
  }
  const std::string words = answer.read();
  if (wanted && words.find(R"("ok":true)") != words.npos) anchor(verbs::mounts_on(wanted->verb));
  std::cout << words << std::flush;
  return words.empty() ? io::complain("unit", request.unit + ": " + how + "; see journalctl") : 0;
}

int print(const units::TrainerPlace& place) {
  std::cout << units::to_unit_file(units::of_trainer(place), "/usr/bin/spotter supervise");
  return 0;
}

}  // namespace

int requested_verb(const std::string& file) {
  const auto json = take_verb_request(file);
  return json ? do_request(*json) : io::complain("unit", json.error().message);
}

int unit(int argc, char** argv) {
  CLI::App app("Asks systemd to run a process of ours as a service", "spotter unit");
  app.require_subcommand(1);
  TrainerOptions trainer;
  VerbOptions verb;
  int status = 0;
  auto* start = app.add_subcommand("trainer");
  auto& place = trainer.place;
  std::int64_t grace = 0;
  start->callback([&] {
    place.grace = std::chrono::seconds(grace);
    status = start_trainer(trainer);
  });
  start->add_option("--run-directory", place.run_directory)->required();
  start->add_option("--name", place.name)->required();
  start->add_option("--home", place.home)->required();
  start->add_option("--user", trainer.user)->required();
  start->add_option("--memory-max", place.memory_max);
  start->add_option("--cpu-quota", place.cpu_quota);
  start->add_option("--cpu-weight", place.cpu_weight);
  start->add_flag("--mounts", place.mounts);
  start->add_flag("--refuse-metadata", place.refuses_metadata);
  start->add_option("--grace", grace, "seconds");
  auto* host = app.add_subcommand("host");
  host->callback([&] { status = do_verb(verb); });
  host->add_option("--run-directory", verb.run_directory)->required();
  host->add_option("--limit", verb.limit, "milliseconds");
  app.add_subcommand("print")->callback([&] {
    status = print({.name = "job",
                    .run_directory = "/run/spotter",
                    .home = "/mnt/spotter",
                    .users_home = "/var/lib/spotter",
                    .refuses_metadata = true});
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return status;
}

}  // namespace spotter::command
