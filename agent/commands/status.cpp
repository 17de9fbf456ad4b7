#include "agent/commands/commands.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/signal_set.hpp>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <set>
#include <thread>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/base/json.hpp"
#include "agent/commands/doctor.hpp"
#include "agent/commands/job_view.hpp"
#include "agent/commands/launched_job.hpp"
#include "agent/commands/logs.hpp"
#include "agent/config/job.hpp"
#include "agent/config/run.hpp"
#include "agent/config/scalars.hpp"
#include "agent/io/files.hpp"
#include "agent/io/kernel.hpp"
#include "agent/io/local_server.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/requests.hpp"
#include "agent/report/page/feed.hpp"
#include "agent/report/page/page.hpp"
#include "agent/wire/status.hpp"

namespace spotter::command {
namespace {

// The live page (agent/report/page) on 127.0.0.1, for a browser of this machine.
struct PageServer {
  std::uint16_t port = 0;  // 0: any free one
  // The model to show (agent/report/model.hpp), never null; called often, and must not block.
  std::function<std::shared_ptr<const nlohmann::json>()> latest;
  std::function<void(const std::string& url)> ready;
};

using io::LocalRequest;
using io::LocalResponse;
using nlohmann::json;

constexpr std::chrono::milliseconds look_again{250};
constexpr std::chrono::seconds silence{10};  // writing shows that a page is gone

struct Stream {
  page::Feed feed;
  std::shared_ptr<const json> sent;
};

// Waits for the next events.
asio::awaitable<std::string> next(const PageServer& server, std::shared_ptr<Stream> stream) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  const auto until = std::chrono::steady_clock::now() + silence;
  while (std::chrono::steady_clock::now() < until) {
    if (auto latest = server.latest(); latest != stream->sent) {
      std::string text = stream->feed.next(*latest, {{"now", io::wall_clock()}});
      stream->sent = std::move(latest);
      if (!text.empty()) co_return text;
    }
    timer.expires_after(look_again);
    auto waiting = timer.async_wait(asio::use_awaitable);
    co_await std::move(waiting);
  }
  co_return std::string(page::heartbeat);
}

LocalResponse refusal(int status, const std::string& words) {
  return {status, words + "\n", "text/plain; charset=utf-8"};
}

LocalResponse answer(const PageServer& server, const LocalRequest& request) {
  if (!io::is_of_us(request))
    return refusal(403,
                   "this page is of the user alone who serves it: serve your own, by "
                   "`spotter status --serve`");
  if (!page::is_loopback_name(request.host))
    return refusal(403, "this page is of this machine only: ask for 127.0.0.1");
  if (!page::is_same_origin(request.host, request.origin))
    return refusal(403, "a page of another origin may not ask for that");
  if (request.method != "GET") return refusal(405, "only GET");
  const std::string path = request.target.substr(0, request.target.find('?'));
  if (path == "/") return {200, page::html(), "text/html; charset=utf-8"};
  if (path == "/model")
    return {200, server.latest()->dump(-1, ' ', false, json::error_handler_t::replace) + "\n"};
  if (path != "/events") return refusal(404, "there is only /, /model and /events");
  LocalResponse response{200, "", "text/event-stream"};
  const auto stream = std::make_shared<Stream>();
  response.more = [&server, stream] { return next(server, stream); };
  return response;
}

// Serves until SIGINT or SIGTERM. Refuses other users of this machine, requests under another host
// name than this machine's own, and from pages of another origin. Fails if the port is in use.
Result<void> serve_page(const PageServer& server) {
  asio::io_context context{1};
  io::LocalServer local(context, [&server](LocalRequest request) -> asio::awaitable<LocalResponse> {
    co_return answer(server, request);
  });
  if (const auto failed = local.open(server.port))
    return failure("port " + std::to_string(server.port) + " of 127.0.0.1: " + failed.message() +
                   "; choose another with --port, or let one be chosen without it");
  asio::signal_set signals(context, SIGINT, SIGTERM);
  signals.async_wait([&context](const boost::system::error_code&, int) { context.stop(); });
  server.ready("http://127.0.0.1:" + std::to_string(local.port()) + "/");
  context.run();
  return {};
}

struct StatusOptions {
  JobToShow shown;
  bool json = false, watch = false;
  bool serves = false;  // `spotter status --serve`: the live page, for a browser of this machine
  std::uint16_t port = 0;
  std::size_t columns = 80;
};

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds shortest_pause{1};
// Uses at most a tenth of a core for the history of a three-day job, some MiB.
constexpr int pause_per_look = 10;
// Requests to S3 cost money.
constexpr std::chrono::seconds bucket_pause{10};
constexpr std::chrono::minutes prices_hold{30};
// Without a page to serve nothing is read.
constexpr std::chrono::seconds idle{30};
// Storage that hangs must not delay the end.
constexpr std::chrono::seconds patience{2};

bool is_remote(const NamedJob& place) {
  std::error_code error;
  if (!place.from.empty()) return place.from.starts_with("s3://");
  return place.job && !fs::is_directory(place.job->home(), error);
}

// Reads the job periodically in its own thread, as the storage may hang.
class Watcher : Pinned {
 public:
  explicit Watcher(NamedJob place) : place_(std::move(place)) {
    const std::string job = place_.job ? place_.job->name.str() : "";
    latest_ = std::make_shared<const json>(json{{"version", 1},
                                                {"job", job.empty() ? json() : json(job)},
                                                {"state", "unknown"},
                                                {"says", "reading its history"}});
    thread_ = std::thread([this] { run(); });
  }
  ~Watcher() {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    const bool ended = changed_.wait_for(lock, patience, [this] { return ended_; });
    lock.unlock();
    if (!ended) std::_Exit(0);  // the thread must not use it any more
    thread_.join();
  }

