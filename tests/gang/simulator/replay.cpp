// A gang of Spotter's on a replayed market: the real core, on the machines that the market has.
#include <algorithm>
#include <stdexcept>

#include "tests/gang/simulator/market.hpp"
#include "tests/gang/simulator/world.hpp"

namespace spotter::gang {
namespace {

using simulate::of_seconds;
using simulate::seconds_of;

Settings settings_of(const GangModel& model) {
  Settings settings;
  settings.job = "home";
  settings.size = model.size;
  settings.min = model.min;
  settings.replaced = true;
  return settings;
}

class Replay : public SimWorld {
 public:
  Replay(const std::vector<Lease>& leases, const GangModel& model, std::uint64_t seed)
      : SimWorld(seed, settings_of(model), static_cast<std::int64_t>(model.work),
                 static_cast<std::int64_t>(model.every)),
        model_(model) {
    for (std::size_t i = 0; i < leases.size(); ++i) {
      const Lease& it = leases[i];
      if (it.ready >= it.end) continue;  // it is gone before its agent starts
      happenings_.push_back({begun_ + of_seconds(it.ready), What::Comes, i});
      const double notice = std::max(it.ready, it.end - model.of_one.notice);
      if (it.announced)
        happenings_.push_back(
            {begun_ + of_seconds(notice), What::IsNoticed, i, begun_ + of_seconds(it.end)});
      happenings_.push_back({begun_ + of_seconds(it.end), What::Goes, i});
    }
    std::ranges::sort(happenings_, {}, &Happening::at);
    ids_.resize(leases.size());
    last_ = begun_ + of_seconds(leases.back().end);
  }

  // When it is done, in seconds; none: the market ended first.
  std::optional<double> play() {
    const std::string broken = live();
    if (now_ >= last_) return std::nullopt;
    if (!broken.empty() || summary() != "done")
      throw std::runtime_error("a gang on the market: " + (broken.empty() ? summary() : broken));
    return seconds_of(now_ - begun_);
  }

 protected:
  void happen() override {
    for (; at_ < happenings_.size() && happenings_[at_].at <= now_; ++at_) {
      const Happening& it = happenings_[at_];
      if (it.what == What::Comes) {
        ids_[it.lease] = arrive().id;
        continue;
      }
      SimMachine* const machine = find(ids_[it.lease]);
      if (machine == nullptr) continue;  // it has left by itself
      if (it.what == What::IsNoticed) {
        machine->noticed = true;
        machine->self->leave(it.ends - Duration(5'000));
        machine->dies = std::min(machine->dies, it.ends);
      } else {
        hit(*machine, "its market");
      }
    }
    if (now_ >= last_) broken_.push_back("the market ended");
  }

  // A step takes one second where all machines are there. The last tick's excess is taken off.
  Time step_ends(std::uint64_t round, std::size_t ranks) override {
    const double takes = static_cast<double>(model_.size) / static_cast<double>(ranks);
    Time& exact = exact_[round];
    exact = std::max(exact, now_ - tick_) + of_seconds(takes);
    return exact;
  }
  Duration save_takes() override { return of_seconds(model_.save() - GangModel::longest_commit); }
  Duration opening_takes() override {
    return of_seconds(model_.of_one.trainer_start +
                      model_.of_one.checkpoint / model_.of_one.memory_copy);
  }

 private:
  enum class What : std::uint8_t { Comes, IsNoticed, Goes };
  struct Happening {
    Time at;
    What what = What::Comes;
    std::size_t lease = 0;
    Time ends{};
  };

  const GangModel& model_;
  std::vector<Happening> happenings_;
  std::size_t at_ = 0;
  std::vector<std::string> ids_;
  std::map<std::uint64_t, Time> exact_;
  Time last_{};
};

}  // namespace

std::optional<GangOutcome> play_gang(const std::vector<Lease>& leases, const GangModel& model,
                                     std::uint64_t seed) {
  const auto end = Replay(leases, model, seed).play();
  if (!end) return std::nullopt;
  return outcome_of(leases, *end, model);
}

}  // namespace spotter::gang
