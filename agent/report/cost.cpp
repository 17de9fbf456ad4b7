// The cost of the machines, and the productive part of their time.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "agent/base/text.hpp"
#include "agent/report/boots.hpp"

namespace spotter::report {
namespace {

constexpr double hour = 3600;
// From boot to the agent's first entry, which may include installing a package.
constexpr double longest_boot = hour;

// One machine's time from boot to end, over all experiments trained on it.
struct Span {
  std::string id, type, zone;
  double from = 0, to = 0;
  Number booted, price;
  bool taken_away = false;  // by EC2, as far as it announced that
};

Span span_of(const Boot& boot, double now) {
  const Instance& it = boot.shown;
  const double latest = std::max(boot.last_seen, std::min(now, boot.last_seen + silence));
  const double from = begin_of(it);
  // A notice of an Auto Scaling group comes from the group, not from EC2.
  const bool taken = it.end == Instance::End::Interrupted && boot.notice->action != "group";
  return {it.id,     it.type,  it.zone, from, std::max(from, it.ended.value_or(latest)),
          it.booted, it.price, taken};
}

bool is_same_machine(const Span& one, const Span& later) {
  if (one.id != later.id) return false;
  if (one.booted && later.booted) return std::abs(*one.booted - *later.booted) <= same_boot;
  return later.from <= one.to;
}

std::vector<Span> spans_of(const std::vector<Boot>& all, double now) {
  std::vector<Span> each;
  each.reserve(all.size());
  for (const Boot& boot : all) each.push_back(span_of(boot, now));
  std::ranges::sort(each, [](const Span& one, const Span& other) {
    return std::tie(one.id, one.from) < std::tie(other.id, other.from);
  });
  std::vector<Span> joined;
  for (Span& span : each) {
    if (!joined.empty() && is_same_machine(joined.back(), span)) {
      Span& whole = joined.back();
      whole.to = std::max(whole.to, span.to);
      whole.taken_away = whole.taken_away || span.taken_away;
      if (!whole.price) whole.price = span.price;
      if (whole.type.empty()) whole.type = span.type;
      if (whole.zone.empty()) whole.zone = span.zone;
    } else {
      joined.push_back(std::move(span));
    }
  }
  return joined;
}

double seconds_of(wire::WallTime time) {
  return static_cast<double>(time.time_since_epoch().count());
}

// The dollars by the spot prices of one type and zone: each holds until the next. None: the time
// begins before the first price.
Number dollars_of(const Span& span, const std::vector<wire::SpotPrice>& prices) {
  std::vector<const wire::SpotPrice*> its;
  for (const wire::SpotPrice& price : prices)
    if (price.type.view() == span.type && price.zone.view() == span.zone) its.push_back(&price);
  std::ranges::stable_sort(its, {}, [](const auto* price) { return price->since; });
  if (its.empty() || seconds_of(its.front()->since) > span.from) return std::nullopt;
  double dollars = 0;
  for (std::size_t i = 0; i < its.size(); ++i) {
    const double from = std::max(span.from, seconds_of(its[i]->since));
    const double to =
        i + 1 < its.size() ? std::min(span.to, seconds_of(its[i + 1]->since)) : span.to;
    dollars += between(from, to) / hour * its[i]->dollars_per_hour;
  }
  return dollars;
}

Number price_of_another(const Span& span, const std::vector<Span>& spans) {
  Number found;
  for (const Span& other : spans) {
    if (!other.price || other.type != span.type) continue;
    if (!found || other.zone == span.zone) found = other.price;
  }
  return found;
}

class Sum {
 public:
  Sum(const std::vector<Span>& spans, const Prices& prices) : spans_(spans), prices_(prices) {
    for (const Span& span : spans) add(span);
  }

  Cost cost() const {
    Cost cost;
    cost.instance_seconds = seconds_;
    cost.notes = prices_.notes;
    if (spans_.empty()) return cost;
    if (spot_unknown_ == 0) cost.spot_dollars = spot_;
    if (on_demand_unknown_.empty()) cost.on_demand_dollars = on_demand_;
    add_notes(cost.notes);
    if (!cost.spot_dollars || !cost.on_demand_dollars || seconds_ <= 0) return cost;
    cost.billable_seconds = billable_;
    cost.savings_percent = (1 - billable_ / seconds_) * 100;
    cost.formula = "(1 - billable seconds / training seconds) x 100 = (1 - " +
                   printed("%.0f", billable_) + " / " + printed("%.0f", seconds_) +
                   ") x 100 = " + printed("%.1f", *cost.savings_percent) +
                   "; billable: what the spot dollars buy on demand";
    return cost;
  }

