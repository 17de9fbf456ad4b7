#include "agent/gang/rounds.hpp"

#include <algorithm>

namespace spotter::gang {
namespace {

using Phase = Record::Phase;

// Those of the last round keep their order, so that the leader stays who it was.
std::vector<std::string> ranks_of(const Record& record, std::size_t most) {
  std::vector<std::string> ranks, others;
  for (const std::string& id : record.ranks) {
    const Member* member = record.find(id);
    if (member != nullptr && is_ready(*member)) ranks.push_back(id);
  }
  for (const Member& each : record.members)
    if (is_ready(each) && !is_ranked(record, each.id)) others.push_back(each.id);
  std::ranges::sort(others);
  ranks.insert(ranks.end(), others.begin(), others.end());
  ranks.resize(std::min(ranks.size(), most));
  return ranks;
}

// All of the last round, and others: that one ended since these came.
bool has_grown(const Record& record, const std::vector<std::string>& ranks) {
  return ranks.size() > record.ranks.size() &&
         std::ranges::all_of(record.ranks, [&](const std::string& id) {
           return std::ranges::find(ranks, id) != ranks.end();
         });
}

// Why the last round is over.
struct Past {
  bool first = false;       // there was none
  bool lost = false;        // a machine is gone or silent, or goes. One that is slow is not lost
  bool apart = false;       // its workers never began: a machine did not reach another
  bool torn = false;        // workers lost those of another machine, and none failed by itself
  bool failed = false;      // workers of a machine that is here failed by themselves
  bool ended = false;       // all that are here were ended, as S3 did not answer, say: none failed
  bool complete = true;     // all its machines are here
  bool progressed = false;  // there is a new checkpoint since it began
  std::vector<std::string> hung{};  // whose machine says that a rank of it hung
};

Past look_back(const Record& record, bool progressed, const IsSilent& is_silent) {
  Past past{.first = record.round == 0, .progressed = progressed};
  const bool alone = record.ranks.size() < 2;
  bool torn = false, ended = true, here = false;
  for (const std::string& id : record.ranks) {
    const Member* member = record.find(id);
    if (member == nullptr || member->leaves_in || (!member->ready && is_silent(*member)))
      past.lost = true;
    if (member == nullptr || !is_ready(*member)) {
      past.complete = false;
      continue;
    }
    here = true;
    past.apart = past.apart || member->apart;
    const bool lost_another = member->end == End::Torn && !alone;  // else there was no other
    torn = torn || lost_another;
    ended = ended && member->end == End::Ended;
    past.failed = past.failed || member->end == End::Failed || member->end == End::Hung ||
                  (member->end == End::Torn && !lost_another);
    if (member->end == End::Hung) past.hung.push_back(id);
  }
  past.torn = torn && !past.failed && !past.apart;
  past.ended = ended && here;  // who is not here has not ended the round
  return past;
}

// Whose trainer never began has not failed, nor has one that lost the others, or was asked to stop
// for others. Who was to join may be gone by now: that round has saved, and nobody says that it
// failed.
void count_failures(Record& record, const Past& past, bool grown) {
  if (past.lost || past.first || ((grown || !past.failed) && past.progressed))
    record.failures = 0;
  else if (!past.apart && !past.torn && !past.ended && !grown)
    record.failures = past.progressed ? 1 : record.failures + 1;
}

// Whom most others did not reach. Two that do not reach each other say nothing of either.
Member* unreached(Record& record) {
  for (const std::string& id : record.ranks) {
    const auto named = std::ranges::count_if(record.ranks, [&](const std::string& other) {
      const Member* member = record.find(other);
      return member != nullptr && other != id && is_apart(*member) && member->missed == id;
    });
    const auto others = static_cast<std::ptrdiff_t>(record.ranks.size()) - 1;
    if (named >= 2 && 2 * named > others) return record.find(id);
  }
  return nullptr;
}

// A network may be away for a while: the same rounds in succession are the second reason only
// later. Where several machines say that a rank of theirs hung, it is what they have in common: a
// share, a collective on the GPUs; one that says nothing, as it does not reach S3, may be another.
void count_faults(Record& record, const Settings& settings, const Past& past) {
  Member* const member = unreached(record);
  if (member != nullptr && record.apart % settings.most_apart_with_new == 1) ++member->faults;
  if (past.hung.size() == 1 && past.complete) ++record.find(past.hung.front())->faults;
}

// What a machine was the reason for long ago is forgotten, and who was given back. A new checkpoint
// is not enough: all save because another machine comes, and a trainer that hangs on any machine
// may have saved before.
void forget_faults(Record& record, const Settings& settings, const Past& past, bool grown) {
  if (past.apart || !past.hung.empty())
    record.sound = 0;
  else if (past.progressed && !grown)
    ++record.sound;
  if (record.sound < settings.rounds_to_forget) return;
  record.sound = record.given_back = 0;
  record.faults.clear();
  for (Member& each : record.members) each.faults = 0;
}

bool one_goes(const Record& record) {
  return std::ranges::any_of(record.members, &Member::given_back);
}

// A trainer that hangs wherever it is would else have all machines replaced, again and again.
bool may_go_unused(const Record& record, const Settings& settings, const Member& member) {
  return member.replaced && !one_goes(record) && record.given_back < settings.size;
}

// Where all are there, the fleet gets what it asks for. Else nobody knows when another one comes:
// then as many as are needed stay, and no second one goes before others are there for both.
bool may_be_given_back(const Record& record, const Settings& settings, const Member& member) {
  if (!may_go_unused(record, settings, member)) return false;
  const std::size_t stay = count(record, stays);
  return stay >= settings.size || (stay > settings.min && record.given_back == 0);
}

void give_back(Record& record, Member& member) {
  member.given_back = true;
  ++record.given_back;
}

// Never the last; where others come in its place there may be fewer than `min` until then. One that
// was left out while another went, or when enough had gone, is paid for until it is given back.
void give_back_one(Record& record, const Settings& settings) {
  if (count(record, stays) >= 2)
    for (Member& each : record.members)
      if (stays(each) && each.faults > settings.most_faults &&
          may_be_given_back(record, settings, each))
        return give_back(record, each);
  for (Member& each : record.members)
    if (each.left_out && may_go_unused(record, settings, each)) return give_back(record, each);
}

// The last that came, where enough stay without it that have trained together.
void leave_out_one(Record& record, const Settings& settings) {
  if (count(record, is_ready) <= settings.min ||
      count(record, [](const Member& each) { return is_ready(each) && each.trained; }) == 0)
    return;
  for (auto id = record.ranks.rbegin(); id != record.ranks.rend(); ++id) {
    Member* const member = record.find(*id);
    if (member == nullptr || !is_ready(*member) || member->trained) continue;
    if (may_go_unused(record, settings, *member)) return give_back(record, *member);
    member->left_out = !member->replaced || !one_goes(record);  // else it goes as the next one
    return;
  }
}

void count_network(Record& record, const Past& past) {
  record.apart = past.apart && !past.lost ? record.apart + 1 : 0;
  if (past.progressed || past.lost) record.torn = 0;
  if (past.torn && !past.lost) ++record.torn;
}

}  // namespace

bool stays(const Member& member) {
  return !member.leaves_in && !member.left_out && !member.given_back;
}

bool is_ready(const Member& member) { return member.ready && stays(member); }

bool is_apart(const Member& member) { return is_ready(member) && member.apart; }

bool is_ranked(const Record& record, const std::string& id) {
  return std::ranges::find(record.ranks, id) != record.ranks.end();
}

std::size_t count(const Record& record, bool (*which)(const Member&)) {
  return static_cast<std::size_t>(std::ranges::count_if(record.members, which));
}

void begin_round(Record& record, const Settings& settings, const IsSilent& is_silent) {
  const Past past = look_back(record, record.newest > record.progress, is_silent);
  count_network(record, past);
  // Where workers connect, and nothing larger comes through, no machine has trained with it.
  const bool trained = !past.apart && (!past.torn || past.progressed);
  for (Member& each : record.members)
    each.trained = each.trained || (trained && is_ranked(record, each.id));
  const bool torn_with_new =
      past.torn && past.complete && record.torn >= settings.most_apart_with_new;
  if (record.apart >= settings.most_apart_with_new || torn_with_new)
    leave_out_one(record, settings);
  count_faults(record, settings, past);
  give_back_one(record, settings);
  auto ranks = ranks_of(record, settings.size);
  const bool grown = has_grown(record, ranks);
  count_failures(record, past, grown);
  forget_faults(record, settings, past, grown);
  record.progress = std::max(record.progress, record.newest);
  const bool begins = ranks.size() >= settings.min;
  for (Member& each : record.members) {
    if (!begins || std::ranges::find(ranks, each.id) == ranks.end()) continue;
    each.ready = each.apart = false;
    each.missed.clear();
    each.end = End::Other;
  }
  if (record.failures > settings.most_failures || record.apart > settings.most_apart ||
      record.torn > settings.most_torn) {
    record.phase = Phase::Failed;
    return;
  }
  // Too few without one that is given back: they wait for another. What the last round says is
  // said: without ranks it is not said again.
  if (!begins) return record.ranks.clear();
  record.ranks = std::move(ranks);
  record.phase = Phase::Training;
  ++record.round;
}

bool take_back(Record& record, const Settings& settings) {
  const auto is_left_out = [](const Member& each) {
    return each.left_out && !each.given_back && !each.leaves_in;
  };
  const std::size_t stay = count(record, stays);
  if (stay >= settings.min || stay + count(record, is_left_out) < settings.min) return false;
  std::size_t lack = settings.min - stay;
  for (Member& each : record.members) {
    if (lack == 0 || !is_left_out(each)) continue;
    each.left_out = false;
    --lack;
  }
  return true;
}

}  // namespace spotter::gang
