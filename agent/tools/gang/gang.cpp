#include "agent/tools/gang/gang.hpp"

#include <sysexits.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string_view>

#include "agent/base/exit_status.hpp"
#include "agent/tools/gang/gang_home.hpp"
#include "agent/tools/gang/gang_process.hpp"

namespace spotter::command {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds notice_every{200};
constexpr int most_launches = 3;  // in succession that ask for no round
// To take its name from the record, when it leaves.
constexpr Duration patience_to_go{5'000};
// From its workers' end until it asks for the next round.
constexpr Duration patience_with_torchrun{20'000};
// From the start of a later one until it asks, beside twice the time that the first one took.
constexpr Duration patience_with_launch{600'000};
// torchrun counts each new round as a restart, whoever is the reason; it is the record that says
// when a trainer fails too often.
constexpr const char* restarts = "1000000";
constexpr const char* look_every = "0.3";  // at its workers; torchrun's own default is 5 s

}  // namespace

void say_of_gang(const std::string& words) {
  std::fprintf(stderr, "spotter gang: %s\n", words.c_str());
}

int GangProcess::run() {
  if (const auto failed = server_.open(0)) {
    say_of_gang("cannot listen on 127.0.0.1: " + failed.message());
    return EX_OSERR;
  }
  if (notice_.path().empty()) {
    say_of_gang("cannot make a folder in $TMPDIR or /tmp");
    return EX_CANTCREAT;
  }
  if (options_.copy_every > 0) {
    const char* const set = std::getenv("SPOTTER_GANG_MEMORY");
    const std::string memory = set != nullptr && *set != 0 ? set : "/dev/shm";
    const GangFolder::Named copies{memory + "/spotter-gang-" + options_.job + "-" + options_.name};
    copies_.emplace(copies);
    if (copies_->path().empty())
      say_of_gang("no copies of the state on this machine: cannot make " + copies.path +
                  ", or another process has it");
    reporter_.copies_in(copies_->path());
  }
  await_signal();
  launch();
  tick();
  context_.run();
  return status_;
}

void GangProcess::await_signal() {
  signals_.async_wait([this](boost::system::error_code error, int) {
    if (error) return;
    // With a notice its file says more, which was written before the signal.
    look_for_notice();
    if (!own_) own_ = StopBy{};
    participant_.leave(own_->by.value_or(gang_now()));
    await_signal();
  });
}

void GangProcess::look_for_notice() {
  looked_for_notice_ = gang_now();
  // The agent may write another one, which leaves less time.
  const auto notice = read_notice(agents_notice_);
  if (!notice) return;
  if (!own_) say_of_gang("this machine leaves");
  own_ = earlier(own_, notice);
  participant_.leave(own_->by.value_or(gang_now()));
}

void GangProcess::launch() {
  ended_.reset();
  refused_ = false;
  torchrun_ = 0;
  ++launches_;
  launched_at_ = gang_now();
  participant_.idle();
  const std::string endpoint = "127.0.0.1:" + std::to_string(server_.port());
  std::map<std::string, std::string> variables = {
      {"SPOTTER_NOTICE_FILE", notice_.path()},
      {"SPOTTER_GANG_TOKEN", token_},
      {"SPOTTER_GANG_MEMBER", options_.name},
      {"SPOTTER_GANG_RANKS", ranks_.folder()},
      {"PET_RDZV_BACKEND", "spotter"},
      {"PET_RDZV_ENDPOINT", endpoint},
      {"PET_RDZV_ID", options_.job},
      {"PET_NNODES", std::to_string(options_.min) + ":" + std::to_string(options_.size)},
      {"PET_MAX_RESTARTS", restarts}};
  if (copies_) {
    variables["SPOTTER_GANG_COPIES"] = copies_->path();
    variables["SPOTTER_GANG_COPY_EVERY"] = std::to_string(options_.copy_every);
  }
  const std::string checkpoints = options_.home + "/" + options_.checkpoints;
  for (const auto& [name, value] :
       {std::pair<const char*, std::string>{"PET_NPROC_PER_NODE", options_.processes},
        {"PET_MONITOR_INTERVAL", look_every},
        {"SPOTTER_STORAGE", options_.home},
        {"SPOTTER_CHECKPOINTS", checkpoints}})
    if (std::getenv(name) == nullptr) variables[name] = value;
  if (const auto started = launcher_.start(variables); !started) {
    say_of_gang(started.error().message);
    end(EX_OSERR);
  }
}

void GangProcess::launcher_ended(int status) {
  // This one has a meaning of its own. That it was killed says nothing of the trainer.
  ended_ = status == give_machine_back || in_vain_ ? 1 : status;
  ++asked_;
  if (std::exchange(again_, false) && !participant_.refuses()) launch();
}

// The gang is done when its leader's torchrun has ended well, and the result is there.
bool GangProcess::ended_well() {
  if (*ended_ != 0 || !participant_.leads()) return *ended_ == 0;
  const auto there = options_.result.empty()
                         ? std::optional(true)
                         : result_is_there(options_.home + "/" + options_.result);
  if (there && *there) participant_.finished();
  if (!there || *there) return true;  // one that cannot be looked for is looked for again
  say_of_gang("torchrun ended well without " + options_.home + "/" + options_.result);
  ended_ = 1;
  return false;
}

// What becomes of this machine once torchrun has ended.
void GangProcess::decide_end() {
  if (!ended_ || go_until_) return;
  if (participant_.is_foreign()) {
    say_of_gang(
        "the record at " + options_.at + "gang is another job's of the name " + options_.job +
        ", or this one's in another folder: give one of them another name, or another prefix in "
        "gang.at; if the other is no more, delete that object");
    return end(EX_CONFIG);
  }
  if (participant_.is_done()) return end(0);
  if (*ended_ == 0 && !has_asked_) {
    say_of_gang(
        "the command ended without torchrun having asked for a round: each machine would have "
        "trained alone. It must run torchrun, or be a program of Python (man spotter-gang)");
    participant_.go();
    return end(EX_CONFIG);
  }
  const bool well = ended_well();
  // Its part is done. Until the leader's is, the gang may need it again.
  const bool waits = well && !participant_.is_leaving() && !participant_.must_end(gang_now());
  if (waits) return;
  // Also where torchrun failed once it was in a round: a machine that is gone takes the store with
  // it, or never comes to the meeting. Who fails by itself is counted by the record, or never asks.
  const bool again = (well || participant_.round() != 0) && launches_ <= most_launches;
  if (again && !participant_.refuses()) {
    say_of_gang("torchrun ended with its round: starting it again");
    return launch();
  }
  if (participant_.is_given_back())
    say_of_gang("twice a round ended because of this machine: it is to be given back");
  participant_.go();
  go_until_ = gang_now() + patience_to_go;
}

void GangProcess::tick() {
  if (gang_now() - looked_for_notice_ >= notice_every) look_for_notice();
  if (auto ask = participant_.next(gang_now())) clerk_.carry_out(*std::move(ask), participant_);
  launcher_.reap();
  keep_round();
  watch_launch();
  watch_refused();
  watch_ranks();
  const bool asks = asked_ != placed_ && !ended_ && !participant_.refuses();
  reporter_.report(gang_now(), participant_, asks);
  tell(participant_.must_stop());
  decide_end();
  if (go_until_ && (participant_.is_gone() || gang_now() >= *go_until_))
    return end(participant_.is_done()         ? 0
               : participant_.is_leaving()    ? EX_TEMPFAIL
               : participant_.is_given_back() ? give_machine_back
                                              : *ended_);
  timer_.expires_after(gang_tick);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) tick();
  });
}