  std::shared_ptr<const json> latest() {
    const std::lock_guard lock(mutex_);
    asked_ = Clock::now();
    changed_.notify_all();
    return latest_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      const auto began = Clock::now();
      auto seen = look();
      const auto pause =
          std::max<Clock::duration>(is_remote(place_) ? bucket_pause : shortest_pause,
                                    pause_per_look * (Clock::now() - began));
      lock.lock();
      latest_ = std::move(seen);
      changed_.wait_for(lock, pause, [this] { return stopping_; });
      // wait() without a time is a symbol that other distributions lack (scripts/check symbols).
      while (!changed_.wait_for(lock, std::chrono::hours(1),
                                [this] { return stopping_ || Clock::now() < asked_ + idle; })) {
      }
    }
    ended_ = true;
    changed_.notify_all();
  }

  std::shared_ptr<const json> before() {
    const std::lock_guard lock(mutex_);
    return latest_;
  }

  // Without new data it keeps the old model; its sentence says why.
  std::shared_ptr<const json> look() {
    std::vector<std::string> warnings;
    auto input = read_input(place_, &warnings);
    if (!input) {
      json model = *before();
      model["says"] = input.error().message;
      return std::make_shared<const json>(std::move(model));
    }
    if (Clock::now() >= prices_due_) {
      prices_ = prices_of(*input, std::nullopt);
      prices_due_ = Clock::now() + prices_hold;
    }
    input->prices = prices_;
    json model = report::to_json(report::build(*input));
    model["warnings"] = warnings;
    return std::make_shared<const json>(std::move(model));
  }

  const NamedJob place_;
  report::Prices prices_;
  Clock::time_point prices_due_ = Clock::now() + shortest_pause;  // the page is served first
  std::mutex mutex_;                                              // guards the members below
  std::condition_variable changed_;
  std::shared_ptr<const json> latest_;
  Clock::time_point asked_ = Clock::now();
  bool stopping_ = false, ended_ = false;
  std::thread thread_;
};

