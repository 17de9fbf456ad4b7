#include "agent/tools/gang/gang.hpp"

#include <sysexits.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "agent/base/exit_status.hpp"
#include "agent/io/local_server.hpp"
#include "agent/io/random.hpp"
#include "agent/tools/gang/gang_clerk.hpp"
#include "agent/tools/gang/gang_home.hpp"
#include "agent/tools/gang/gang_launcher.hpp"
#include "agent/tools/gang/gang_notice.hpp"

namespace spotter::command {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds tick_every{50};
constexpr milliseconds notice_every{200};
constexpr int most_launches = 3;  // in succession that ask for no round
// To take its name from the record, when it leaves.
constexpr Duration patience_to_go{5'000};
// From its workers' end until it asks for the next round.
constexpr Duration patience_with_torchrun{20'000};
// torchrun counts each new round as a restart, whoever is the reason; it is the record that says
// when a trainer fails too often.
constexpr const char* restarts = "1000000";
constexpr const char* look_every = "0.3";  // at its workers; torchrun's own default is 5 s

void say(const std::string& words) { std::fprintf(stderr, "spotter gang: %s\n", words.c_str()); }

struct GangOptions {
  std::string at, job, name, home, checkpoints = "checkpoints", processes = "1";
  std::size_t size = 1, min = 1;
  std::int64_t lease = 60'000;
  std::vector<std::string> command;
};

// ?port=4000&pid=17
long number_in(const std::string& target, std::string_view name) {
  const auto at = target.find(std::string(name) + "=");
  long number = -1;
  if (at != target.npos)
    std::from_chars(target.data() + at + name.size() + 1, target.data() + target.size(), number);
  return number;
}

class Gang {
 public:
  Gang(GangOptions options, wire::S3Location at, gang::Settings settings)
      : options_(std::move(options)),
        agents_notice_(std::getenv("SPOTTER_NOTICE_FILE") ? std::getenv("SPOTTER_NOTICE_FILE")
                                                          : ""),
        token_(io::random_hex(32)),
        participant_(std::move(settings)),
        clerk_(context_, std::move(at),
               [](const std::string& what) { say(what.empty() ? "S3 answers again" : what); }),
        launcher_(context_, options_.command, [this](int status) { launcher_ended(status); }),
        server_(context_, [this](io::LocalRequest request) { return answer(std::move(request)); }),
        signals_(context_, SIGTERM, SIGINT, SIGHUP),
        timer_(context_) {
    signals_.add(SIGUSR1);
    signals_.add(SIGUSR2);
  }

  int run();

 private:
  void tick();
  void keep_round();
  void look_for_notice();
  void await_signal();
  void launch();
  void launcher_ended(int status);
  void decide_end();
  void end(int status) {
    status_ = status;
    context_.stop();
  }
  void tell(const std::optional<gang::Stop>& stop);
  asio::awaitable<io::LocalResponse> answer(io::LocalRequest request);
  asio::awaitable<io::LocalResponse> place(std::uint64_t asking);

  asio::io_context context_{1};
  GangOptions options_;
  std::string agents_notice_, token_;
  gang::Participant participant_;
  GangClerk clerk_;
  GangLauncher launcher_;
  io::LocalServer server_;
  asio::signal_set signals_;
  asio::steady_timer timer_;
  GangNotice notice_;

  Time looked_for_notice_{};
  std::optional<StopBy> own_;  // this machine's own notice
  std::string said_;           // the last words about the others
  pid_t torchrun_ = 0;
  std::uint64_t asked_ = 0;     // questions for a round; only the last is answered
  std::optional<int> ended_;    // the launcher's exit status
  std::optional<Time> ending_;  // since when its workers are ended
  bool again_ = false;          // it was killed, to be started again
  bool has_asked_ = false;      // ever, for a round
  int launches_ = 0;            // of torchrun, since one of them asked
  std::optional<Time> go_until_;
  int status_ = EX_SOFTWARE;
};

int Gang::run() {
  if (const auto failed = server_.open(0)) {
    say("cannot listen on 127.0.0.1: " + failed.message());
    return EX_OSERR;
  }
  if (notice_.path().empty()) {
    say("cannot make a folder in $TMPDIR or /tmp");
    return EX_CANTCREAT;
  }
  await_signal();
  launch();
  tick();
  context_.run();
  return status_;
}

void Gang::await_signal() {
  signals_.async_wait([this](boost::system::error_code error, int) {
    if (error) return;
    // With a notice its file says more, which was written before the signal.
    look_for_notice();
    if (!own_) own_ = StopBy{};
    participant_.leave(own_->by.value_or(gang_now()));
    await_signal();
  });
}

void Gang::look_for_notice() {
  looked_for_notice_ = gang_now();
  // The agent may write another one, which leaves less time.
  const auto notice = read_notice(agents_notice_);
  if (!notice) return;
  if (!own_) say("this machine leaves");
  own_ = earlier(own_, notice);
  participant_.leave(own_->by.value_or(gang_now()));
}

void Gang::launch() {
  ended_.reset();
  torchrun_ = 0;
  ++launches_;
  participant_.idle();
  const std::string endpoint = "127.0.0.1:" + std::to_string(server_.port());
  std::map<std::string, std::string> variables = {
      {"SPOTTER_NOTICE_FILE", notice_.path()},
      {"SPOTTER_GANG_TOKEN", token_},
      {"SPOTTER_GANG_MEMBER", options_.name},
      {"PET_RDZV_BACKEND", "spotter"},
      {"PET_RDZV_ENDPOINT", endpoint},
      {"PET_RDZV_ID", options_.job},
      {"PET_NNODES", std::to_string(options_.min) + ":" + std::to_string(options_.size)},
      {"PET_MAX_RESTARTS", restarts}};
  const std::string checkpoints = options_.home + "/" + options_.checkpoints;
  for (const auto& [name, value] :
       {std::pair<const char*, std::string>{"PET_NPROC_PER_NODE", options_.processes},
        {"PET_MONITOR_INTERVAL", look_every},
        {"SPOTTER_STORAGE", options_.home},
        {"SPOTTER_CHECKPOINTS", checkpoints}})
    if (std::getenv(name) == nullptr) variables[name] = value;
  if (const auto started = launcher_.start(variables); !started) {
    say(started.error().message);
    end(EX_OSERR);
  }
}

void Gang::launcher_ended(int status) {
  ended_ = status;
  ++asked_;
  if (std::exchange(again_, false) && !participant_.refuses()) launch();
}

// What becomes of this machine once torchrun has ended.
void Gang::decide_end() {
  if (!ended_ || go_until_) return;
  if (participant_.is_foreign()) {
    say("the record at " + options_.at + "gang is another job's of the name " + options_.job +
        ", or this one's in another folder: give one of them another name, or another prefix in "
        "gang.at; if the other is no more, delete that object");
    return end(EX_CONFIG);
  }
  if (participant_.is_done()) return end(0);
  const bool well = *ended_ == 0;
  if (well && !has_asked_) {
    say("the command ended without torchrun having asked for a round: each machine would have "
        "trained alone. It must run torchrun, or be a program of Python (man spotter-gang)");
    participant_.go();
    return end(EX_CONFIG);
  }
  if (well && participant_.leads()) participant_.finished();
  // Its part is done. Until the leader's is, the gang may need it again.
  const bool waits = well && !participant_.is_leaving() && !participant_.must_end(gang_now());
  if (waits) return;
  // Also where torchrun failed once it was in a round: a machine that is gone takes the store with
  // it, or never comes to the meeting. Who fails by itself is counted by the record, or never asks.
  const bool again = (well || participant_.round() != 0) && launches_ <= most_launches;
  if (again && !participant_.refuses()) {
    say("torchrun ended with its round: starting it again");
    return launch();
  }
  participant_.go();
  go_until_ = gang_now() + patience_to_go;
}

void Gang::tick() {
  if (gang_now() - looked_for_notice_ >= notice_every) look_for_notice();
  if (auto ask = participant_.next(gang_now())) clerk_.carry_out(*std::move(ask), participant_);
  keep_round();
  tell(participant_.must_stop());
  decide_end();
  if (go_until_ && (participant_.is_gone() || gang_now() >= *go_until_))
    return end(participant_.is_done() ? 0 : participant_.is_leaving() ? EX_TEMPFAIL : *ended_);
  timer_.expires_after(tick_every);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) tick();
  });
}