// The workers of a round that is over are ended; and torchrun, where it does not ask for the next
// one even so: it waits for a machine that is gone.
void GangProcess::keep_round() {
  const auto why = participant_.must_end(gang_now());
  if (!why) ending_.reset();
  if (!why || ended_) return;
  if (!ending_) {
    ending_ = gang_now();
    say_of_gang(*why + ": ending this machine's workers");
    if (!end_) end_ = gang::End::Ended;
    end_workers();
  } else if (gang_now() - *ending_ >= patience_with_torchrun && !again_) {
    say_of_gang("torchrun does not ask for the next round: starting it again");
    again_ = true;
    launcher_.kill();
  }
}

// One that is started again, and hangs before it asks for a round, would be paid for ever. The
// first one may fetch its data for as long as it takes.
void GangProcess::watch_launch() {
  const Duration patience = patience_with_launch + 2 * launch_took_;
  if (ended_ || !has_asked_ || launches_ == 0 || gang_now() - launched_at_ < patience) return;
  say_of_gang("the command has not asked for a round for " +
              std::to_string(patience.count() / 1000) + " s: ending it");
  launched_at_ = gang_now();
  again_ = launches_ <= most_launches;
  launcher_.kill();
}

// A shell that starts torchrun again and again would keep this machine a member, and its gang would
// give back no other. One whose gang is done may still work; its own time is watched above.
void GangProcess::watch_refused() {
  const bool waits = !participant_.is_done() || refused_;
  const bool in_vain = !ended_ && participant_.refuses() && !participant_.is_leaving() && waits;
  if (!patience_.is_over(gang_now(), in_vain)) return;
  say_of_gang("the command goes on although no round will have this machine: ending it");
  in_vain_ = true;
  launcher_.kill();
}

