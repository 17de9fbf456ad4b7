// spotter-fastfile: serves the channels in mode `fast_file`. `spotter pipe` starts it beside its
// command. It is a program of its own, so that no other needs libfuse3.
//
//   --socket FD      SOCK_SEQPACKET to `spotter pipe` (agent/data/fifo.hpp): sends "ready" when
//                    all is mounted, or "failed TEXT"; receives "trainer PID" and "bye"
//   --directory DIR  the views are at DIR/NAME
//   --state DIR      of the frozen listings
//   --shard INDEX/COUNT, --budget BYTES (of memory, for all channels)
//   CHANNEL...       as wire::describe() writes them
//   $SPOTTER_VIEWS   views that are mounted already (agent/host/mounts.hpp)
#include <getopt.h>
#include <poll.h>

#include <algorithm>
#include <csignal>

#include "agent/aws/settings/settings.hpp"
#include "agent/data/catalogue.hpp"
#include "agent/data/fast_file/session.hpp"
#include "agent/data/fifo.hpp"
#include "agent/data/plane.hpp"
#include "agent/host/mounts.hpp"
#include "agent/io/files.hpp"
#include "agent/supervise/processes.hpp"

namespace spotter::fastfile {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds at_most{1000};

struct Options {
  int socket = -1;
  fs::path directory;
  fs::path state;
  data::Shard shard;
  std::size_t budget = 0;
  std::vector<wire::Channel> channels;
};

Result<Options> parse(int count, char** words) {
  enum Option { socket, directory, state, shard, budget };
  constexpr option known[] = {{"socket", required_argument, nullptr, socket},
                              {"directory", required_argument, nullptr, directory},
                              {"state", required_argument, nullptr, state},
                              {"shard", required_argument, nullptr, shard},
                              {"budget", required_argument, nullptr, budget},
                              {nullptr, 0, nullptr, 0}};
  Options options;
  const auto number = [](std::string_view text) { return wire::parse_count(text).value_or(0); };
  for (int which = 0; (which = ::getopt_long(count, words, "", known, nullptr)) != -1;) {
    const std::string_view value = optarg == nullptr ? "" : optarg;
    if (which == socket) options.socket = static_cast<int>(number(value));
    if (which == directory) options.directory = value;
    if (which == state) options.state = value;
    if (which == budget) options.budget = number(value);
    if (which == shard) {
      const auto slash = std::min(value.find('/'), value.size());
      options.shard = {number(value.substr(0, slash)),
                       number(value.substr(std::min(slash + 1, value.size())))};
    }
    if (which == '?') return failure("usage: see agent/data/fast_file/main.cpp");
  }
  for (int i = optind; i < count; ++i) {
    options.channels.push_back(TRY(wire::parse_channel(words[i])));
  }
  const bool usable = options.socket >= 0 && !options.channels.empty() && options.shard.count > 0 &&
                      !options.directory.empty();
  if (!usable) return failure("spotter-fastfile is started by spotter pipe");
  return options;
}

class Views {
 public:
  explicit Views(Options options) : options_(std::move(options)) {}

  Result<void> begin() {
    const std::string needs =
        "channel " + options_.channels.front().name + ": mode fast_file needs ";
    const auto mounted = act::host::mounted_views();
    if (mounted.empty())
      if (const auto lacks = missing_for_mount()) return failure(needs + "FUSE: " + *lacks);
    const std::size_t budget = options_.budget / options_.channels.size();
    if (budget < data::good_budget) return failure(needs + "32 MiB of memory for each, at least");
    if (!options_.state.empty()) {
      TRY(behind("cannot make " + options_.state.string(),
                 io::make_directories(options_.state, 0755)));
    }
    for (const auto& channel : options_.channels) {
      ViewSettings settings{.channel = channel,
                            .directory = options_.directory,
                            .budget = budget,
                            .shard = options_.shard,
                            .failed = [this](const std::string& what) {
                              gone_ |= !data::send_message(options_.socket, "failed " + what);
                            }};
      for (const auto& view : mounted)
        if (view.channel == channel.name) settings.mounted = view.descriptor;
      if (!options_.state.empty()) settings.frozen = options_.state / (channel.name + ".listing");
      views_.push_back(std::make_unique<View>(std::move(settings), clients_.of(channel)));
    }
    return {};
  }

  // If `spotter pipe` dies, ends its command before it unmounts the files.
  void run() {
    while (!gone_ && !dismissed_) {
      for (const auto& client : clients_.all())
        if (client) client->turn(milliseconds(0));
      for (const auto& view : views_) view->advance();
      report_ready();
      if (!gone_) wait();
    }
    if (!dismissed_) listen();
    if (dismissed_ || trainer_ == 0) return;
    const auto process = supervise::find_process(trainer_);
    supervise::kill_session(trainer_, process ? process->start_ticks : 0);
  }

 private:
  void wait() {
    std::vector<pollfd> files{{options_.socket, POLLIN, 0}};
    milliseconds longest = at_most;
    for (const auto& client : clients_.all()) {
      if (!client) continue;
      files.push_back({client->descriptor(), POLLIN, 0});
      longest = std::min(longest, client->next());
    }
    for (const auto& view : views_) files.push_back({view->descriptor(), POLLIN, 0});
    if (::poll(files.data(), files.size(), static_cast<int>(longest.count())) < 0) return;
    if (files.front().revents != 0) listen();
  }

  void listen() {
    while (const auto message = data::receive_message(options_.socket, gone_)) {
      if (message->text == "bye") dismissed_ = true;
      if (message->text.starts_with("trainer "))
        trainer_ = static_cast<int>(wire::parse_count(message->text.substr(8)).value_or(0));
    }
  }

  void report_ready() {
    const bool all = std::ranges::all_of(views_, &View::mounted);
    if (all && !ready_) gone_ |= !data::send_message(options_.socket, "ready");
    ready_ = all;
  }

  Options options_;
  bool gone_ = false;  // `spotter pipe` has died
  bool dismissed_ = false;
  bool ready_ = false;
  int trainer_ = 0;
  data::Clients clients_{{.environment = act::Environment::of_this_process()}};
  std::vector<std::unique_ptr<View>> views_;  // destroyed before their clients
};

int run(int count, char** words) {
  auto options = parse(count, words);
  if (!options) {
    std::fprintf(stderr, "spotter-fastfile: %s\n", options.error().message.c_str());
    return 2;
  }
  // Signals of the terminal are for the trainer; this process ends with `spotter pipe`.
  for (const int each : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) std::signal(each, SIG_IGN);
  const int socket = options->socket;
  Views views(std::move(*options));
  if (auto begun = views.begin(); !begun) {
    (void)data::send_message(socket, "failed " + begun.error().message);
    return 1;
  }
  views.run();
  return 0;
}

}  // namespace
}  // namespace spotter::fastfile

int main(int count, char** words) { return spotter::fastfile::run(count, words); }
