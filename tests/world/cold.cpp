#include "tests/world/cold.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace spotter::world {
namespace {

constexpr double gp3_throughput = 125;  // MiB/s, where the volume says none

Duration of_seconds(double time) {
  return std::chrono::round<Duration>(std::chrono::duration<double>(time));
}
double seconds_of(Duration time) { return std::chrono::duration<double>(time).count(); }

double content_of(const Volume& volume) {  // MiB
  return 1024 * static_cast<double>(volume.cold->gibibytes);
}

// The share that a rate has loaded `since` its creation.
double loaded(const Volume& volume, Duration since) {
  const double mebibytes = volume.initialization_rate.value_or(0) * seconds_of(since);
  return std::clamp(mebibytes / content_of(volume), 0.0, 1.0);
}

}  // namespace

double price_of_rate(const ColdSettings& settings, int rate, double gibibytes) {
  return settings.rate_dollars * rate * gibibytes;
}

Duration first_read(const Volume& volume, const ColdSettings& settings, double mebibytes,
                    double in_flight, Duration since) {
  const double disk = volume.throughput.value_or(gp3_throughput);
  if (!volume.cold) return of_seconds(mebibytes / disk);
  const double by_requests = in_flight * volume.cold->request;
  const double cold = std::min({by_requests, settings.touches * settings.touched, disk});
  // The limit is that of the blocks that a rate has not loaded by then.
  constexpr double step = 0.1;
  double takes = 0;
  for (double left = mebibytes; left > 0;) {
    const double missing = 1 - loaded(volume, since + of_seconds(takes));
    const double speed = missing > cold / disk ? cold / missing : disk;
    takes += std::min(step, left / speed);
    left -= speed * step;
  }
  return std::max(of_seconds(takes), loaded(volume, since) < 1 ? settings.touch : Duration{0});
}

ColdReads::ColdReads(const Of& volume, const ColdSettings& settings)
    : volume_(volume),
      settings_(settings),
      warm_at_(static_cast<std::size_t>(static_cast<double>(volume.mebibytes) / settings.touched),
               std::numeric_limits<double>::infinity()) {
  if (volume_.throughput <= 0) volume_.throughput = gp3_throughput;
}

double ColdReads::done(std::uint64_t offset, std::uint64_t bytes, double now) {
  constexpr double mebibyte = 1U << 20;
  const double size = static_cast<double>(bytes) / mebibyte;
  disk_until_ = std::max(disk_until_, now) + size / volume_.throughput;
  double over = disk_until_;
  const double own = std::max(seconds_of(settings_.touch), size / volume_.request);
  const double whole = std::max(own, settings_.touched / volume_.request);
  const auto first =
      static_cast<std::size_t>(static_cast<double>(offset) / mebibyte / settings_.touched);
  const auto end = static_cast<double>(offset + bytes) / mebibyte / settings_.touched;
  for (std::size_t i = first; i < std::min<double>(end, static_cast<double>(warm_at_.size()));
       ++i) {
    const bool loaded = static_cast<double>(i) * settings_.touched < volume_.rate * now;
    if (loaded) continue;
    if (!std::isinf(warm_at_[i])) {
      over = std::max(over, warm_at_[i]);
      continue;
    }
    touches_until_ = std::max(touches_until_, now) + 1 / settings_.touches;
    warm_at_[i] = std::max(touches_until_, now + whole);
    over = std::max({over, touches_until_, now + own});
  }
  return over;
}

void warm(ColdBlocks& cold, const ColdSettings& settings, double mebibytes, Time now) {
  if (now - cold.since >= settings.shown_late) {
    cold.shown = cold.warm;
    cold.since = now;
  }
  cold.warm += mebibytes;
}

int progress_shown(const Volume& volume, const ColdSettings& settings, Time now) {
  const ColdBlocks& cold = *volume.cold;
  const double touched = now - cold.since >= settings.shown_late ? cold.warm : cold.shown;
  const Duration old = (now - volume.created) % settings.shown_late;
  const double share =
      std::max(touched / content_of(volume), loaded(volume, now - volume.created - old));
  return static_cast<int>(100 * std::min(share, 1.0));
}

std::optional<Duration> loads_for(const Volume& volume, Time now) {
  if (!volume.initialization_rate) return std::nullopt;
  const Duration takes = of_seconds(content_of(volume) / *volume.initialization_rate);
  return std::max(Duration{0}, takes - (now - volume.created));
}

}  // namespace spotter::world