void add_serve_options(CLI::App& status, StatusOptions& options) {
  auto* wanted = status.add_flag(
      "--serve", options.serves,
      "Shows the job as a page in a browser, at an address of this machine that it prints, until "
      "Ctrl-C, to root and to who serves it; from elsewhere: ssh -L. Without --job it is that of "
      "job.yaml here, or the service's");
  status.add_option("--port", options.port, "The page's port; else one that is free")
      ->needs(wanted);
  status
      .add_option("--from", options.shown.from,
                  "For the page: where the job's history is, as for spotter report")
      ->needs(wanted);
}

Result<int> serve(const StatusOptions& options) {
  if (!io::kernel_knows_users)
    return mistake(
        "--serve is not in the client's build: the page is for its own user alone, "
        "and only Linux says who asks for it; `spotter report` writes one to a file");
  Watcher watcher(TRY(of_input(place_of(options.shown))));
  TRY(serve_page({options.port, [&] { return watcher.latest(); },
                  [](const std::string& url) {
                    std::printf("%s\n", url.c_str());
                    std::fflush(stdout);
                  }}));
  return 0;
}

// `spotter status --job NAME`: a job seen from any machine, whether or not an instance runs.
using Experiment = std::optional<std::size_t>;

Result<NamedJob> asked_of(const JobToShow& options) {
  auto asked = TRY(named_job(options));
  if (const auto name = config::job_name.parse(asked.name); !name)
    return failure("--job " + options.job + ": there is no such file, and " + name.error().message);
  return asked;
}

// "mnist:7" of the sweep "mnist".
Experiment index_in(const std::string& owner, const std::string& sweep) {
  if (!owner.starts_with(sweep + config::before_index)) return std::nullopt;
  const auto index = wire::parse_count(std::string_view(owner).substr(sweep.size() + 1));
  return index ? Experiment(*index) : std::nullopt;
}

std::string owner_of(const wire::Tags& tags) { return wire::value_of(tags, tag::job); }

// By experiment; a job without a sweep has one entry, without an index.
using Jobs = std::map<Experiment, JobSeen>;

// A job as it is seen now.
class SeenRemotely {
 public:
  explicit SeenRemotely(const NamedJob& asked) : asked_(asked) {
    const bool published = look_at_bucket();
    whole_ = look_at_cloud() && published;
  }
  const Jobs& jobs() const { return jobs_; }
  bool is_whole() const { return whole_; }  // else what could not be read was printed
  bool is_there() const {
    return std::ranges::any_of(jobs_, [](const auto& one) { return !one.second.is_nothing(); });
  }
  json view() const {  // of a sweep none
    return jobs_.size() == 1 && is_there() ? view_of(jobs_.begin()->second) : json::object();
  }
  // Why there is nothing; "": see the lines that were printed.
  std::string trouble() const {
    if (!whole_ || is_there()) return "";
    std::string words = "no volume, instance or fleet has the tag spotter:job=" + asked_.name +
                        (region_.empty() ? "" : " in " + region_);
    if (asked_.published)
      words += ", and nothing is published below " + wire::to_url(*asked_.published);
    const std::string names = joined(known_);
    return words + (names.empty() ? "; no job is known there" : "; known jobs: " + names);
  }

 private:
  JobSeen& job(Experiment experiment) {
    JobSeen& seen = jobs_[experiment];
    seen.job = experiment ? config::of_experiment(asked_.name, *experiment) : asked_.name;
    seen.now = io::wall_clock();
    seen.publishes = asked_.published.has_value();
    return seen;
  }

  bool look_at_bucket() {
    if (!asked_.published) return true;
    s3::Client client(
        {.environment = act::Environment::of_this_process(), .patience = std::chrono::seconds(20)});
    auto all = read_published(client, *asked_.published, Wanted::Status);
    if (!all) {
      io::complain("status", all.error().text());
      return false;
    }
    bool sound = true;
    for (Published& one : *all) {
      const Experiment experiment = one.source.experiment;
      const std::string trouble = wire::status_trouble(one.status);
      if (!trouble.empty()) {
        sound = false;
        io::complain("status", "the status in " + wire::to_url(*asked_.published) +
                                   (experiment ? std::to_string(*experiment) + "/" : "") +
                                   (one.status.empty() ? " is not there yet" : " is " + trouble));
      }
      JobSeen& seen = job(experiment);
      seen.published = std::move(one);
    }
    return sound;
  }