// Where none does a step for long, whose fault it is, and the round is made again.
void GangProcess::watch_ranks() {
  if (options_.stall == 0 || gang_now() - looked_at_ranks_ < Duration(1'000)) return;
  looked_at_ranks_ = gang_now();
  if (ended_ || torchrun_ == 0 || asked_ != placed_ || participant_.is_over(participant_.round()))
    return stall_.rest();
  const auto ranks = ranks_.look();
  const auto turn = stall_.look(gang_now(), ranks);
  if (turn == gang::StallWatch::Turn::Ask)
    return ranks_.ask([this](pid_t pid) { return launcher_.has(pid); });
  if (turn == gang::StallWatch::Turn::Nothing) return;
  say_of_gang("no step for " + std::to_string(options_.stall / 1000) + " s: this machine " +
              stall_.words());
  for (const gang::RankSeen& each : ranks)
    if (!each.stack.empty())
      say_of_gang("local rank " + std::to_string(each.local) + " at step " +
                  std::to_string(each.step) + ":\n" + each.stack);
  reporter_.hangs(stall_.words());
  end_ = stall_.end();
  end_workers();
}

// Another process may have the number of a torchrun that has ended.
void GangProcess::end_workers() {
  if (torchrun_ != 0 && launcher_.has(torchrun_)) GangLauncher::end_workers(torchrun_);
}

// To the workers; and to a person, once.
void GangProcess::tell(const std::optional<gang::Stop>& stop) {
  notice_.say(earlier(own_, stop ? std::optional(StopBy{stop->by}) : std::nullopt));
  const std::string words = stop ? stop->why : "";
  if (words != said_ && !words.empty()) say_of_gang(words);
  said_ = words;
}

namespace {

int run_gang(GangOptions options) {
  char host[256] = {};
  if (options.name.empty() && ::gethostname(host, sizeof host - 1) == 0) options.name = host;
  auto at = wire::parse_s3_url(options.at);
  if (!at) {
    say_of_gang("--at: " + at.error().message);
    return wrong_input;
  }
  const auto id = gang_home(options.home, options.checkpoints);
  if (!id) {
    say_of_gang(id.error().message);
    return EX_CANTCREAT;
  }
  at->key += "gang";
  gang::Settings settings{.job = *id,
                          .id = options.name + "-" + io::random_hex(8),
                          .name = options.name,
                          .address = own_address(),
                          .size = options.size,
                          .min = options.min,
                          .replaced = options.replaced,
                          .lease = Duration(options.lease)};
  settings.margin = std::min(settings.margin, settings.lease / 4);
  return GangProcess(std::move(options), *std::move(at), std::move(settings)).run();
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
  app.add_flag("--replaced", options.replaced, "a fleet launches another machine in its place");
  app.add_option("--lease", options.lease, "in ms");
  app.add_option("--stall", options.stall,
                 "in ms: so long without a step is a hang; 0: not watched")
      ->check(CLI::NonNegativeNumber)
      ->envname("SPOTTER_GANG_STALL");
  app.add_option("--copy-every", options.copy_every,
                 "in steps: copies of the state in the memory of all machines; 0: none")
      ->envname("SPOTTER_GANG_COPY_EVERY");
  app.add_option("--home", options.home, "the folder that all have in common")->required();
  app.add_option("--checkpoints", options.checkpoints, "below it");
  app.add_option("--result", options.result, "below it: without it the gang is not done");
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
