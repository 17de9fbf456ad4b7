#include "agent/tools/status/serve.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "agent/base/exit_status.hpp"
#include "agent/io/complain.hpp"
#include "agent/tools/report/report_sources.hpp"
#include "agent/tools/status/page_server.hpp"

namespace spotter::command {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds shortest_pause{1};
// For the history of a three-day job, some MiB, this uses at most a tenth of a core.
constexpr int pause_per_look = 10;
// Requests to S3 cost money.
constexpr std::chrono::seconds bucket_pause{10};
constexpr std::chrono::minutes prices_hold{30};
// Without a page to serve nothing is read.
constexpr std::chrono::seconds idle{30};
// Storage that hangs must not delay the end.
constexpr std::chrono::seconds patience{2};

bool is_remote(const ReportPlace& place) {
  std::error_code error;
  if (!place.from.empty()) return place.from.starts_with("s3://");
  return place.job && !std::filesystem::is_directory(place.job->home(), error);
}

// Reads the job periodically in its own thread, as the storage may hang.
class Watcher {
 public:
  explicit Watcher(ReportPlace place) : place_(std::move(place)) {
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
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

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

  const ReportPlace place_;
  report::Prices prices_;
  Clock::time_point prices_due_ = Clock::now() + shortest_pause;  // the page is served first
  std::mutex mutex_;                                              // guards the members below
  std::condition_variable changed_;
  std::shared_ptr<const json> latest_;
  Clock::time_point asked_ = Clock::now();
  bool stopping_ = false, ended_ = false;
  std::thread thread_;
};

}  // namespace

void add_serve_options(CLI::App& status, ServeOptions& options) {
  auto* wanted = status.add_flag(
      "--serve", options.wanted,
      "Shows the job as a page in a browser, at an address of this machine that it prints, until "
      "Ctrl-C; from elsewhere: ssh -L. Without --job it is that of job.yaml here, or the "
      "service's");
  status.add_option("--port", options.port, "The page's port; else one that is free")
      ->needs(wanted);
  status
      .add_option("--from", options.shown.from,
                  "For the page: where the job's history is, as for spotter report")
      ->needs(wanted);
}

int serve(const ServeOptions& options) {
  auto place = place_of(options.shown);
  if (!place) {
    io::complain("status", place.error().message);
    return wrong_input;
  }
  Watcher watcher(std::move(*place));
  const auto served = serve_page({options.port, [&] { return watcher.latest(); },
                                  [](const std::string& url) {
                                    std::printf("%s\n", url.c_str());
                                    std::fflush(stdout);
                                  }});
  if (served) return 0;
  io::complain("status", served.error().message);
  return 1;
}

}  // namespace spotter::command