  bool look_at_cloud() {
    bool sound = true;
    for (const std::string& region : asked_.regions) sound = look_at_region(region) && sound;
    for (auto& [index, seen] : jobs_)
      if (asked_.job && !seen.fleets.empty()) seen.due = due_of(asked_.job->deadline, seen.fleets);
    return sound;
  }

  bool look_at_region(const std::string& region) {
    const auto calls = calls_in(region);
    if (!calls) {
      io::complain("status", calls.error().message);
      return false;
    }
    region_ += (region_.empty() ? "" : ", ") + (*calls)->region().str();
    const auto done = ask(**calls);
    if (!done) io::complain("status", done.error().message);
    return done.has_value();
  }

  Result<void, CallError> ask(AwsCalls& calls) {
    const auto volumes =
        TRY(calls.ask_all(wire::DescribeVolumes{{}, {{"tag-key", {tag::job}}}, {}}));
    std::map<std::string, Experiment> holders;
    for (const wire::Volume& it : volumes) {
      const std::string owner = owner_of(it.tags);
      known_.insert(owner);
      const auto index = index_in(owner, asked_.name);
      if ((owner != asked_.name && !index) || is_data(it.tags)) continue;
      for (const wire::Attachment& held : it.attachments) holders[held.instance.str()] = index;
      job(index).volumes.push_back(it);
    }
    for (const auto& [index, seen] : jobs_)
      if (seen.published) holders[last_instance(*seen.published)] = index;
    const std::vector<std::string> owners{asked_.name, asked_.name + config::before_index + "*"};
    auto snapshots = TRY(
        calls.ask_all(wire::DescribeSnapshots{{}, {{std::string("tag:") + tag::job, owners}}, {}}));
    for (wire::Snapshot& it : snapshots)
      job(index_in(owner_of(it.tags), asked_.name)).snapshots.push_back(std::move(it));
    TRY(ask_for_instances(calls, holders));
    ask_for_prices(calls);
    ask_why_silent(calls);
    auto fleets = TRY(job_fleets(calls, {asked_.name, {}}));
    if (fleets.empty()) return {};
    if (jobs_.empty()) job({});
    for (auto& [index, seen] : jobs_)
      seen.fleets.insert(seen.fleets.end(), fleets.begin(), fleets.end());
    for (const JobFleet& it : fleets)
      if (it.is_at_work() && it.target > 0 && jobs_.begin()->second.instances.empty())
        jobs_.begin()->second.launches_nothing = launch_failure(calls, it);
    return {};
  }

  // Asks IAM for the rights of its role: the one reason for silence that can be seen from here.
  void ask_why_silent(AwsCalls& calls) {
    if (!asked_.job || !asked_.job->launch) return;
    std::vector<JobSeen*> silent;  // all have one role
    for (auto& [index, seen] : jobs_)
      if (is_silent(seen)) silent.push_back(&seen);
    if (silent.empty()) return;
    for (const Finding& it : examine_rights(calls, *asked_.job))
      if (it.verdict == Finding::Verdict::Fail)
        for (JobSeen* each : silent) each->role_lacks = it.what;
  }

