#include "tests/gang/simulator/market.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <stdexcept>

#include "tests/world/random.hpp"

namespace spotter::gang {
namespace {

using simulate::seconds_of;
using simulate::Trace;

// The trace from a moment on, over and over. A node that is there at its end goes on as one of
// those that are there at its beginning.
class Nodes {
 public:
  Nodes(const Trace& trace, double offset) : trace_(trace) {
    while (next_ < trace.changes.size() && trace.changes[next_].at <= offset) take();
    base_ = -offset;
  }

  // The next change, in seconds from the offset on.
  double next() const {
    return base_ + (next_ < trace_.changes.size() ? trace_.changes[next_].at : trace_.length);
  }
  // Carries it out. Given back: the node that goes; "": none.
  std::string take_next() {
    if (next_ < trace_.changes.size()) return take();
    base_ += trace_.length;
    next_ = 0;
    there_.clear();
    while (next_ < trace_.changes.size() && trace_.changes[next_].at <= 0) take();
    return {};
  }
  bool has(const std::string& node) const { return there_.contains(node); }
  // A node that nobody uses; "": there is none.
  std::string any_free(const std::set<std::string>& used, world::Random& random) const {
    std::vector<std::string> free;
    std::ranges::set_difference(there_, used, std::back_inserter(free));
    return free.empty() ? "" : free[random.below(free.size())];
  }

 private:
  std::string take() {
    const Trace::Change& change = trace_.changes[next_++];
    if (change.added) return there_.insert(change.node), "";
    there_.erase(change.node);
    return change.node;
  }