// The workers of a round that is over are ended; and torchrun, where it does not ask for the next
// one even so: it waits for a machine that is gone.
void Gang::keep_round() {
  const auto why = participant_.must_end(gang_now());
  if (!why) ending_.reset();
  if (!why || ended_) return;
  if (!ending_) {
    ending_ = gang_now();
    say(*why + ": ending this machine's workers");
    if (torchrun_ != 0) GangLauncher::end_workers(torchrun_);
  } else if (gang_now() - *ending_ >= patience_with_torchrun && !again_) {
    say("torchrun does not ask for the next round: starting it again");
    again_ = true;
    launcher_.kill();
  }
}

// To the workers; and to a person, once.
void Gang::tell(const std::optional<gang::Stop>& stop) {
  notice_.say(earlier(own_, stop ? std::optional(StopBy{stop->by}) : std::nullopt));
  const std::string words = stop ? stop->why : "";
  if (words != said_ && !words.empty()) say(words);
  said_ = words;
}

asio::awaitable<io::LocalResponse> Gang::answer(io::LocalRequest request) {
  if (request.authorization != "Bearer " + token_) co_return io::LocalResponse{403, "{}"};
  if (request.target.starts_with("/over?")) {
    const bool over = participant_.is_over(
        static_cast<std::uint64_t>(std::max(number_in(request.target, "round"), 0L)));
    co_return io::LocalResponse{200, nlohmann::json{{"over", over}}.dump()};
  }
  const long port = number_in(request.target, "port");
  const auto torchrun = static_cast<pid_t>(number_in(request.target, "pid"));
  if (!request.target.starts_with("/round?") || port < 1 || port > UINT16_MAX)
    co_return io::LocalResponse{404, "{}"};
  // Only its own children are ended: never a process that a number happens to name.
  torchrun_ = launcher_.has(torchrun) ? torchrun : 0;
  has_asked_ = true;
  launches_ = 0;
  const std::uint64_t asking = ++asked_;
  participant_.ready(static_cast<std::uint16_t>(port),
                     newest_step(options_.home + "/" + options_.checkpoints));
  auto placing = place(asking);
  co_return co_await std::move(placing);
}

