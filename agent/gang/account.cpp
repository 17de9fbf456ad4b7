#include "agent/gang/participant.hpp"

#include <algorithm>

namespace spotter::gang {
namespace {

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::string name_of(const Record& record, const std::string& id) {
  const Member* member = record.find(id);
  return member != nullptr ? member->name : id;
}

void add(std::string& names, const std::string& name) {
  names += (names.empty() ? "" : ", ") + name;
}

std::string what_it_does(const Record& record, const Member& member, bool is_ranked) {
  const bool training = record.phase == Record::Phase::Training;
  if (member.leaves_in || member.given_back) return "leaves";
  if (training && is_ranked) return "trains";
  if (!member.ready) return "awaited";
  return training ? "spare" : "waits";
}

std::vector<wire::GangReport::Of> members_of(const Record& record) {
  std::vector<wire::GangReport::Of> all;
  for (const std::string& id : record.ranks)
    if (const Member* member = record.find(id))
      all.push_back({member->name, what_it_does(record, *member, true)});
  for (const Member& each : record.members)
    if (std::ranges::find(record.ranks, each.id) == record.ranks.end())
      all.push_back({each.name, what_it_does(record, each, false)});
  return all;
}

}  // namespace

const wire::GangReport& Accountant::look(Time now, const Participant& participant, bool asks) {
  const Record& record = participant.record();
  report_.by_name = members_of(record);
  report_.members = report_.by_name.size();
  report_.machines = record.phase == Record::Phase::Training ? record.ranks.size() : 0;
  report_.round = record.round;
  if (!record.ranks.empty()) report_.leader = name_of(record, record.ranks.front());
  report_.waits_for = asks ? participant.waits_for() : "";
  for (const Member& each : record.members)
    if (each.leaves_in) leavers_.insert(each.id);
  if (looked_ && (since_ || round_ != 0)) (since_ ? between_ : trained_) += now - *looked_;
  looked_ = now;
  report_.trained = seconds_of(trained_);
  report_.between = seconds_of(between_);
  if (participant.round() != round_) {
    begin(now, participant);
    return report_;
  }
  const auto stop = participant.must_stop();
  const bool ends = asks || (stop && !stop->by) || (round_ != 0 && participant.is_over(round_));
  if (ends && !since_) since_ = now;
  return report_;
}

void Accountant::begin(Time now, const Participant& participant) {
  const Record& record = participant.record();
  std::map<std::string, std::string> names;
  for (const std::string& id : record.ranks) names.emplace(id, name_of(record, id));
  std::string left, lost, joined;
  for (const auto& [id, name] : names_)
    if (!names.contains(id)) add(leavers_.contains(id) ? left : lost, name);
  for (const auto& [id, name] : names)
    if (!names_.contains(id)) add(joined, name);
  const bool first = names_.empty(), apart = record.apart > apart_,
             torn = record.torn > 0 && record.failures <= failures_;
  report_.why = first             ? "first"
                : !lost.empty()   ? "lost"
                : !left.empty()   ? "left"
                : !joined.empty() ? "joined"
                : apart           ? "apart"
                : torn            ? "torn"
                                  : "failed";
  report_.who = first ? "" : !lost.empty() ? lost : !left.empty() ? left : joined;
  report_.took = seconds_of(now - since_.value_or(now));
  ++report_.rounds;
  round_ = participant.round();
  names_ = std::move(names);
  apart_ = record.apart;
  failures_ = record.failures;
  leavers_.clear();
  since_.reset();
}

}  // namespace spotter::gang