  // The instances of the fleet, and those that have or had a volume.
  Result<void, CallError> ask_for_instances(AwsCalls& calls,
                                            const std::map<std::string, Experiment>& holders) {
    std::vector<std::string> ids;
    for (const auto& [id, index] : holders)
      if (id.starts_with("i-")) ids.push_back(id);
    std::set<std::string> seen;
    const auto take = [&](std::vector<wire::Instance> all) {
      for (wire::Instance& it : all) {
        if (!seen.insert(it.id.str()).second) continue;
        const auto holder = holders.find(it.id.str());
        // In a sweep, which experiment a machine without a volume runs is unknown.
        const bool is_sweep = !jobs_.empty() && jobs_.begin()->first.has_value();
        if (holder != holders.end() || !is_sweep)
          job(holder != holders.end() ? holder->second : Experiment())
              .instances.push_back(std::move(it));
      }
    };
    if (!ids.empty()) {
      auto held = TRY(calls.ask_all(wire::DescribeInstances{{}, {{"instance-id", ids}}, {}}));
      take(std::move(held));
    }
    auto launched = TRY(job_instances(calls, {asked_.name, {}}));
    std::erase_if(launched, [](const wire::Instance& it) {
      return wire::value_of(it.tags, tag::role) == launch::role_of_preparers;
    });
    take(std::move(launched));
    return {};
  }

  // A status without a price is one as well.
  void ask_for_prices(AwsCalls& calls) {
    std::map<std::string, double> prices;
    if (!jobs_.empty()) prices = jobs_.begin()->second.on_demand_prices;  // of a region before
    for (const auto& [index, seen] : jobs_) {
      for (const wire::Instance& it : seen.instances) {
        const bool up =
            it.state == wire::InstanceState::Pending || it.state == wire::InstanceState::Running;
        if (!up || !it.lifecycle.empty() || prices.contains(it.type.str())) continue;
        if (const auto price = calls.ask(wire::GetProducts{it.type, calls.region()}))
          prices.emplace(it.type.str(), *price);
      }
    }
    for (auto& [index, seen] : jobs_) seen.on_demand_prices = prices;
  }

  static bool is_data(const wire::Tags& tags) { return wire::value_of(tags, tag::role) == "data"; }
  static std::string last_instance(const Published& published) {
    const auto status = wire::parsed_json(published.status);
    return status.is_object() ? wire::text_field(status, "instance") : std::string();
  }

  const NamedJob& asked_;
  Jobs jobs_;
  std::set<std::string> known_;
  std::string region_;
  bool whole_ = false;
};

std::string text_of(const Jobs& jobs, const StatusOptions& options) {
  const double now = io::wall_clock();
  const bool table = jobs.size() > 1 || jobs.begin()->first.has_value();
  json all = json::array();
  std::string text;
  if (table)
    text = fmt::format("{:>6}  {:<23} {:>12} {:>12}  {:<12} {}\n", "index", "stage", "step", "loss",
                       "seen", "instance");
  for (const auto& [experiment, seen] : jobs) {
    // Otherwise only the sweep's own fleet and machines.
    if (table && !experiment && !seen.published) continue;
    json view = view_of(seen);
    if (options.json)
      all.push_back(std::move(view));
    else if (experiment)
      text += line_of(view, *experiment, now);
    else
      text += wire::status_text(wire::json_text(view), clock_of(view, now), options.columns)
                  .value_or("");
  }
  if (!options.json) return text;
  const json& shown = table ? all : all.front();
  return wire::json_text(shown, 2) + "\n";
}

// The end of the output of a trainer that failed.
std::string last_words(const NamedJob& asked, const SeenRemotely& seen) {
  constexpr std::size_t lines = 20;
  const std::string stage = wire::text_field(seen.view(), "stage");
  if (!asked.published || (stage != "gave-up" && stage != "blocked")) return "";
  std::string text;
  for (const std::string& it : last_output(*asked.published, lines)) text += it + "\n";
  return text.empty() ? "" : "\nThe last lines that it printed (`spotter logs` has all):\n" + text;
}

