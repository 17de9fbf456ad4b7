#include "agent/commands/machine/machine.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "agent/aws/s3/objects.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/base/json.hpp"
#include "agent/config/job.hpp"
#include "agent/config/run.hpp"
#include "agent/follow/follower.hpp"
#include "agent/host/host.hpp"
#include "agent/host/metadata.hpp"
#include "agent/host/records.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/child.hpp"
#include "agent/io/files.hpp"
#include "agent/io/log.hpp"
#include "agent/supervise/account.hpp"
#include "agent/supervise/client.hpp"
#include "agent/supervise/output.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/supervise/supervisor.hpp"
#include "agent/sweep/summary.hpp"
#include "agent/tier/tier.hpp"
#include "agent/units/manager.hpp"
#include "agent/units/settings.hpp"
#include "agent/wire/output.hpp"
#include "agent/wire/verbs.hpp"

namespace spotter::command {

std::optional<int> parsed(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

int follow_log(int argc, char** argv) {
  CLI::App app("Reports the metrics in the log of a trainer that knows nothing of Spotter",
               "spotter follow-log");
  follow::Options options;
  std::string home, csv, json_lines;
  std::vector<std::string> columns;
  app.add_option("--home", home, "where the paths begin")->required();
  auto* which = app.add_option_group("which", "one of the two");
  which->add_option("--csv", csv, "a path or a pattern of paths");
  which->add_option("--json-lines", json_lines, "the same");
  which->require_option(1);
  app.add_option("--column", columns, "OURS=ITS; may be repeated")->allow_extra_args(false);
  app.add_option("--wanted", options.wanted, "our name of a metric that is taken in any case");
  app.add_option("--socket", options.socket, "the agent's, for datagrams")->required();
  app.add_flag("--again", options.again, "the trainer runs already");
  if (const auto over = parsed(app, argc, argv)) return *over;
  options.kind = csv.empty() ? wire::LogKind::JsonLines : wire::LogKind::Csv;
  options.name = csv.empty() ? json_lines : csv;
  options.file = home + "/" + options.name;
  options.curve = home + "/metrics.jsonl";
  for (const std::string& each : columns) {
    const auto equals = each.find('=');
    if (equals != each.npos) options.columns[each.substr(0, equals)] = each.substr(equals + 1);
  }
  return follow::run(options);
}

namespace {

namespace work = act::host;

bool trains_in(const std::string& directory) {
  const auto seen = supervise::look(directory);
  return seen && seen->runs();
}

// In the run directory, or, for a worker's experiments, in one below it.
bool trains(const std::string& directory) {
  if (trains_in(directory)) return true;
  std::error_code ignored;
  for (const auto& below : fs::directory_iterator(directory, ignored))
    if (below.is_directory(ignored) && trains_in(below.path())) return true;
  return false;
}

void release() {
  if (!trains(run_directory_of(act::Environment::of_this_process()))) work::release_metadata();
}

// The agent reports mistakes in job.yaml or its user. A trainer that is running then stays refused.
void refuse(const std::string& file) {
  const auto job = config::load_job(file, config::Environment::of_process());
  if (!job) return release();
  if (job->trainer.imds_allowed) return work::release_metadata();
  const auto user = work::find_user(job->trainer.user);
  if (!user || user->uid == 0 || user->uid == ::geteuid()) return work::release_metadata();
  if (const auto refused = work::refuse_metadata_to(user->uid); !refused)
    spdlog::warn("the metadata service cannot be kept from the trainer's user {}: {}", user->name,
                 refused.error().message);
  if (const auto refused = work::refuse_bound_sockets_to(user->uid); !refused)
    spdlog::info(
        "outside of the trainer's unit the user {} reaches the metadata service by a socket "
        "that is bound to a device: {}",
        user->name, refused.error().message);
}

constexpr std::size_t largest = 4U << 20;  // of a history, and a status

struct PublishOptions {
  std::string to, from, name, job;
  std::optional<std::uint64_t> resumed;
  bool history = false, status = false, output = false;
  int patience = 20'000;  // ms
};

int give_up(const std::string& words) {
  std::fprintf(stderr, "%s\n", words.c_str());
  return 1;
}

// Uploads the file, if it exists.
std::optional<std::string> put(s3::Client& client, const std::string& file,
                               const wire::S3Location& to, std::size_t most = largest) {
  const auto bytes = io::read_file(file, most);
  if (!bytes && bytes.error() == std::errc::no_such_file_or_directory) return std::nullopt;
  if (!bytes) return "cannot read " + file + ": " + bytes.error().message();
  const auto written = s3::put(client, to, *bytes);
  if (!written) return written.error().text();
  return std::nullopt;
}

// What the trainer prints: the pieces in the run directory (wire/output.hpp).

constexpr const char* sent_name = "output-sent.json";
constexpr std::size_t largest_piece = 2 * wire::OutputPieces::piece_bytes;

struct Piece {
  std::string name, bytes, state;
  wire::OutputName parsed;
  std::uint64_t number = 0;
};

// The time of its last change and its size: the same again is the same piece.
std::string state_of(const std::string& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return {};
  return std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec) +
         ":" + std::to_string(status.st_size);
}

// The pieces that S3 does not have yet, in the order in which they were written.
std::vector<Piece> pieces_to_send(const fs::path& folder, const std::string& job,
                                  const wire::Json& sent) {
  std::vector<Piece> pieces;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    Piece piece{at->path().filename().string(), "", state_of(at->path().string()), {}, 0};
    const auto name = wire::parse_output_name(piece.name);
    if (!name || wire::text_field(sent, piece.name.c_str()) == piece.state) continue;
    auto bytes = io::read_file(at->path(), largest_piece);
    const auto parsed = bytes ? wire::parse_output(*bytes) : std::nullopt;
    if (!parsed || parsed->job != job) continue;
    piece.bytes = std::move(*bytes);
    piece.parsed = *name;
    piece.number = parsed->number;
    pieces.push_back(std::move(piece));
  }
  std::ranges::sort(pieces, {},
                    [](const Piece& it) { return std::pair(it.parsed.attempt, it.number); });
  return pieces;
}

// A later piece is not put before an earlier one: a reader who sees it knows that the others are
// whole.
std::optional<std::string> put_output(s3::Client& client, const PublishOptions& options,
                                      const wire::S3Location& below) {
  const supervise::RunDirectory directory(options.from);
  const std::string folder = directory.file(supervise::output_name);
  const auto known = io::read_file(directory.file(sent_name), largest);
  const auto read = wire::parse_json_object(known ? *known : "{}");
  const wire::Json sent = read ? *read : wire::Json::object();
  wire::Json now = wire::Json::object();
  for (const auto& [name, state] : sent.items())
    if (std::error_code error; fs::exists(folder + "/" + name, error)) now[name] = state;
  const std::string instance = options.name.substr(options.name.find('-') + 1);
  std::optional<std::string> wrong;
  for (const Piece& piece : pieces_to_send(folder, options.job, sent)) {
    const std::string name =
        wire::to_text({piece.parsed.attempt + "-" + instance, piece.parsed.slot});
    const auto put = s3::put(client, {below.bucket, below.key + "output/" + name}, piece.bytes);
    if (!put) wrong = put.error().text();
    if (!put) break;
    now[piece.name] = piece.state;
  }
  if (now != sent) (void)directory.replace(sent_name, wire::json_text(now));
  return wrong;
}

// The status last, as it refers to the others.
int write(const PublishOptions& options) {
  const auto place = wire::parse_s3_url(options.to);
  if (!place) return give_up(place.error().message);
  s3::Client client({.environment = act::Environment::of_this_process(),
                     .patience = std::chrono::milliseconds(options.patience)});
  const auto below = [&](const std::string& key) {
    return wire::S3Location{place->bucket, place->key + key};
  };
  // An earlier child may still be writing: its data are older.
  const int lock =
      ::open((options.from + "/publish.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0 || ::flock(lock, LOCK_EX) != 0)
    return give_up("cannot lock " + options.from + "/publish.lock");
  // A curve that cannot be kept must not make the status look as if the agent were gone.
  int outcome = 0;
  if (options.output)
    if (const auto wrong = put_output(client, options, *place)) outcome = give_up(*wrong);
  const std::string curve = options.from + "/curve.jsonl";
  const std::string news{std::istreambuf_iterator<char>(std::cin), {}};
  if (!news.empty() || options.resumed) {
    const auto kept =
        act::host::keep_metrics(curve, news, options.resumed, supervise::private_mode);
    const auto wrong = !kept ? std::optional(kept.error().message)
                             : put(client, curve, below("metrics/" + options.name + ".jsonl"),
                                   sweep::metrics_limit);
    if (wrong) outcome = give_up(*wrong);
  }
  if (options.history) {
    const auto to = below("history/" + options.name + ".jsonl");
    if (const auto wrong = put(client, options.from + "/history.jsonl", to)) return give_up(*wrong);
  }
  if (!options.status) return outcome;
  const auto wrong = put(client, options.from + "/status.json", below("status.json"));
  return wrong ? give_up(*wrong) : outcome;
}

// A file, or - for stdin. Somewhat more than a spec may have, so that parse_spec() says so.
Result<std::string> read_all(const std::string& name) {
  const io::Descriptor file(name == "-" ? ::dup(0) : ::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return failure("cannot open the spec " + name + ": " + std::strerror(errno));
  std::string text;
  TRY(behind("cannot read the spec " + name,
             io::each_piece(file.get(), [&](std::string_view piece) {
               return text.append(piece).size() <= supervise::spec_size_limit;
             })));
  return text;
}

constexpr int not_fetched_status = 74;  // EX_IOERR, as of `spotter pipe`
constexpr int stopped_status = 75;      // of a trainer that was asked to stop, and can go on

struct TierOptions {
  tier::Options tier;
  std::string mount, to, as;
  std::vector<std::string> command;
};

// Gives up root for good, in all three ids: anyone who may write to S3 there may have written what
// comes from it.
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

using supervise::Descriptor;
using units::Manager;

constexpr int tries_to_start = 50;  // a unit of that name may just be ending
constexpr useconds_t microseconds_between = 100'000;

constexpr std::size_t longest_answer = 64U << 20;

// A file of root's alone that is gone when this is.
class Scratch : Pinned {
 public:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  ~Scratch() { ::unlink(path_.c_str()); }

  const std::string& path() const { return path_; }
  Result<void> write(std::string_view bytes) const {
    return behind("cannot write " + path_, io::replace_file(path_, bytes, 0600));
  }
  std::string read() const { return io::read_file(path_, longest_answer).value_or(""); }

 private:
  std::string path_;
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
  const auto ran = TRY(act::host::run_tool(tool, "systemd"));
  if (ran.status == 0) return {};
  return failure("systemd does not start " + request.unit + ": " + act::host::last_words(ran));
}

// The unit is being started, or why it is not.
Result<void> begin(Manager& manager, const Request& request) {
  for (int tries = 0; tries < tries_to_start && manager.is_loaded(request.unit); ++tries)
    usleep(microseconds_between);
  return try_to_begin(request);
}

void look_up_user(units::TrainerPlace& place) {
  const passwd* entry = getpwnam(place.user.c_str());
  if (entry == nullptr) return;
  std::error_code ignored;  // an older package's user has its files in its home
  const bool is_others = entry->pw_dir != supervise::packages_home;
  if (is_others && fs::is_directory(entry->pw_dir, ignored)) place.users_home = entry->pw_dir;
  if (entry->pw_uid != 0)
    place.owner = std::to_string(entry->pw_uid) + ":" + std::to_string(entry->pw_gid);
}

Result<int> start_trainer(units::TrainerPlace place) {
  const Descriptor asked = until_asked();
  look_up_user(place);
  place.program = own_program();
  const Scratch spec(place.run_directory + "/trainer.spec");
  const Scratch report(place.run_directory + "/trainer.report");
  const auto text = TRY(read_all("-"));
  TRY(spec.write(text));
  TRY(report.write(""));
  const auto manager = TRY(Manager::connect());
  const Request request{units::trainer_unit(place.name),
                        {own_program(), "supervise", "--run-directory", place.run_directory,
                         "--spec", spec.path(), "--report", report.path()},
                        units::of_trainer(place)};
  TRY(begin(*manager, request));
  const std::string how = manager->wait(request.unit, asked.get());
  if (how.empty()) return failure("given up while " + request.unit + " started");
  const std::string said = report.read();
  if (said.empty())
    return failure(request.unit + ": " + how + "; see journalctl -u " + request.unit);
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
  Descriptor never, open_end;
  if (!io::make_pipe(never, open_end)) return;
  (void)manager.wait(request.unit, never.get());
}

// Keeps a mount until the agent has stopped, when the system stops. If this fails, the mount is
// used all the same.
void anchor(const std::string& place) {
  if (!place.empty())
    (void)try_to_begin({units::anchor_unit(place), {"/bin/true"}, units::of_anchor(place)});
}

// A text that is no request is refused by the process that is to do it.
Result<int> do_verb(const VerbOptions& options) {
  const Descriptor asked = until_asked();
  const std::string json{std::istreambuf_iterator<char>(std::cin), {}};
  const auto wanted = verbs::parse_request(json);
  const bool leaves_processes = wanted && verbs::traits_of(wanted->verb).leaves_processes;
  const std::string name = options.run_directory + "/host-" + std::to_string(getpid());
  const Scratch answer(name + ".answer"), asked_for(name + ".request");
  TRY(answer.write(""));
  TRY(asked_for.write(to_bytes({getpid(), answer.path(), environment_of_this_process(), json})));
  const auto manager = TRY(Manager::connect());
  const Request request{"spotter-host-" + std::to_string(getpid()) + ".service",
                        {own_program(), "host", "--request", asked_for.path()},
                        units::of_verb(std::chrono::milliseconds(options.limit), leaves_processes)};
  TRY(begin(*manager, request));
  const std::string how = manager->wait(request.unit, asked.get());
  if (how.empty()) {
    give_up(*manager, request);
    return 1;
  }
  const std::string words = answer.read();
  if (wanted && words.find(R"("ok":true)") != words.npos) anchor(verbs::mounts_on(wanted->verb));
  std::cout << words << std::flush;
  if (words.empty()) return failure(request.unit + ": " + how + "; see journalctl");
  return 0;
}

int print(const units::TrainerPlace& place) {
  std::cout << units::to_unit_file(units::of_trainer(place), "/usr/bin/spotter supervise");
  return 0;
}

}  // namespace

int metadata(int argc, char** argv) {
  CLI::App app("Keeps the trainer's user from the instance metadata service", "spotter metadata");
  std::string file = "/etc/spotter/job.yaml";
  app.add_option("--job", file);
  app.require_subcommand(1);
  app.add_subcommand("refuse")->callback([&] { refuse(file); });
  app.add_subcommand("release")->callback(release);
  io::set_up_log();
  if (const auto over = parsed(app, argc, argv)) return *over;
  return 0;
}

int publish(int argc, char** argv) {
  PublishOptions options;
  CLI::App app("Writes what the agent has to tell to S3, once", "spotter publish");
  app.add_option("--to", options.to, "s3://bucket/prefix/NAME/")->required();
  app.add_option("--from", options.from, "the agent's directory")->required();
  app.add_option("--name", options.name, "of this agent's history")->required();
  app.add_option("--resumed", options.resumed, "the step from which the trainer resumed");
  app.add_flag("--history", options.history, "it has grown");
  app.add_flag("--status", options.status, "it is the job's");
  auto* output = app.add_flag("--output", options.output, "what the trainer prints");
  app.add_option("--job", options.job, "whose that is")->needs(output);
  app.add_option("--patience", options.patience, "for each call, in ms");
  if (const auto over = parsed(app, argc, argv)) return *over;
  return write(options);
}

int supervise(int argc, char** argv) {
  CLI::App app("Starts a trainer and stays behind as its parent; returns once the trainer runs",
               "spotter supervise");
  std::string directory;
  std::string spec_name;
  app.add_option("--run-directory", directory, "where lock, socket and results are")->required();
  app.add_option("--spec", spec_name, "what to run, as JSON: a file, or - for stdin")->required();
  std::string report;
  app.add_option("--report", report,
                 "be the parent, as a systemd service: the file that gets the result of the start; "
                 "the spec's file is removed");
  if (const auto over = parsed(app, argc, argv)) return *over;
  const auto text = read_all(spec_name);
  if (!text) return io::complain("supervise", text.error().message, 2);
  const auto spec = supervise::parse_spec(*text);
  if (!spec) return io::complain("supervise", spec.error().message, 2);
  std::error_code ignored;
  if (!report.empty()) {
    fs::remove(spec_name, ignored);  // it holds secrets
    return supervise::run_as_service(directory, *spec, report);
  }
  const auto absolute = fs::absolute(directory, ignored).string();
  const auto started = supervise::start(absolute, *spec);
  if (started) return 0;
  return io::complain("supervise", started.error().message,
                      supervise::exit_status(started.error()));
}

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

int requested_verb(const std::string& file) {
  const auto json = take_verb_request(file);
  return json ? do_request(*json) : io::complain("unit", json.error().message);
}

int unit(int argc, char** argv) {
  CLI::App app("Asks systemd to run a process of ours as a service", "spotter unit");
  app.require_subcommand(1);
  units::TrainerPlace place;
  VerbOptions verb;
  int status = 0;
  auto* start = app.add_subcommand("trainer");
  std::int64_t grace = 0;
  start->callback([&] {
    place.grace = std::chrono::seconds(grace);
    status = io::ended("unit", start_trainer(place));
  });
  start->add_option("--run-directory", place.run_directory)->required();
  start->add_option("--name", place.name)->required();
  start->add_option("--home", place.home)->required();
  start->add_option("--user", place.user)->required();
  start->add_option("--memory-max", place.memory_max);
  start->add_option("--cpu-quota", place.cpu_quota);
  start->add_option("--cpu-weight", place.cpu_weight);
  start->add_option("--views-folder", place.views_folder);
  start->add_option("--view", place.views);
  start->add_flag("--refuse-metadata", place.refuses_metadata);
  start->add_option("--grace", grace, "seconds");
  auto* host = app.add_subcommand("host");
  host->callback([&] { status = io::ended("unit", do_verb(verb)); });
  host->add_option("--run-directory", verb.run_directory)->required();
  host->add_option("--limit", verb.limit, "milliseconds");
  app.add_subcommand("print")->callback([&] {
    status = print({.name = "job",
                    .run_directory = "/run/spotter",
                    .home = "/mnt/spotter",
                    .refuses_metadata = true});
  });
  if (const auto over = parsed(app, argc, argv)) return *over;
  return status;
}

}  // namespace spotter::command
