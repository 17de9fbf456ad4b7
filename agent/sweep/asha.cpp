#include "agent/sweep/asha.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "agent/base/record.hpp"
#include "agent/base/text.hpp"

namespace spotter::sweep {
namespace {

constexpr std::uint64_t known_record = 1;
constexpr std::uint32_t rungs_by_default = 3;
constexpr std::uint32_t most_rungs = 64;  // that a step of 64 bits can reach

std::uint64_t mixed(std::uint64_t number) {  // SplitMix64
  number += 0x9e3779b97f4a7c15U;
  number = (number ^ (number >> 30U)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27U)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31U);
}

RungStore::Answer<std::optional<RungRecord>> record_of(RungStore& store, std::string name) {
  const auto text = co_await store.read(name);
  if (!text) co_return tl::unexpected(text.error());
  if (!*text) co_return std::nullopt;
  auto record = parse_rung_record(**text);
  if (!record) co_return failure(name + ": " + record.error().message);
  co_return std::move(*record);
}

// A sample that has nothing to do with the indices' order, as a grid's neighbours are alike.
void keep_some(std::vector<std::string>& names, std::size_t index) {
  if (names.size() <= most_compared) return;
  std::ranges::sort(names, {}, [&](const std::string& name) {
    return mixed(std::hash<std::string>()(name) ^ mixed(index));
  });
  names.resize(most_compared);
}

}  // namespace

std::optional<std::uint32_t> rung_at(const Asha& rule, std::uint64_t step,
                                     std::optional<std::uint64_t> steps_total) {
  if (steps_total && step >= *steps_total) return std::nullopt;
  if (!rule.first && !steps_total) return std::nullopt;
  const auto reduction = static_cast<double>(rule.reduction);
  double place = rule.first ? static_cast<double>(*rule.first)
                            : static_cast<double>(*steps_total) / std::pow(reduction, 3);
  const std::uint32_t most = rule.first ? most_rungs : rungs_by_default;
  // A quotient may be a little more than the step that is meant.
  constexpr double rounding = 1 - 1e-9;
  std::optional<std::uint32_t> reached;
  for (std::uint32_t rung = 0; rung < most; ++rung, place *= reduction) {
    if (static_cast<double>(step) < place * rounding) break;
    reached = rung;
  }
  return reached;
}

bool goes_on(const Asha& rule, std::size_t better, std::size_t compared) {
  return better < (compared + rule.reduction - 1) / rule.reduction;
}

std::string to_json(const RungRecord& record) { return wire::document_of(record, known_record); }

Result<RungRecord> parse_rung_record(std::string_view text) {
  return wire::parse_document<RungRecord>(text, known_record, "the value at a rung");
}

std::string rungs_folder(const Asha& rule, const Objective& objective) {
  std::string name = objective.metric;
  std::ranges::replace(name, '/', '.');
  return "rungs/" + name + (objective.largest_is_best ? "-max-" : "-min-") +
         (rule.first ? std::to_string(*rule.first) : "total") + '-' +
         std::to_string(rule.reduction) + '/';
}

std::string rung_folder(std::uint32_t rung) { return std::to_string(rung) + "/"; }

std::string rung_name(std::uint32_t rung, std::size_t index) {
  return rung_folder(rung) + printed("%05zu", index);
}

asio::awaitable<Result<RungRecord>> settle(RungStore& store, Asha rule, Objective objective,
                                           Measured measured) {
  const std::string own = rung_name(measured.rung, measured.index);
  for (std::uint32_t rung = measured.judged; rung <= measured.rung; ++rung) {
    auto there = co_await record_of(store, rung_name(rung, measured.index));
    if (!there) co_return tl::unexpected(there.error());
    if (*there && (rung == measured.rung || !(*there)->goes_on)) co_return std::move(**there);
  }
  auto names = co_await store.list(rung_folder(measured.rung));
  if (!names) co_return tl::unexpected(names.error());
  std::erase(*names, own);
  keep_some(*names, measured.index);
  RungRecord record{.step = measured.step, .metric = objective.metric, .value = measured.value};
  for (const std::string& name : *names) {
    const auto text = co_await store.read(name);
    if (!text) co_return tl::unexpected(text.error());
    // A damaged record must not keep all others from an end.
    const auto other = *text ? parse_rung_record(**text) : failure("it is gone");
    if (!other || other->metric != objective.metric) continue;
    ++record.compared;
    const bool better =
        objective.largest_is_best ? other->value > record.value : other->value < record.value;
    record.better += better ? 1 : 0;
  }
  record.goes_on = goes_on(rule, record.better, record.compared);
  const auto written = co_await store.write_once(own, to_json(record));
  if (!written) co_return tl::unexpected(written.error());
  if (*written) co_return record;
  auto looking = record_of(store, own);  // another holder of this experiment was faster
  auto there = co_await std::move(looking);
  if (!there) co_return tl::unexpected(there.error());
  if (!*there) co_return failure(own + " is gone again");
  co_return std::move(**there);
}

std::string why_stopped(const Asha& rule, const RungRecord& record) {
  return record.metric + " " + printed("%.5g", record.value) + " at step " +
         std::to_string(record.step) + " is not among the best 1/" +
         std::to_string(rule.reduction) + " of the " + std::to_string(record.compared) +
         " that came so far: " + std::to_string(record.better) + " were better";
}

}  // namespace spotter::sweep