// Prints it, and to stderr what could not be read. Returns the exit status: 0 all was read, 1 not
// all, 2 wrong input, job_failed.
Result<int> show_remote(const StatusOptions& options) {
  const auto asked = TRY(of_input(asked_of(options.shown)));
  const SeenRemotely seen(asked);
  if (!seen.trouble().empty()) return failure(seen.trouble());
  if (!seen.is_there()) return 1;
  const std::string text =
      text_of(seen.jobs(), options) + (options.json ? "" : last_words(asked, seen));
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0)
    return failure(std::string("cannot write: ") + std::strerror(errno));
  if (wire::text_field(seen.view(), "stage") == "gave-up") return job_failed;
  return seen.is_whole() ? 0 : 1;
}

// `spotter wait`: until the job has ended; a line for each change of its stage. What cannot be read
// passes, but not at the first look.
Result<int> wait_remotely(const JobToShow& options) {
  constexpr std::chrono::seconds between{15};
  const auto asked = TRY(of_input(asked_of(options)));
  std::string before;
  for (bool first = true;; first = false) {
    const SeenRemotely seen(asked);
    if (first && !seen.trouble().empty()) return failure(seen.trouble());
    if (first && !seen.is_there()) return 1;
    if (first && seen.jobs().size() > 1)
      return mistake("of a sweep `spotter sweep results` says what has ended");
    const json view = seen.view();
    const std::string stage = wire::text_field(view, "stage");
    if (!stage.empty() && stage != before) {
      const std::string says = wire::text_field(view, "says");
      const std::string words(says.empty() ? wire::stage_words(stage) : says);
      std::printf("%s\n", wire::printable(words).c_str());
      std::fflush(stdout);
      before = stage;
    }
    if (stage == "finished") return 0;
    if (stage == "gave-up") return job_failed;
    std::this_thread::sleep_for(between);
  }
}

constexpr std::size_t largest = 64U << 10;

// The text to show, or why there is none.
struct Shown {
  std::string text;
  std::string trouble;
};

std::string trouble_in(const std::string& run_directory, const std::error_code& error) {
  if (error == std::errc::permission_denied)
    return "the status in " + run_directory + " may not be read: run as root, or in its group";
  if (error != std::errc::no_such_file_or_directory)
    return "the status in " + run_directory + " cannot be read: " + error.message();
  return "no status in " + run_directory +
         ": no agent has run here (see `systemctl status spotter`)";
}

Shown look(const std::string& run_directory, std::size_t columns) {
  const auto file = io::read_file(run_directory + "/status.json", largest);
  if (!file) return {"", trouble_in(run_directory, file.error())};
  const Time now = io::now();
  auto text = wire::status_text(*file, now, columns);
  if (!text) {
    const std::string trouble = wire::status_trouble(*file);
    return {"", "the status in " + run_directory + " is " + trouble +
                    (trouble.starts_with("written") ? ", and restart the agent" : "")};
  }
  // A worker's status, followed by its experiment's.
  const std::string below = wire::status_below(*file);
  if (below.starts_with(run_directory + "/"))
    if (const auto inner = io::read_file(below + "/status.json", largest))
      if (const auto more = wire::status_text(*inner, now, columns)) *text += "\n" + *more;
  return {std::move(*text), ""};
}

// Overwrites the old text line by line, then clears the rest, so that nothing flickers. One write,
// or the terminal would show halves.
std::string over(const std::string& text, std::size_t rows) {
  std::string drawn = "\x1b[H";
  std::size_t at = 0;
  for (std::size_t row = 0; row + 1 < rows && at < text.size(); ++row) {
    const auto end = text.find('\n', at);
    drawn += text.substr(at, end - at) + "\x1b[K\n";
    at = end + 1;
  }
  return drawn + "\x1b[J";
}

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// True: the time has passed, or the window's size has changed. False: asked to end.
bool wait_for_next(const sigset_t& signals, std::time_t seconds) {
#ifndef SPOTTER_CLIENT
  const timespec pause{seconds, 0};
  const int seen = ::sigtimedwait(&signals, nullptr, &pause);
  return seen < 0 || seen == SIGWINCH;
#else
  constexpr int looks_a_second = 20;
  for (std::time_t left = seconds * looks_a_second; left > 0; --left) {
    sigset_t pending;
    ::sigpending(&pending);
    int seen = 0;
    for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGWINCH})
      if (sigismember(&pending, each) != 0 && ::sigwait(&signals, &seen) == 0)
        return seen == SIGWINCH;
    std::this_thread::sleep_for(std::chrono::seconds(1) / looks_a_second);
  }
  return true;
