#include "trainer/library/s3_mirror.hpp"

#include <sys/resource.h>

#include <atomic>
#include <mutex>

#include "trainer/library/own_thread.hpp"
#include "trainer/library/s3_place.hpp"

namespace spotter::checkpoint {

namespace {

constexpr int lowest_priority = 19;

class S3Mirror final : public Mirror {
 public:
  S3Mirror(Settings settings, wire::S3Location prefix, s3::Settings client)
      : settings_(std::move(settings)), prefix_(std::move(prefix)), client_(std::move(client)) {
    thread_.begin([this] { work(); });
  }
  ~S3Mirror() override {
    thread_.end(mutex_, [this] { ending_ = true; });
  }

  void offer(const std::filesystem::path& checkpoint, std::uint64_t step) override;
  bool wait(std::chrono::nanoseconds at_most) override;
  Result<std::optional<Loaded>> newest(std::optional<std::uint64_t> after,
                                       std::vector<Torn>& torn) override;

 private:
  struct Offer {
    std::filesystem::path checkpoint;
    std::uint64_t step;
  };

  void work();

  Settings settings_;
  wire::S3Location prefix_;
  s3::Settings client_;
  std::mutex mutex_;
  std::optional<Offer> waiting_;
  bool copying_ = false;
  std::atomic<bool> ending_ = false;
  OwnThread thread_;
};

void S3Mirror::offer(const std::filesystem::path& checkpoint, std::uint64_t step) {
  if (thread_.inherited()) return;
  {
    const std::scoped_lock lock(mutex_);
    waiting_ = {checkpoint, step};
  }
  thread_.changed().notify_all();
}

bool S3Mirror::wait(std::chrono::nanoseconds at_most) {
  if (thread_.inherited()) return true;
  std::unique_lock lock(mutex_);
  return thread_.changed().wait_for(lock, at_most, [this] { return !waiting_ && !copying_; });
}

void S3Mirror::work() {
  // On Linux of this thread, and of those that it starts: training has the processor first.
  ::setpriority(PRIO_PROCESS, 0, lowest_priority);
  S3Place place(prefix_, client_);
  std::unique_lock lock(mutex_);
  while (true) {
    thread_.changed().wait(lock, [this] { return ending_ || waiting_; });
    if (ending_) return;
    const Offer offer = std::move(*waiting_);
    waiting_.reset();
    copying_ = true;
    lock.unlock();
    const auto copied = place.copy(offer.checkpoint, offer.step, settings_.retention, ending_);
    if (!copied && !ending_ && settings_.trouble) {
      settings_.trouble("no copy of step " + std::to_string(offer.step) + " in " + settings_.place +
                        ": " + copied.error().message);
    }
    lock.lock();
    copying_ = false;
    thread_.changed().notify_all();
  }
}

Result<std::optional<Loaded>> S3Mirror::newest(std::optional<std::uint64_t> after,
                                               std::vector<Torn>& torn) {
  S3Place place(prefix_, client_);
  const auto steps = place.steps();
  if (!steps) return tl::unexpected(steps.error());
  for (const auto step : *steps) {
    if (after && step <= *after) break;
    auto loaded = place.load(step);
    if (loaded) return std::optional(std::move(*loaded));
    const Refusal& refused = loaded.error();
    if (refused.why != Refusal::Why::Torn) {
      const bool newer = refused.why == Refusal::Why::Newer;
      return failure(refused.reason, newer ? wire::newer_format : "");
    }
    torn.push_back({place.shown(step), {}, refused.reason});
  }
  return std::optional<Loaded>();
}

}  // namespace

Result<std::unique_ptr<Mirror>> open_s3_mirror(Mirror::Settings settings,
                                               std::optional<s3::Settings> client) {
  auto prefix = wire::parse_s3_url(settings.place);
  if (!prefix) return tl::unexpected(prefix.error());
  if (!prefix->key.empty() && !prefix->key.ends_with('/')) prefix->key += '/';
  if (!client) client = s3::Settings{.environment = act::Environment::of_this_process()};
  return std::make_unique<S3Mirror>(std::move(settings), std::move(*prefix), std::move(*client));
}

}  // namespace spotter::checkpoint
