#include "agent/launch/step_pace.hpp"

namespace spotter::launch {
namespace {

constexpr Duration renewed{120'000};
constexpr double much = 3;  // of what a step takes else

}  // namespace

double StepPace::Stretch::per_step() const {
  return std::chrono::duration<double>(time).count() / static_cast<double>(steps);
}

StepPace::Stretch StepPace::between(const Mark& from, const Mark& to) {
  return {to.step - from.step, to.at - from.at};
}

void StepPace::observe(std::uint64_t step, Time now) {
  const Mark mark{step, now};
  if (!older_ || step < last_.step) {  // it began again at an earlier step
    older_ = newer_ = last_ = mark;
    slowest_ = slowest_of_newer_ = {};
    return;
  }
  if (step == last_.step) return;  // of the same step again
  const Stretch stretch = between(last_, mark);
  last_ = mark;
  for (Stretch* slowest : {&slowest_, &slowest_of_newer_})
    if (slowest->steps == 0 || stretch.per_step() > slowest->per_step()) *slowest = stretch;
  if (now - newer_.at < renewed) return;
  older_ = newer_;
  newer_ = mark;
  slowest_ = slowest_of_newer_;
  slowest_of_newer_ = {};
}

std::optional<double> StepPace::per_second() const {
  if (!older_ || last_.step <= older_->step || last_.at <= older_->at) return std::nullopt;
  const Stretch all = between(*older_, last_);
  const Stretch others{all.steps - slowest_.steps, all.time - slowest_.time};
  const bool paused = others.steps > 0 && others.steps >= slowest_.steps &&
                      others.time > Duration{} && slowest_.per_step() > much * others.per_step();
  return 1 / (paused ? others : all).per_step();
}

}  // namespace spotter::launch