asio::awaitable<io::LocalResponse> Gang::place(std::uint64_t asking) {
  asio::steady_timer timer(context_);
  const Time since = gang_now();
  std::string said;
  for (;;) {
    if (asking != asked_) co_return io::LocalResponse{410, R"({"error": "asked again"})"};
    if (participant_.refuses()) {
      const char* why = participant_.is_done()      ? "the gang's result is there"
                        : participant_.is_leaving() ? "this machine leaves"
                        : participant_.is_foreign() ? "the record is another job's"
                                                    : "the trainer has failed again and again";
      co_return io::LocalResponse{409, nlohmann::json{{"error", why}}.dump()};
    }
    if (const auto place = participant_.place()) {
      say("round " + std::to_string(place->round) + ": machine " + std::to_string(place->rank) +
          " of " + std::to_string(place->size) + ", after " +
          std::to_string((gang_now() - since).count()) + " ms");
      co_return io::LocalResponse{200, nlohmann::json{{"round", place->round},
                                                      {"rank", place->rank},
                                                      {"size", place->size},
                                                      {"leader", place->leader},
                                                      {"port", place->port}}
                                           .dump()};
    }
    const std::string waits = participant_.waits_for();
    if (waits != said && gang_now() - since > Duration(2'000)) say("waiting for " + (said = waits));
    timer.expires_after(tick_every);
    boost::system::error_code ignored;
    auto waiting = timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    co_await std::move(waiting);
  }
}

int run_gang(GangOptions options) {
  char host[256] = {};
  if (options.name.empty() && ::gethostname(host, sizeof host - 1) == 0) options.name = host;
  auto at = wire::parse_s3_url(options.at);
  if (!at) {
    say("--at: " + at.error().message);
    return wrong_input;
  }
  const auto id = gang_home(options.home, options.checkpoints);
  if (!id) {
    say(id.error().message);
    return EX_CANTCREAT;
  }
  at->key += "gang";
  gang::Settings settings{.job = *id,
                          .id = options.name + "-" + io::random_hex(8),
                          .name = options.name,
                          .address = own_address(),
                          .size = options.size,
                          .min = options.min,
                          .lease = Duration(options.lease)};
  settings.margin = std::min(settings.margin, settings.lease / 4);
  return Gang(std::move(options), *std::move(at), std::move(settings)).run();
}

}  // namespace

int gang(int argc, char** argv) {
  CLI::App app("Runs torchrun on one machine of a gang", "spotter gang");
  GangOptions options;
  app.add_option("--at", options.at, "s3://bucket/prefix/ of its record")->required();
  app.add_option("--job", options.job, "the job's name")->required();
  app.add_option("--name", options.name, "this machine's; default: its host name");
  app.add_option("--size", options.size, "machines, when all are there")->required();
  app.add_option("--min", options.min, "fewer do not train")->required();
  app.add_option("--lease", options.lease, "in ms");
  app.add_option("--home", options.home, "the folder that all have in common")->required();
  app.add_option("--checkpoints", options.checkpoints, "below it");
  app.add_option("--processes", options.processes, "on this machine: a number, or gpu");
  // CLI11 would take words of a command in brackets for lists.
  char** const end = std::find_if(argv, argv + argc,
                                  [](const char* word) { return std::string_view(word) == "--"; });
  if (end < argv + argc) options.command.assign(end + 1, argv + argc);
  try {
    app.parse(static_cast<int>(end - argv), argv);
    if (options.command.empty()) throw CLI::RequiredError("a command behind --");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : wrong_input;
  }
  return run_gang(std::move(options));
}

}  // namespace spotter::command