 private:
  void add(const Span& span) {
    const double hours = (span.to - span.from) / hour;
    seconds_ += span.to - span.from;
    Number spot = dollars_of(span, prices_.spot);
    if (spot) ++of_the_market_;
    if (!spot) {
      const Number price = span.price ? span.price : price_of_another(span, spans_);
      if (price) spot = *price * hours;
    }
    const Number on_demand = on_demand_price(span.type);
    if (!spot) ++spot_unknown_;
    if (spot && span.taken_away && hours < 1) free_.push_back(*spot);
    if (!on_demand) on_demand_unknown_[span.type.empty() ? "machines without a type" : span.type]++;
    spot_ += spot.value_or(0);
    on_demand_ += on_demand.value_or(0) * hours;
    if (spot && on_demand) billable_ += *spot / *on_demand * hour;
  }
  Number on_demand_price(const std::string& type) const {
    Number price = prices_.on_demand_of_all;
    const auto found = prices_.on_demand.find(type);
    if (!price && found != prices_.on_demand.end()) price = found->second;
    return price && *price > 0 ? price : Number();
  }
  void add_notes(std::vector<std::string>& notes) const {
    const std::size_t known = spans_.size() - spot_unknown_;
    if (spot_unknown_ > 0)
      notes.push_back("no cost: the spot price of " + std::to_string(spot_unknown_) + " of " +
                      std::to_string(spans_.size()) + " machines is not known");
    else if (of_the_market_ == known)
      notes.emplace_back("spot prices: DescribeSpotPriceHistory, over each machine's time");
    else
      notes.push_back("spot prices: as each machine saw them when it began" +
                      (of_the_market_ == 0 ? std::string()
                                           : ", for " + std::to_string(known - of_the_market_) +
                                                 " of " + std::to_string(spans_.size()) +
                                                 "; DescribeSpotPriceHistory for the others"));
    // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/billing-for-interrupted-spot-instances.html
    if (spot_unknown_ == 0 && !free_.empty())
      notes.push_back("EC2 does not charge for a machine that it interrupts in its first hour: " +
                      std::to_string(free_.size()) + " of " + std::to_string(spans_.size()) +
                      ", $" + printed("%.4f", std::accumulate(free_.begin(), free_.end(), 0.0)) +
                      " of the cost, from which it is not taken off");
    std::string without;
    for (const auto& [type, machines] : on_demand_unknown_)
      without += (without.empty() ? "" : ", ") + type;
    if (!without.empty())
      notes.push_back("no savings: the on-demand price is not known of " + without +
                      "; name it with --on-demand DOLLARS");
  }

  const std::vector<Span>& spans_;
  const Prices& prices_;
  double seconds_ = 0, spot_ = 0, on_demand_ = 0, billable_ = 0;
  std::size_t spot_unknown_ = 0, of_the_market_ = 0;
  std::vector<double> free_;  // dollars, of machines that EC2 may not charge for
  std::map<std::string, std::size_t> on_demand_unknown_;
};

// The note on a home in a bucket; empty: there is none. Each account has all of its job before it.
std::string requests_to_s3(const std::vector<Boot>& all) {
  std::map<Experiment, std::pair<double, double>> of;
  for (const Boot& boot : all) {
    auto& [writes, reads] = of[boot.shown.experiment];
    writes = std::max(writes, boot.s3_writes.value_or(0));
    reads = std::max(reads, boot.s3_reads.value_or(0));
  }
  double writes = 0, reads = 0;
  for (const auto& [experiment, its] : of) {
    writes += its.first;
    reads += its.second;
  }
  if (writes + reads <= 0) return {};
  // S3 Standard in us-east-1; about the same elsewhere. https://aws.amazon.com/s3/pricing/
  constexpr double write_dollars = 5e-6, read_dollars = 0.4e-6;
  return "requests to S3 for the job's home: " + printed("%.0f", writes) + " that write, " +
         printed("%.0f", reads) + " that read, about $" +
         printed("%.4f", writes * write_dollars + reads * read_dollars) +
         ", which is not in the cost";
}

double trained_in_phases(const Boot& boot, double now) {
  double seconds = 0;
  const double latest = std::max(boot.last_seen, std::min(now, boot.last_seen + silence));
  double stopping = 0;  // time in which a trainer may still have trained
  for (const Instance::Phase& each : boot.shown.phases) {
    const double its = between(each.from, each.to.value_or(latest));
    if (each.phase == "training") seconds += its;
    if (each.phase == "stopping") stopping += its;
  }
  double window = 0;
  for (const Ended& each : boot.ended) window += each.window_trained.value_or(0);
  return seconds + std::min(window, stopping);
}

}  // namespace

double begin_of(const Instance& instance) {
  const double began = instance.began;
  const double boot = instance.booted.value_or(began);
  return boot <= began && began - boot < longest_boot ? boot : began;
}

Cost cost_of(const std::vector<Boot>& all, const Prices& prices, double now) {
  const auto spans = spans_of(all, now);
  Cost cost = Sum(spans, prices).cost();
  if (std::string requests = requests_to_s3(all); !requests.empty())
    cost.notes.push_back(std::move(requests));
  return cost;
}

Goodput goodput_of(const std::vector<Track>& tracks, const std::vector<Repeat>& repeats,
                   const Elapsed& elapsed) {
  Goodput goodput;
  goodput.elapsed_seconds = elapsed.seconds;
  std::int64_t steps = 0;  // that were trained, including repeated ones
  for (const Repeat& each : repeats) goodput.repeated_steps += each.repeated_steps;
  for (const Track& track : tracks) {
    std::int64_t reached = track.reached;
    for (const Boot& boot : track.boots) {
      goodput.trained_seconds += trained_in_phases(boot, elapsed.now);
      for (const Ended& each : boot.ended) {
        goodput.stall_seconds += each.stall_seconds.value_or(0);
        reached = std::max(reached, each.step.value_or(0));
      }
      for (const Checkpoint& each : boot.checkpoints)
        reached = std::max(reached, each.step.value_or(0));
      for (const Resumed& each : boot.resumed)
        reached = std::max(reached, each.step.value_or(0) + each.repeated.value_or(0));
    }
    steps += reached;
  }
  steps += goodput.repeated_steps;
  if (steps > 0)
    goodput.repeated_seconds = goodput.trained_seconds *
                               static_cast<double>(goodput.repeated_steps) /
                               static_cast<double>(steps);
  goodput.stall_seconds = std::min(goodput.stall_seconds, goodput.trained_seconds);
  if (elapsed.seconds <= 0) return goodput;
  const double counts = goodput.trained_seconds - goodput.repeated_seconds - goodput.stall_seconds;
  goodput.part = std::clamp(counts / elapsed.seconds, 0.0, 1.0);
  return goodput;
}

}  // namespace spotter::report
