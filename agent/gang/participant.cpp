#include "agent/gang/participant.hpp"

#include <algorithm>

namespace spotter::gang {
namespace {

using Phase = Record::Phase;

bool stays(const Member& member) { return !member.leaves_in && !member.left_out; }

bool is_ready(const Member& member) { return member.ready && stays(member); }

bool is_apart(const Member& member) { return is_ready(member) && member.apart; }

bool is_ranked(const Record& record, const std::string& id) {
  return std::ranges::find(record.ranks, id) != record.ranks.end();
}

std::size_t count(const Record& record, bool (*which)(const Member&)) {
  return static_cast<std::size_t>(std::ranges::count_if(record.members, which));
}

std::string who_is_ready(const Record& record) {
  std::string text;
  for (const Member& each : record.members)
    if (is_ready(each)) text += each.id + "\n";
  return text;
}

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

// Of the last round. Who is left out of the next one, or only slow, is not lost.
bool has_lost_one(const Record& record) {
  return std::ranges::any_of(record.ranks, [&](const std::string& id) {
    const Member* member = record.find(id);
    return member == nullptr || member->leaves_in;
  });
}

// All of the last round, and others: that one ended since these came.
bool has_grown(const Record& record, const std::vector<std::string>& ranks) {
  return ranks.size() > record.ranks.size() &&
         std::ranges::all_of(record.ranks, [&](const std::string& id) {
           return std::ranges::find(ranks, id) != ranks.end();
         });
}

// A round is over when one of its members is gone, or asks for the next one.
void end_round(Record& record) {
  if (record.phase != Phase::Training) return;
  const auto is_over = [&](const std::string& id) {
    const Member* member = record.find(id);
    return member == nullptr || member->ready;
  };
  if (std::ranges::any_of(record.ranks, is_over)) record.phase = Phase::Forming;
}

void give_up(Record& record, const std::string& id) {
  std::erase_if(record.members, [&](const Member& each) { return each.id == id; });
  end_round(record);
}

}  // namespace

std::optional<Ask> Participant::next(Time now) {
  if (awaited_ || foreign_) return std::nullopt;
  if (!looked_ || now >= look_at_) {
    awaited_ = true;
    return Look{};
  }
  Record record = wanted(now);
  if (record == record_) return std::nullopt;
  // Each write says that it lives.
  const Member* before = record_.find(settings_.id);
  if (Member* me = record.find(settings_.id); me != nullptr)
    me->beats = before == nullptr ? 1 : before->beats + 1;
  record.writer = settings_.id + ":" + std::to_string(++writes_);
  writing_ = record;
  awaited_ = true;
  sent_ = now;
  return Write{std::move(record), etag_};
}

void Participant::looked(Time now, const std::optional<Seen>& seen) {
  awaited_ = false;
  record_ = seen ? seen->record : Record{.job = settings_.job};
  etag_ = seen ? seen->etag : "";
  foreign_ = record_.job != settings_.job;
  if (foreign_) return;
  if (!looked_) accepted_ = looked_at_ = now;
  // The answer to its last write was lost, and the write was done.
  if (writes_ > 0 && record_.writer == writing_.writer) accepted_ = std::max(accepted_, sent_);
  looked_ = true;
  was_open_ = was_open_ || record_.phase != Phase::Failed;
  const Time before = looked_at_;
  looked_at_ = now;
  // What could not be seen for long has not stood still for long.
  saw(before, std::clamp(now - before, Duration(0), 2 * settings_.look_every));
  const bool forming = record_.phase == Phase::Forming;
  look_at_ = now + (forming ? settings_.look_every_forming : settings_.look_every);
}

void Participant::wrote(Time now, const std::string& etag) {
  awaited_ = false;
  accepted_ = sent_;
  sooner_ = false;
  record_ = writing_;
  etag_ = etag;
  was_open_ = true;
  saw(now, Duration(0));
}

void Participant::refused(Time now) {
  awaited_ = false;
  look_at_ = now;
}

void Participant::unanswered(Time now) {
  awaited_ = false;
  look_at_ = now + settings_.look_every;
}

void Participant::ready(std::uint16_t port, std::int64_t progress, bool apart) {
  ready_ = true;
  apart_ = apart;
  works_ = finished_ = false;
  place_.reset();
  port_ = port;
  progress_ = std::clamp<std::int64_t>(progress, -1, most_steps);
  over_since_.reset();
}

void Participant::idle() {
  works_ = ready_ = false;
  place_.reset();
}

void Participant::leave(Time until) {
  sooner_ = sooner_ || (leaves_at_ && until < *leaves_at_);
  leaves_at_ = leaves_at_ ? std::min(*leaves_at_, until) : until;
}

void Participant::saw(Time before, Duration passed) {
  watch(passed);
  take_place();
  watch_leavers(before);
  const bool over = works_ && record_.phase != Phase::Done &&
                    (record_.phase != Phase::Training || record_.round != in_round_);
  if (!is_done()) done_since_.reset();
  if (is_done() && !done_since_) done_since_ = looked_at_;
  if (!over) over_since_.reset();
  if (over && !over_since_) over_since_ = looked_at_;
}

void Participant::watch(Duration passed) {
  std::map<std::string, Watched> seen;
  for (const Member& each : record_.members) {
    if (each.id == settings_.id) continue;
    const auto known = watched_.find(each.id);
    const bool still = known != watched_.end() && known->second.beats == each.beats;
    seen[each.id] = {each.beats, still ? known->second.still + passed : Duration(0)};
  }
  watched_ = std::move(seen);
  std::string waiting = who_is_ready(record_);
  steady_ = waiting == waiting_ ? steady_ + passed : Duration(0);
  waiting_ = std::move(waiting);
}

void Participant::take_place() {
  if (!ready_ || record_.phase != Phase::Training || record_.round <= in_round_) return;
  const auto found = std::ranges::find(record_.ranks, settings_.id);
  if (found == record_.ranks.end()) return;
  Place place{record_.round, static_cast<std::size_t>(found - record_.ranks.begin())};
  for (const std::string& id : record_.ranks) {
    const Member* member = record_.find(id);
    if (member == nullptr) return;  // it is over already
    place.machines.push_back({member->name, member->address, member->port});
  }
  // Else it was formed with a launcher before this one.
  if (place.machines[place.rank].port != port_) return;
  place_ = std::move(place);
  in_round_ = record_.round;
  leads_ = place_->rank == 0;
  ready_ = false;
  works_ = true;
  leavers_.clear();
}

// It was said at some time after the look before this one.
void Participant::watch_leavers(Time before) {
  if (!works_ || record_.round != in_round_) return;
  for (const Member& each : record_.members) {
    if (!each.leaves_in || each.id == settings_.id || !is_ranked(record_, each.id)) continue;
    const bool now = *each.leaves_in == Duration(0);
    const auto until = now ? std::nullopt : std::optional(before + *each.leaves_in);
    auto& known = leavers_.try_emplace(each.id, until).first->second;
    if (known && (!until || *until < *known)) known = until;  // it has less time than it said
  }
}

std::optional<Place> Participant::place() { return std::exchange(place_, std::nullopt); }

bool Participant::is_gone() const {
  return gone_ && looked_ && (is_done() || record_.find(settings_.id) == nullptr);
}

std::optional<std::string> Participant::must_end(Time now) const {
  if (!works_) return std::nullopt;
  if (is_done()) {
    // Its own workers have nothing to wait for but a machine that is gone.
    if (done_since_ && now - *done_since_ >= settings_.last_grace) return "the gang is done";
    return std::nullopt;
  }
  if (now - accepted_ > settings_.lease)
    return "S3 has taken nothing from this machine for a lease: the others may go on without it";
  if (over_since_ && now - *over_since_ >= settings_.grace)
    return "round " + std::to_string(in_round_) + " is over";
  return std::nullopt;
}

std::optional<Stop> Participant::must_stop() const {
  if (!works_ || record_.phase != Phase::Training || record_.round != in_round_)
    return std::nullopt;
  if (!leavers_.empty()) {
    const auto first = std::ranges::min_element(
        leavers_, {}, [](const auto& each) { return each.second.value_or(Time::min()); });
    const Member* member = record_.find(first->first);
    return Stop{(member != nullptr ? member->name : first->first) + " leaves", first->second};
  }
  if (record_.ranks.size() >= settings_.size) return std::nullopt;
  for (const Member& each : record_.members)
    if (is_ready(each) && !is_ranked(record_, each.id)) return Stop{each.name + " joins", {}};
  return std::nullopt;
}

std::string Participant::waits_for() const {
  if (!looked_) return "S3's answer";
  if (const Member* me = record_.find(settings_.id); me != nullptr && me->left_out)
    return "the gang's end: since this machine came they did not all reach one another, and the "
           "others go on without it";
  const std::size_t ready = count(record_, is_ready);
  if (ready < settings_.min)
    return std::to_string(settings_.min) + " machines at least: " + std::to_string(ready) +
           (ready == 1 ? " is ready" : " are ready");
  std::string names;
  for (const Member& each : record_.members)
    if (!is_ready(each) && stays(each)) names += (names.empty() ? "" : ", ") + each.name;
  if (!names.empty()) return names;
  return "others, until " + std::to_string(settings_.size) + " are ready";
}

// --- what the record should say

Record Participant::wanted(Time now) const {
  Record record = record_;
  if (record.phase == Phase::Done) return record;
  // Also where a member has left the round since, or this one has to leave: no later one has begun.
  if (finished_ && works_ && leads_ && record.round == in_round_) {
    record.phase = Phase::Done;
    return record;
  }
  if (gone_) {
    give_up(record, settings_.id);
    return record;
  }
  if (record.phase == Phase::Failed) {
    if (was_open_) return record;
    record.phase = Phase::Forming;
    record.failures = record.apart = 0;
    record.ranks.clear();
  }
  join(record, now);
  drop_the_dead(record);
  end_round(record);
  form(record);
  return record;
}

void Participant::join(Record& record, Time now) const {
  Member* me = record.find(settings_.id);
  if (me == nullptr && (is_leaving() || record.members.size() >= most_members)) return;
  if (me == nullptr)
    me = &record.members.emplace_back(Member{.id = settings_.id, .name = settings_.name});
  me->ready = ready_;
  me->apart = ready_ && apart_;
  if (ready_) {
    me->address = settings_.address;
    me->port = port_;
  }
  if (leaves_at_ && (!me->leaves_in || sooner_))
    me->leaves_in = std::clamp(*leaves_at_ - now, Duration(0), longest_leave);
  const bool awaited = record.phase == Phase::Forming && !ready_ && is_ranked(record, me->id);
  if (now - accepted_ >= (awaited ? settings_.beat_every_forming() : settings_.beat_every()))
    ++me->beats;
}

void Participant::drop_the_dead(Record& record) const {
  for (const auto& [id, watched] : watched_)
    if (watched.still >= settings_.lease + settings_.margin) give_up(record, id);
}

// It is of the last round, and will be ready. One that was killed has not been seen to write since.
bool Participant::lives(const Member& member) const {
  if (member.id == settings_.id) return true;
  const auto watched = watched_.find(member.id);
  return watched != watched_.end() && watched->second.still < settings_.last_call;
}

// For all that may still come, and for a network that may come back.
bool Participant::waited(const Record& record) const {
  const std::size_t ready = count(record, is_ready);
  const std::size_t stay = count(record, stays);
  const bool first = record.round == 0, apart = count(record, is_apart) > 0;
  const Duration pause =
      std::min(record.apart * settings_.apart_pause, settings_.longest_apart_pause);
  if (apart && steady_ < pause) return false;
  if (ready >= settings_.size || (ready == stay && !first)) return true;
  const bool slow = std::ranges::any_of(record.members, [&](const Member& each) {
    return !each.ready && stays(each) && is_ranked(record, each.id) && lives(each);
  });
  const Duration patience = first  ? settings_.first_call
                            : slow ? settings_.slow_call()
                                   : settings_.last_call;
  return steady_ >= patience && who_is_ready(record) == waiting_;
}

void Participant::form(Record& record) const {
  if (record.phase != Phase::Forming) return;
  const std::size_t ready = count(record, is_ready);
  if (ready == 0 || ready < settings_.min || !waited(record)) return;
  const bool first = record.round == 0, lost = has_lost_one(record);
  const bool fell_apart = count(record, is_apart) > 0, apart = fell_apart && !lost;
  record.apart = apart ? record.apart + 1 : 0;
  for (Member& each : record.members)
    each.trained = each.trained || (!fell_apart && is_ranked(record, each.id));
  if (record.apart >= settings_.most_apart_with_new) leave_out_one(record);
  auto ranks = ranks_of(record, settings_.size);
  const bool progressed = progress_ > record.progress, grown = has_grown(record, ranks);
  // Whose trainer never began has not failed, nor has one that was asked to stop for others.
  if (lost || first || (grown && progressed))
    record.failures = 0;
  else if (!apart && !grown)
    record.failures = progressed ? 1 : record.failures + 1;
  record.progress = std::max(record.progress, progress_);
  for (Member& each : record.members)
    if (std::ranges::find(ranks, each.id) != ranks.end()) each.ready = each.apart = false;
  if (record.failures > settings_.most_failures || record.apart > settings_.most_apart) {
    record.phase = Phase::Failed;
    return;
  }
  record.ranks = std::move(ranks);
  record.phase = Phase::Training;
  ++record.round;
}

// The last that came, where enough stay without it that have trained together.
void Participant::leave_out_one(Record& record) const {
  if (count(record, is_ready) <= settings_.min ||
      count(record, [](const Member& each) { return is_ready(each) && each.trained; }) == 0)
    return;
  for (auto id = record.ranks.rbegin(); id != record.ranks.rend(); ++id) {
    Member* const member = record.find(*id);
    if (member == nullptr || !is_ready(*member) || member->trained) continue;
    member->left_out = true;
    return;
  }
}

}  // namespace spotter::gang
