#include "agent/gang/account.hpp"

#include <algorithm>

namespace spotter::gang {
namespace {

using Why = Account::Why;
using Does = Account::Does;

std::string name_of(const Record& record, const std::string& id) {
  const Member* member = record.find(id);
  return member != nullptr ? member->name : id;
}

void add(std::string& names, const std::string& name) {
  names += (names.empty() ? "" : ", ") + name;
}

Does what_it_does(const Record& record, const Member& member, bool is_ranked) {
  const bool training = record.phase == Record::Phase::Training;
  if (member.leaves_in || member.given_back) return Does::Leaves;
  if (training && is_ranked) return Does::Trains;
  if (!member.ready) return Does::Awaited;
  return training ? Does::Spare : Does::Waits;
}

std::vector<Account::Of> members_of(const Record& record) {
  std::vector<Account::Of> all;
  for (const std::string& id : record.ranks)
    if (const Member* member = record.find(id))
      all.push_back({member->name, what_it_does(record, *member, true)});
  for (const Member& each : record.members)
    if (std::ranges::find(record.ranks, each.id) == record.ranks.end())
      all.push_back({each.name, what_it_does(record, each, false)});
  return all;
}

}  // namespace

std::string_view to_text(Why why) {
  constexpr std::string_view words[] = {"first", "left", "lost",  "joined",
                                        "apart", "torn", "failed"};
  return words[static_cast<std::size_t>(why)];
}

std::string_view to_text(Does does) {
  constexpr std::string_view words[] = {"trains", "waits", "awaited", "leaves", "spare"};
  return words[static_cast<std::size_t>(does)];
}

const Account& Accountant::look(Time now, const Participant& participant, bool asks) {
  const Record& record = participant.record();
  account_.members = members_of(record);
  account_.machines = record.phase == Record::Phase::Training ? record.ranks.size() : 0;
  account_.round = record.round;
  if (!record.ranks.empty()) account_.leader = name_of(record, record.ranks.front());
  account_.waits_for = asks ? participant.waits_for() : "";
  for (const Member& each : record.members)
    if (each.leaves_in) leavers_.insert(each.id);
  if (looked_ && (since_ || round_ != 0)) (since_ ? between_ : trained_) += now - *looked_;
  looked_ = now;
  if (participant.round() != round_) {
    begin(now, participant);
    return account_;
  }
  const auto stop = participant.must_stop();
  const bool ends = asks || (stop && !stop->by) || (round_ != 0 && participant.is_over(round_));
  if (ends && !since_) since_ = now;
  return account_;
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
  account_.why = first             ? Why::First
                 : !lost.empty()   ? Why::Lost
                 : !left.empty()   ? Why::Left
                 : !joined.empty() ? Why::Joined
                 : apart           ? Why::Apart
                 : torn            ? Why::Torn
                                   : Why::Failed;
  account_.who = first ? "" : !lost.empty() ? lost : !left.empty() ? left : joined;
  account_.took = now - since_.value_or(now);
  ++account_.rounds;
  round_ = participant.round();
  names_ = std::move(names);
  apart_ = record.apart;
  failures_ = record.failures;
  leavers_.clear();
  since_.reset();
}

}  // namespace spotter::gang
