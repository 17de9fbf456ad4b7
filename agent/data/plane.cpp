#include "agent/data/plane.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>

#include <algorithm>
#include <cstring>

#include "agent/data/catalogue.hpp"
#include "agent/data/fifo.hpp"
#include "agent/io/files.hpp"

namespace spotter::data {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds look_again{5};
constexpr milliseconds at_most{1000};
constexpr std::chrono::seconds between_flows{10};
constexpr std::chrono::seconds last_patience{10};

class Plane {
 public:
  Plane(const PlaneSettings& settings, int socket)
      : settings_(settings), socket_(socket), clients_(settings.s3) {}

  Result<void> begin() {
    ::signal(SIGPIPE, SIG_IGN);
    for (const auto& folder : {settings_.directory, settings_.state}) {
      if (folder.empty()) continue;
      TRY(behind("cannot make " + folder.string(), io::make_directories(folder, 0755)));
    }
    if (settings_.budget < least_budget * settings_.channels.size())
      return failure("the channels' memory is too small: 1 MiB for each, at least");
    await_predecessor();
    opened_ = Descriptor(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    requests_.emplace(TRY(Requests::make(settings_.directory)));
    if (!opened_ ||
        ::inotify_add_watch(opened_.get(), settings_.directory.c_str(),
                            IN_OPEN | IN_CLOSE_NOWRITE) < 0 ||
        ::inotify_add_watch(opened_.get(), requests_->folder().c_str(),
                            IN_CLOSE_WRITE | IN_MOVED_TO) < 0) {
      return failure("cannot watch " + settings_.directory.string() + ": " + std::strerror(errno));
    }
    for (const auto& channel : settings_.channels) TRY(add(channel));
    return {};
  }

  void run() {
    while (!gone_ && !may_leave()) {
      for (const auto& client : clients_.all()) {
        if (client) client->turn(milliseconds(0));
      }
      if (unanswered_) begin_where_asked();
      for (const auto& stream : streams_) stream->advance();
      report_failures();
      if (std::chrono::steady_clock::now() - flows_reported_ >= between_flows) report_flows();
      if (!gone_) wait();
    }
    report_flows();
    if (!dismissed_) listen();  // the message may have come just before
    if (!dismissed_ && settings_.orphaned) settings_.orphaned(trainer_);
  }

 private:
  Result<void> add(const wire::Channel& channel) {
    const std::size_t budget = settings_.budget / settings_.channels.size();
    StreamSettings stream{.channel = channel,
                          .directory = settings_.directory,
                          .budget = budget,
                          .splice = settings_.splice && budget >= good_budget,
                          .shard = channel.sharded ? settings_.shard : Shard{}};
    if (!settings_.state.empty()) stream.frozen = settings_.state / (channel.name + ".listing");
    const auto start = settings_.start.find(channel.name);
    if (start != settings_.start.end()) stream.start = start->second;
    auto made = TRY(Stream::make(std::move(stream), clients_.of(channel),
                                 {.made =
                                      [this](const std::string& name, int write_end) {
                                        gone_ |= !send_message(socket_, "made " + name, write_end);
                                      },
                                  .ended =
                                      [this](const std::string& name) {
                                        gone_ |= !send_message(socket_, "ended " + name);
                                      }}));
    streams_.push_back(std::move(made));
    return {};
  }

  void wait() {
    std::vector<pollfd> files{{opened_.get(), POLLIN, 0}, {socket_, POLLIN, 0}};
    milliseconds longest = unanswered_ ? look_again : at_most;
    for (const auto& client : clients_.all()) {
      if (!client) continue;
      files.push_back({client->descriptor(), POLLIN, 0});
      longest = std::min(longest, client->next());
    }
    for (const auto& stream : streams_) {
      files.push_back(stream->poll_for());
      if (stream->needs_polling()) longest = std::min(longest, look_again);
    }
    if (::poll(files.data(), files.size(), static_cast<int>(longest.count())) < 0) return;
    if (files[0].revents != 0) {
      std::array<char, 4096> events{};
      while (::read(opened_.get(), events.data(), events.size()) > 0) {
      }
      unanswered_ = true;
    }
    if (files[1].revents != 0) listen();
  }

  void listen() {
    while (const auto message = receive_message(socket_, gone_)) {
      if (message->text == "bye") dismissed_ = std::chrono::steady_clock::now();
      if (message->text.starts_with("trainer "))
        trainer_ = static_cast<int>(wire::parse_count(message->text.substr(8)).value_or(0));
    }
  }

  void report_failures() {
    for (const auto& stream : streams_) {
      if (failure_reported_ || !stream->failed()) continue;
      failure_reported_ = true;
      gone_ |= !send_message(socket_, "failed " + *stream->failed());
    }
  }

  void report_flows() {
    if (!settings_.flows) return;
    for (const auto& stream : streams_) settings_.flows(*stream);
    flows_reported_ = std::chrono::steady_clock::now();
  }

  void begin_where_asked() {
    unanswered_ = false;
    for (const auto& stream : streams_) {
      const auto start = requests_->asked(stream->name());
      if (!start) {
        gone_ |= !send_message(socket_,
                               "failed channel " + stream->name() + ": " + start.error().message);
      } else if (!*start) {
        continue;
      } else if (!stream->begin_at(**start)) {
        unanswered_ = true;  // inotify reports a close just before the reader is gone
        continue;
      }
      requests_->answer(stream->name());
    }
  }

  // Waits for a plane whose `spotter pipe` was killed: it notices within moments, and removes what
  // it had made here. Does not wait if the directory cannot be locked (NFS).
  void await_predecessor() {
    lock_ = Descriptor(::open(settings_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int tries = 0; tries < 100; ++tries) {
      if (::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
      ::usleep(100'000);
    }
  }

  // Waits while a refusal may be on its way: a command that reads nothing ends before it comes, and
  // nobody would hear of it.
  bool may_leave() {
    if (!dismissed_) return false;
    const auto waits = std::ranges::find_if_not(streams_, &Stream::answered);
    if (waits == streams_.end() || failure_reported_) return true;
    if (std::chrono::steady_clock::now() - *dismissed_ < last_patience) return false;
    (void)send_message(socket_, "failed channel " + (*waits)->name() +
                                    ": the command has ended before S3 answered at all");
    return true;
  }

  const PlaneSettings& settings_;
  int socket_;
  bool gone_ = false;  // the holder has died
  bool unanswered_ = false;
  std::optional<std::chrono::steady_clock::time_point> dismissed_;
  int trainer_ = 0;
  bool failure_reported_ = false;
  std::chrono::steady_clock::time_point flows_reported_ = std::chrono::steady_clock::now();
  Descriptor lock_;  // of the directory: released after all else
  std::optional<Requests> requests_;
  Descriptor opened_;  // inotify: FIFOs opened, and requests
  Clients clients_;
  std::vector<std::unique_ptr<Stream>> streams_;  // destroyed before their clients
};

}  // namespace

Result<void> run_plane(const PlaneSettings& settings, int socket) {
  Plane plane(settings, socket);
  TRY(plane.begin());
  if (!send_message(socket, "ready")) return failure("nobody waits for the data");
  plane.run();
  return {};
}

}  // namespace spotter::data
