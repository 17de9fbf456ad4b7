#include "agent/commands/gang/gang.hpp"

#include <sysexits.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "agent/aws/s3_client.hpp"
#include "agent/commands/gang/gang_files.hpp"
#include "agent/commands/gang/gang_launcher.hpp"
#include "agent/gang/participant.hpp"
#include "agent/io/asio.hpp"
#include "agent/io/kernel.hpp"
#include "agent/io/local_server.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/wire/datagram.hpp"

namespace spotter::command {
namespace {

using std::chrono::milliseconds;

// The next look settles what was not answered; a beat has to fit between two of a lease.
constexpr Duration patience_with_s3{3'000};
// The client's own patience ends between two tries: one on a connection that says nothing more
// would take 20 s.
constexpr Duration longest_request{5'000};

// Carries out what a Participant asks of S3, one request at a time.
class GangClerk {
 public:
  // `say`: what is wrong with S3, for a person; once for each trouble, empty when it is over.
  GangClerk(asio::io_context& context, wire::S3Location where,
            std::function<void(const std::string&)> say)
      : context_(context),
        say_(std::move(say)),
        s3_(patience_with_s3),
        record_(s3_, std::move(where)) {}

  // `participant` gets the answer, later. REQUIRES: the one before was answered; it outlives this.
  void carry_out(gang::Ask ask, gang::Participant& participant) {
    auto* const wanted = std::get_if<gang::Write>(&ask);
    asio::co_spawn(context_,
                   wanted != nullptr ? write(std::move(*wanted), participant) : look(participant),
                   io::rethrow);
  }

 private:
  asio::awaitable<void> write(gang::Write wanted, gang::Participant& participant) {
    auto writing = record_.write(gang::to_json(wanted.record), wanted.etag, longest_request);
    const auto written = co_await std::move(writing);
    if (!written) {
      trouble(written.error().text());
      participant.unanswered(io::now());  // it may still be done, at any time
    } else if (*written) {
      participant.wrote(io::now(), **written);
    } else {
      participant.refused(io::now());
    }
  }

  asio::awaitable<void> look(gang::Participant& participant) {
    auto reading = record_.read(longest_request);
    const auto version = co_await std::move(reading);
    std::optional<gang::Seen> seen;
    std::string wrong = version ? "" : version.error().text();
    if (version && version->exists()) {
      auto record = gang::parse_record(version->text);
      if (!record) wrong = wire::to_url(record_.where()) + ": " + record.error().message;
      if (record) seen = gang::Seen{*std::move(record), version->etag};
    }
    trouble(wrong);
    wrong.empty() ? participant.looked(io::now(), std::move(seen))
                  : participant.unanswered(io::now());
  }

  void trouble(const std::string& what) {
    if (what.empty() == trouble_.empty()) return;
    trouble_ = what;
    say_(what);
  }

  asio::io_context& context_;
  std::function<void(const std::string&)> say_;
  act::S3Client s3_;
  act::Register record_;
  std::string trouble_;
};

constexpr Duration again_every{10'000};

// An agent that takes nothing just now gets the next one.
constexpr std::chrono::milliseconds patience_with_the_agent{5};

// Reports this machine's gang to its agent, in datagrams to $NOTIFY_SOCKET. Does nothing without an
// agent.
class GangReporter {
 public:
  GangReporter() {
    if (const char* socket = std::getenv("NOTIFY_SOCKET"); socket != nullptr) socket_ = socket;
  }

  // To be called at each turn. `asks`: the launcher waits for a round. Sends what has changed, and
  // now and then what has not: the agent may have been started again, and its times pass.
  void report(Time now, const gang::Participant& participant, bool asks) {
    wire::GangReport report = accountant_.look(now, participant, asks);
    if (socket_.empty()) return;
    const bool due = !said_at_ || now - *said_at_ >= again_every;
    said_.trained = report.trained;
    said_.between = report.between;
    if (!due && report == said_) return;
    said_ = report;
    said_at_ = now;
    report.hung = hung_;
    if (const GangCopy copy = newest_copy(copies_); copy.machines > 0) {
      report.copy_step = static_cast<std::uint64_t>(copy.step);
      report.copy_machines = copy.machines;
    }
    (void)supervise::send_datagram(socket_, wire::to_line(report), patience_with_the_agent);
  }

  // Names the folder in which the ranks write down which copies of their state are in memory.
  void copies_in(std::string folder) { copies_ = std::move(folder); }
  // The last time that ranks of this machine did no step for long: who hung, and where.
  void hangs(const std::string& words) {
    hung_ = words;
    said_at_.reset();
  }

 private:
  std::string socket_, hung_, copies_;
  gang::Accountant accountant_;
  wire::GangReport said_;  // without what is added to it
  std::optional<Time> said_at_;
};

constexpr std::chrono::milliseconds gang_tick{50};
// From the time that no round will have this machine until the command ends by itself.
constexpr Duration patience_with_refused{60'000};

// Tells a person, on stderr.
void say_of_gang(const std::string& words) {
  std::fprintf(stderr, "spotter gang: %s\n", words.c_str());
}

struct GangOptions {
  std::string at, job, name, address, home, checkpoints = "checkpoints", result, processes = "1";
  std::size_t size = 1, min = 1;
  bool replaced = false;
  std::int64_t lease = 60'000, stall = 0;
  std::uint64_t copy_every = 0;  // steps; 0: no copies of the state in memory
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

class GangProcess {
 public:
  GangProcess(GangOptions options, wire::S3Location at, gang::Settings settings)
      : options_(std::move(options)),
        agents_notice_(std::getenv("SPOTTER_NOTICE_FILE") ? std::getenv("SPOTTER_NOTICE_FILE")
                                                          : ""),
        token_(io::random_hex(32)),
        participant_(std::move(settings)),
        clerk_(
            context_, std::move(at),
            [](const std::string& what) { say_of_gang(what.empty() ? "S3 answers again" : what); }),
        launcher_(context_, options_.command, [this](int status) { launcher_ended(status); }),
        server_(context_, [this](io::LocalRequest request) { return answer(std::move(request)); }),
        signals_(context_, SIGTERM, SIGINT, SIGHUP),
        timer_(context_),
        stall_(Duration(options_.stall)),
        patience_(patience_with_refused) {
    signals_.add(SIGUSR1);
    signals_.add(SIGUSR2);
  }

  int run() {
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
      const GangFolder::Named copies{memory + "/spotter-gang-" + options_.job + "-" +
                                     options_.name};
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

 private:
  void tick() {
    if (io::now() - looked_for_notice_ >= notice_every) look_for_notice();
    if (auto ask = participant_.next(io::now())) clerk_.carry_out(*std::move(ask), participant_);
    launcher_.reap();
    keep_round();
    watch_launch();
    watch_refused();
    watch_ranks();
    const bool asks = asked_ != placed_ && !ended_ && !participant_.refuses();
    reporter_.report(io::now(), participant_, asks);
    tell(participant_.must_stop());
    decide_end();
    if (go_until_ && (participant_.is_gone() || io::now() >= *go_until_))
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
  void keep_round() {
    const auto why = participant_.must_end(io::now());
    if (!why) ending_.reset();
    if (!why || ended_) return;
    if (!ending_) {
      ending_ = io::now();
      say_of_gang(*why + ": ending this machine's workers");
      if (!end_) end_ = gang::End::Ended;
      end_workers();
    } else if (io::now() - *ending_ >= patience_with_torchrun && !again_) {
      say_of_gang("torchrun does not ask for the next round: starting it again");
      again_ = true;
      launcher_.kill();
    }
  }

  // A command that was started again and hangs before it asks for a round would be paid for
  // forever. The first one may fetch its data for as long as it takes.
  void watch_launch() {
    const Duration patience = patience_with_launch + 2 * launch_took_;
    if (ended_ || !has_asked_ || launches_ == 0 || io::now() - launched_at_ < patience) return;
    say_of_gang("the command has not asked for a round for " +
                std::to_string(patience.count() / 1000) + " s: ending it");
    launched_at_ = io::now();
    again_ = launches_ <= most_launches;
    launcher_.kill();
  }

  // A shell that starts torchrun again and again would keep this machine a member, and its gang
  // would give back no other. One whose gang is done may still work; its own time is watched above.
  void watch_refused() {
    const bool waits = !participant_.is_done() || refused_;
    const bool in_vain = !ended_ && participant_.refuses() && !participant_.is_leaving() && waits;
    if (!patience_.is_over(io::now(), in_vain)) return;
    say_of_gang("the command goes on although no round will have this machine: ending it");
    in_vain_ = true;
    launcher_.kill();
  }

  // Finds out whose fault it is when no rank does a step for long, and has the round made again.
  void watch_ranks() {
    if (options_.stall == 0 || io::now() - looked_at_ranks_ < Duration(1'000)) return;
    looked_at_ranks_ = io::now();
    if (ended_ || torchrun_ == 0 || asked_ != placed_ || participant_.is_over(participant_.round()))
      return stall_.rest();
    const auto ranks = ranks_.look();
    const auto turn = stall_.look(io::now(), ranks);
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
  void end_workers() {
    if (torchrun_ != 0 && launcher_.has(torchrun_)) GangLauncher::end_workers(torchrun_);
  }

  void look_for_notice() {
    looked_for_notice_ = io::now();
    // The agent may write another one, which leaves less time.
    const auto notice = read_notice(agents_notice_);
    if (!notice) return;
    if (!own_) say_of_gang("this machine leaves");
    own_ = earlier(own_, notice);
    participant_.leave(own_->by.value_or(io::now()));
  }

  void await_signal() {
    signals_.async_wait([this](boost::system::error_code error, int) {
      if (error) return;
      // With a notice its file says more, which was written before the signal.
      look_for_notice();
      if (!own_) own_ = StopBy{};
      participant_.leave(own_->by.value_or(io::now()));
      await_signal();
    });
  }

  void launch() {
    ended_.reset();
    refused_ = false;
    torchrun_ = 0;
    ++launches_;
    launched_at_ = io::now();
    participant_.idle();
    const std::string endpoint = "127.0.0.1:" + std::to_string(server_.port());
    std::map<std::string, std::string> variables = {
        {"SPOTTER_NOTICE_FILE", notice_.path()},
        {"SPOTTER_GANG_TOKEN", token_},
        {"SPOTTER_GANG_MEMBER", options_.name},
        {"SPOTTER_GANG_ADDRESS", options_.address},
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

  void launcher_ended(int status) {
    // This one has a meaning of its own. That it was killed says nothing of the trainer.
    ended_ = status == give_machine_back || in_vain_ ? 1 : status;
    ++asked_;
    if (std::exchange(again_, false) && !participant_.refuses()) launch();
  }

  // Decides what this machine does once torchrun has ended.
  void decide_end() {
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
    const bool waits = well && !participant_.is_leaving() && !participant_.must_end(io::now());
    if (waits) return;
    // Torchrun is also started again when it failed in a round: a machine that is gone takes the
    // store with it, or never comes to the meeting. A machine that fails by itself is counted by
    // the record, or never asks.
    const bool again = (well || participant_.round() != 0) && launches_ <= most_launches;
    if (again && !participant_.refuses()) {
      say_of_gang("torchrun ended with its round: starting it again");
      return launch();
    }
    if (participant_.is_given_back())
      say_of_gang("twice a round ended because of this machine: it is to be given back");
    participant_.go();
    go_until_ = io::now() + patience_to_go;
  }

  // The gang is done when its leader's torchrun has ended well, and the result is there.
  bool ended_well() {
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

  void end(int status) {
    status_ = status;
    context_.stop();
  }

  // To the workers; and to a person, once.
  void tell(const std::optional<gang::Stop>& stop) {
    notice_.say(earlier(own_, stop ? std::optional(StopBy{stop->by}) : std::nullopt));
    const std::string words = stop ? stop->why : "";
    if (words != said_ && !words.empty()) say_of_gang(words);
    said_ = words;
  }

  asio::awaitable<io::LocalResponse> answer(io::LocalRequest request) {
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
    if (!std::exchange(has_asked_, true)) launch_took_ = io::now() - launched_at_;
    launches_ = 0;
    const std::uint64_t asking = ++asked_;
    participant_.ready(static_cast<std::uint16_t>(port),
                       newest_step(options_.home + "/" + options_.checkpoints),
                       became(request.target, std::exchange(end_, {})));  // it is said once
    auto placing = place(asking);
    co_return co_await std::move(placing);
  }

  // The workers' end. apart=N: they never began, since torchrun did not reach machine N of the
  // round; if N is the number of machines, it did not meet all of them in time. over=1: they did
  // not begin either, as the round was over before.
  gang::Last became(const std::string& target, std::optional<gang::End> end) const {
    const long rank = number_in(target, "apart");
    if (rank >= 0 && last_) return missed(static_cast<std::size_t>(rank));
    // Workers that this process ended by SIGKILL look to torchrun like failed ones.
    if (end) return {*end};
    if (number_in(target, "over") == 1) return {gang::End::Ended};
    if (target.find("ended=torn") != target.npos) return {gang::End::Torn};
    return {target.find("ended=failed") != target.npos ? gang::End::Failed : gang::End::Other};
  }

  gang::Last missed(std::size_t rank) const {
    if (rank >= last_->machines.size()) {
      say_of_gang("the machines of round " + std::to_string(last_->round) +
                  " did not all come together");
      return {.apart = true};
    }
    const gang::Place::Machine& other = last_->machines[rank];
    say_of_gang("cannot reach " + other.name + " at " + other.address + ":" +
                std::to_string(other.port) +
                ": does its firewall, or its security group, let the gang's machines through on "
                "all ports?");
    return {.apart = true, .missed = other.id};
  }

  asio::awaitable<io::LocalResponse> place(std::uint64_t asking) {
    asio::steady_timer timer(context_);
    GangHandover handover(launcher_, participant_, torchrun_);
    const Time since = io::now();
    std::string said;
    for (;;) {
      if (asking != asked_) co_return io::LocalResponse{410, R"({"error": "asked again"})"};
      if (participant_.refuses()) {
        refused_ = true;
        const char* why = participant_.is_done()      ? "the gang's result is there"
                          : participant_.is_leaving() ? "this machine leaves"
                          : participant_.is_given_back()
                              ? "this machine was the reason that a round ended twice"
                          : participant_.is_foreign() ? "the record is another job's"
                          : participant_.fell_apart() ? "the machines do not reach one another"
                                                      : "the trainer has failed again and again";
        co_return io::LocalResponse{409, nlohmann::json{{"error", why}}.dump()};
      }
      if (const auto place = handover.look()) {
        placed_ = asking;
        end_.reset();
        ranks_.forget();
        if (copies_) forget_newest_copy(copies_->path());
        last_ = place;
        say_of_gang("round " + std::to_string(place->round) + ": machine " +
                    std::to_string(place->rank) + " of " + std::to_string(place->machines.size()) +
                    ", after " + std::to_string((io::now() - since).count()) + " ms");
        auto machines = nlohmann::json::array();
        std::string word = place->machines.front().word;
        for (const auto& each : place->machines) {
          machines.push_back({each.address, each.port});
          if (each.word.empty()) word.clear();  // its version would look for keys without it
        }
        co_return io::LocalResponse{200, nlohmann::json{{"round", place->round},
                                                        {"rank", place->rank},
                                                        {"machines", std::move(machines)},
                                                        {"word", word}}
                                             .dump()};
      }
      if (handover.is_in_vain())
        co_return io::LocalResponse{410, R"({"error": "torchrun has ended"})"};
      const std::string waits = participant_.waits_for();
      if (!participant_.has_place() && waits != said && io::now() - since > Duration(2'000))
        say_of_gang("waiting for " + (said = waits));
      timer.expires_after(gang_tick);
      boost::system::error_code ignored;
      auto waiting = timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      co_await std::move(waiting);
    }
  }

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
  GangReporter reporter_;
  GangRanks ranks_;
  std::optional<GangFolder> copies_;  // of the state, in memory
  gang::StallWatch stall_;
  GangPatience patience_;
  Time looked_at_ranks_{};

  Time looked_for_notice_{};
  std::optional<StopBy> own_;  // this machine's own notice
  std::string said_;           // the last words about the others
  pid_t torchrun_ = 0;
  std::uint64_t asked_ = 0;          // questions for a round; only the last is answered
  std::uint64_t placed_ = 0;         // the last that was answered
  std::optional<gang::Place> last_;  // that this machine got
  std::optional<int> ended_;         // the launcher's exit status
  std::optional<Time> ending_;       // since when its workers are ended
  std::optional<gang::End> end_;     // of the workers, where this process ended them
  bool again_ = false;               // it was killed, to be started again
  bool refused_ = false;             // since its start, when it asked for a round
  bool in_vain_ = false;             // it was killed, since no round would have it
  bool has_asked_ = false;           // ever, for a round
  int launches_ = 0;                 // of torchrun, since one of them asked
  Time launched_at_{};
  Duration launch_took_{};  // the first, until it asked
  std::optional<Time> go_until_;
  int status_ = EX_SOFTWARE;
};

// The answers of `spotter gang` to torchrun's rendezvous
// (trainer/library/python/spotter/rendezvous.py).

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
  options.address = own_address();
  gang::Settings settings{.job = *id,
                          .id = options.name + "-" + io::random_hex(8),
                          .name = options.name,
                          .address = options.address,
                          .word = io::random_hex(32),
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
