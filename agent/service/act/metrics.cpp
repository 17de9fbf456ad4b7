#include "agent/service/act/metrics.hpp"

#include <algorithm>
#include <utility>

namespace spotter::act {
namespace {

// A share may refuse writes for hours: so many points are kept, evenly thinned.
constexpr std::size_t most_points = 2048;

void resume(Metrics::News& news, std::uint64_t step) {
  news.curve.resume(step);
  news.resumed = std::min(step, news.resumed.value_or(step));
}

}  // namespace

void take(wire::Progress& known, const wire::Progress& newer) {
  // A run that started over has other ones.
  MetricValues older = newer.step < known.step ? MetricValues() : std::move(known.metrics);
  known = newer;
  for (auto& [name, value] : older)
    if (known.metrics.size() < most_metrics) known.metrics.emplace(name, value);
}

void Metrics::on_message(const wire::TrainerMessage& message,
                         std::chrono::system_clock::time_point now) {
  if (message.resumed_step) resume(news_, *message.resumed_step);
  if (!message.progress) return;
  const wire::Progress& said = *message.progress;
  news_.curve.add({said.step, said.epoch, said.loss, said.accuracy,
                   std::chrono::duration<double>(now.time_since_epoch()).count(), said.metrics});
  if (news_.curve.points().size() > most_points) news_.curve.thin(most_points / 2);
}

void Metrics::put_back(News older) {
  if (news_.resumed) resume(older, *news_.resumed);
  older.curve.append(news_.curve);
  news_ = std::move(older);
}

}  // namespace spotter::act