#endif
}

// Shows what `look` sees, again and again, `seconds` apart.
int watch(const std::function<Shown(std::size_t columns)>& look, std::time_t seconds) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGWINCH}) sigaddset(&signals, each);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  // Uses the alternate screen, which restores the old one at the end, and hides the cursor.
  if (terminal) put("\x1b[?1049h\x1b[?25l");
  std::string before;
  do {
    const Window size = window();
    const Shown seen = look(size.columns);
    const std::string text = seen.trouble.empty() ? seen.text : seen.trouble + "\n";
    if (terminal)
      put(over(text, size.rows));
    else if (text != before)
      put(text + "\n");
    before = text;
  } while (std::ferror(stdout) == 0 && wait_for_next(signals, seconds));
  if (terminal) put("\x1b[?25h\x1b[?1049l");
  return 0;
}

Result<int> watch_remotely(StatusOptions options) {
  constexpr std::time_t between = 10;  // seconds: each look asks EC2 some questions
  const auto asked = TRY(of_input(asked_of(options.shown)));
  return watch(
      [&](std::size_t width) {
        options.columns = width;
        const SeenRemotely seen(asked);
        return seen.is_there() ? Shown{text_of(seen.jobs(), options), ""}
                               : Shown{"", seen.trouble()};
      },
      between);
}

Result<int> written() {
  if (std::ferror(stdout) == 0) return 0;
  return failure(std::string("cannot write: ") + std::strerror(errno));
}

Result<int> show(StatusOptions options) {
  if (options.serves) return serve(options);
  options.columns = ::isatty(STDOUT_FILENO) != 0 ? window().columns : largest;
  if (!options.shown.job.empty())
    return options.watch ? watch_remotely(options) : show_remote(options);
  const auto run_directory = run_directory_to_show(act::Environment::of_this_process());
  if (options.watch) return watch([&](std::size_t width) { return look(run_directory, width); }, 1);
  if (options.json) {
    const auto file = io::read_file(run_directory + "/status.json", largest);
    if (file) put(*file);
    const std::string trouble = file ? wire::status_trouble(*file) : "";
    if (!trouble.empty()) return failure("the status in " + run_directory + " is " + trouble);
    if (file) return written();
  }
  const Shown seen = look(run_directory, options.columns);
  put(seen.text);
  return seen.trouble.empty() ? written() : failure(seen.trouble);
}

}  // namespace

void add_status(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "status",
      "What the agent on this instance does; with --job the state of a job, from anywhere");
  auto options = std::make_shared<StatusOptions>();
  auto* json = command->add_flag("--json", options->json, "As the agent wrote it");
  command->add_flag("--watch", options->watch, "Follows it, until Ctrl-C")->excludes(json);
  auto* job = command->add_option("--job", options->shown.job,
                                  "A job's name or its description: what EC2 and its agents say "
                                  "of it, even if no instance runs");
  command
      ->add_option("--publish", options->shown.publish,
                   "The place in S3 that the job's description has as publish")
      ->needs(job);
  add_serve_options(*command, *options);
  command->callback([options, &status] { status = io::ended("status", show(*options)); });
}

void add_wait(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "wait",
      "Waits for a job's end, from anywhere: exit status 0, it has finished; 3, it gave up");
  auto options = std::make_shared<JobToShow>();
  command->add_option("job", options->job, "The job's name or its description")->required();
  command->add_option("--publish", options->publish,
                      "The place in S3 that the job's description has as publish");
  command->callback([options, &status] { status = io::ended("wait", wait_remotely(*options)); });
}

}  // namespace spotter::command