  const Trace& trace_;
  double base_ = 0;
  std::size_t next_ = 0;
  std::set<std::string> there_;
};

// A seat of the gang: a machine, or its request, which is answered from `asks` on.
struct Seat {
  std::string node;
  std::size_t lease = 0;
  double asks = 0;
};

}  // namespace

GangOutcome outcome_of(const std::vector<Lease>& leases, double end, const GangModel& model) {
  double paid = 0;
  for (const Lease& it : leases) paid += std::max(0.0, std::min(it.end, end) - it.begin);
  return {end / 3600, model.work * static_cast<double>(model.size) / paid};
}

std::vector<Lease> draw_leases(const Trace& trace, std::uint64_t seed, const GangModel& model,
                               double length) {
  world::Random random(seed * 7'919 + 5);
  Nodes nodes(trace, random.part() * trace.length);
  std::vector<Seat> seats(model.size);
  std::vector<Lease> leases;
  std::set<std::string> used;
  const auto ask = [&](Seat& seat, double now) {
    seat.node.clear();
    seat.asks = now + seconds_of(random.within(model.of_one.launch));
  };
  const auto give = [&](Seat& seat, double now) {
    seat.node = nodes.any_free(used, random);
    if (seat.node.empty()) return false;
    used.insert(seat.node);
    seat.lease = leases.size();
    leases.push_back({static_cast<std::size_t>(&seat - seats.data()), now,
                      now + seconds_of(random.within(model.of_one.boot)), length,
                      random.part() >= model.of_one.unannounced});
    return true;
  };
  for (Seat& it : seats) ask(it, 0);
  for (double now = 0; now < length;) {
    double next = nodes.next();
    for (const Seat& it : seats)
      if (it.node.empty() && it.asks > now) next = std::min(next, it.asks);
    now = next;
    if (nodes.next() <= now) {
      const std::string gone = nodes.take_next();
      const bool again = gone.empty();
      for (Seat& it : seats) {
        if (it.node.empty() || nodes.has(it.node)) continue;
        used.erase(it.node);
        const std::string other = again ? nodes.any_free(used, random) : "";
        if (!other.empty()) {  // the trace began again
          used.insert(it.node = other);
          continue;
        }
        leases[it.lease].end = now;
        ask(it, now);
      }
    }
    for (Seat& it : seats)
      if (it.node.empty() && it.asks <= now) give(it, now);
  }
  return leases;
}

// A machine that stays pays nothing for others that come or go, and all that is done until a
// machine's end is kept but for the seconds of one save.
std::optional<GangOutcome> play_bound(const std::vector<Lease>& leases, const GangModel& model) {
  const double wanted = model.work * static_cast<double>(model.size);
  const auto done_by = [&](double now) {
    double done = 0;
    for (const Lease& it : leases) {
      const double end = std::min(it.end, now) - model.save();
      done += std::max(0.0, end - it.ready - model.of_one.trainer_start);
    }
    return done;
  };
  double least = 0, most = 0;
  for (const Lease& it : leases) most = std::max(most, it.end);
  if (done_by(most) < wanted) return std::nullopt;
  while (most - least > 1)
    (done_by((least + most) / 2) < wanted ? least : most) = (least + most) / 2;
  return outcome_of(leases, most, model);
}

// torchrun with min = max: whoever is left waits for a machine in the place of who went, and all go
// on from the newest of the checkpoints that are written every ten minutes. That one is gone is
// seen at once.
std::optional<GangOutcome> play_waiting(const std::vector<Lease>& leases, const GangModel& model) {
  std::set<double> times;
  for (const Lease& it : leases) times.insert({it.ready, it.end});
  double done = 0, since = -1;
  for (const double now : times) {
    std::size_t there = 0;
    for (const Lease& it : leases) there += it.ready <= now && now < it.end ? 1 : 0;
    const double period = model.of_one.period + model.save();
    const double trained = since < 0 ? 0 : now - since - model.of_one.trainer_start;
    const bool ends = std::ranges::any_of(leases, [&](const Lease& it) { return it.end == now; });
    if (since >= 0 && trained > 0 && done + trained / period * model.of_one.period >= model.work) {
      const double end =
          since + model.of_one.trainer_start + (model.work - done) / model.of_one.period * period;
      return outcome_of(leases, end, model);
    }
    if (since >= 0 && ends) {
      done += std::max(0.0, std::floor(trained / period)) * model.of_one.period;
      since = -1;
    }
    if (since < 0 && there == model.size) since = now;
  }
  return std::nullopt;
}

int replay_gangs(const std::vector<std::string>& traces, std::size_t seeds) {
  const GangModel model;
  bool right = true;
  std::printf("%-8s %-16s %14s %18s %10s\n", "trace", "policy", "hours", "goodput", "of bound");
  for (const std::string& file : traces) {
    const Trace trace = simulate::load_trace(file);
    const char* names[] = {"bound", "spotter", "waits for all"};
    std::vector<std::vector<GangOutcome>> all(std::size(names));
    for (std::size_t seed = 0; seed < seeds; ++seed) {
      const auto leases = draw_leases(trace, seed, model, 40 * model.work);
      const auto bound = play_bound(leases, model);
      const auto ours = play_gang(leases, model, seed);
      const auto waiting = play_waiting(leases, model);
      if (!bound || !ours || !waiting) throw std::runtime_error(file + ": the market is too short");
      all[0].push_back(*bound);
      all[1].push_back(*ours);
      all[2].push_back(*waiting);
    }
    const auto mean = [](const std::vector<GangOutcome>& of, double GangOutcome::*what) {
      double sum = 0;
      for (const GangOutcome& it : of) sum += it.*what;
      return sum / static_cast<double>(of.size());
    };
    const double most = mean(all[0], &GangOutcome::goodput);
    for (std::size_t i = 0; i < all.size(); ++i)
      std::printf("%-8s %-16s %14.1f %16.1f %% %8.1f %%\n", trace.name.c_str(), names[i],
                  mean(all[i], &GangOutcome::hours), 100 * mean(all[i], &GangOutcome::goodput),
                  100 * mean(all[i], &GangOutcome::goodput) / most);
    const double ours = mean(all[1], &GangOutcome::goodput);
    right = right && ours <= most && ours >= mean(all[2], &GangOutcome::goodput);
  }
  return right ? 0 : 1;
}

}  // namespace spotter::gang
