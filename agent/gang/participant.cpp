#include "agent/gang/participant.hpp"

#include <algorithm>

namespace spotter::gang {
namespace {

using Phase = Record::Phase;

// Waits for a further round, in which it may be; apart: it could not reach a machine of the last.
bool is_ready(const Member& member) { return member.ready && stays(member); }
bool is_apart(const Member& member) { return is_ready(member) && member.apart; }

std::string who_is_ready(const Record& record) {
  std::string text;
  for (const Member& each : record.members)
    if (is_ready(each)) text += each.id + "\n";
  return text;
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
  if (const Member* gone = record.find(id); gone != nullptr && gone->faults > 0 &&
                                            !gone->given_back && !gone->name.empty() &&
                                            record.faults.size() < most_members)
    record.faults[gone->name] = std::max(record.faults[gone->name], gone->faults);
  std::erase_if(record.members, [&](const Member& each) { return each.id == id; });
  end_round(record);
}

// Those of its machine, from an earlier process; of one that was killed the lease may not be over.
std::uint32_t faults_of(Record& record, const Member& member) {
  std::uint32_t faults = 0;
  for (const Member& each : record.members)
    if (each.name == member.name) faults = std::max(faults, each.faults);
  if (const auto known = record.faults.find(member.name); known != record.faults.end()) {
    faults = std::max(faults, known->second);
    record.faults.erase(known);
  }
  return faults;
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
  bool lost = false;        // a machine is gone or silent, or goes. A slow one is not lost
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

// A trainer that never began has not failed, nor has one that lost the others, or was asked to stop
// for others. The members that were to join may be gone by now: that round has saved, and nobody
// says that it failed.
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
// later. If several machines say that a rank of theirs hung, the reason is what they have in
// common: a share, a collective on the GPUs; a machine that says nothing, as it does not reach S3,
// may be another.
void count_faults(Record& record, const Settings& settings, const Past& past) {
  Member* const member = unreached(record);
  if (member != nullptr && record.apart % settings.most_apart_with_new == 1) ++member->faults;
  if (past.hung.size() == 1 && past.complete) ++record.find(past.hung.front())->faults;
}

// Old reasons for the end of a round are forgotten, and who was given back for them. A new
// checkpoint is not enough: all save because another machine comes, and a trainer that hangs on any
// machine may have saved before.
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

// A full gang gives a machine back, and the fleet launches another. In a smaller one nobody knows
// when another machine comes: as many as are needed stay, and no second one goes before others are
// there for both.
bool may_be_given_back(const Record& record, const Settings& settings, const Member& member) {
  if (!may_go_unused(record, settings, member)) return false;
  const std::size_t stay = count(record, stays);
  return stay >= settings.size || (stay > settings.min && record.given_back == 0);
}

void give_back(Record& record, Member& member) {
  member.given_back = true;
  ++record.given_back;
}

// Never the last; if others come in its place there may be fewer than `min` until then. A machine
// that was left out while another went, or when enough had gone, is paid for until it is given
// back.
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

// Called if fewer than `min` stay. Takes back as many of those that were left out as are needed,
// and returns true, if that is enough. The reason for leaving one of them out was a guess.
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

}  // namespace

std::optional<Ask> Participant::next(Time now) {
  if (awaited_ || foreign_) return std::nullopt;
  if (!looked_ || now >= look_at_) {
    awaited_ = true;
    return Look{};
  }
  Record record = wanted(now);
  if (record == record_) return std::nullopt;
  // Each write says that it lives. A member that was dropped, and joins again, writes beats that it
  // never had: a member that saw nothing meanwhile would else take it to have stood still.
  const Member* before = record_.find(settings_.id);
  if (Member* me = record.find(settings_.id); me != nullptr)
    me->beats = (before == nullptr ? writes_ : before->beats) + 1;
  record.writer = settings_.id + ":" + std::to_string(++writes_);
  writing_ = record;
  awaited_ = true;
  sent_ = now;
  return Write{std::move(record), etag_};
}

void Participant::looked(Time now, std::optional<Seen> seen) {
  awaited_ = false;
  record_ = seen ? std::move(seen->record) : Record{.job = settings_.job};
  etag_ = seen ? std::move(seen->etag) : "";
  foreign_ = record_.job != settings_.job;
  if (foreign_) return;
  if (!looked_) accepted_ = looked_at_ = now;
  // The answer to its last write was lost, and the write was done.
  if (writes_ > 0 && record_.writer == writing_.writer) accepted_ = std::max(accepted_, sent_);
  looked_ = true;
  was_open_ = was_open_ || record_.phase != Phase::Failed;
  const Time before = looked_at_;
  looked_at_ = now;
  // A long time without a look counts as a short one of standing still.
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

void Participant::ready(std::uint16_t port, std::int64_t progress, Last last) {
  ready_ = true;
  drop_place();
  if (untaken_)
    last_ = {.apart = true};
  else if (!said_ || last.end != End::Other || last.apart)
    last_ = std::move(last);
  said_ = true;
  forget_last();  // it may have seen a later round while it was idle
  works_ = finished_ = false;
  port_ = port;
  progress_ = std::clamp<std::int64_t>(progress, -1, most_steps);
  over_since_.reset();
}

void Participant::idle() {
  works_ = ready_ = false;
  drop_place();
}

// Its launcher ended, or asked again, before it had the place: the workers of that round never
// began.
void Participant::drop_place() {
  untaken_ = untaken_ || place_.has_value();
  place_.reset();
}

void Participant::leave(Time until) {
  sooner_ = sooner_ || (leaves_at_ && until < *leaves_at_);
  leaves_at_ = leaves_at_ ? std::min(*leaves_at_, until) : until;
}

void Participant::saw(Time before, Duration passed) {
  watch(passed);
  const Member* me = record_.find(settings_.id);
  given_back_ = given_back_ || (me != nullptr && me->given_back);
  take_place();
  if (ready_) forget_last();
  watch_leavers(before);
  const bool over = works_ && record_.phase != Phase::Done &&
                    (record_.phase != Phase::Training || record_.round != in_round_);
  if (!is_done()) done_since_.reset();
  if (is_done() && !done_since_) done_since_ = looked_at_;
  if (!over) over_since_.reset();
  if (over && !over_since_) over_since_ = looked_at_;
}

// A later round has begun, and this machine has not seen it, or with another launcher: how its
// workers ended in the one before is said, and would count a second time. In that one they never
// began.
void Participant::forget_last() {
  if (record_.round > in_round_) last_ = {.apart = is_ranked(record_, settings_.id)};
}

void Participant::watch(Duration passed) {
  std::erase_if(watched_, [&](const auto& each) { return record_.find(each.first) == nullptr; });
  for (const Member& each : record_.members) {
    if (each.id == settings_.id) continue;
    const auto [known, is_new] = watched_.try_emplace(each.id);
    auto& [beats, writes, still] = known->second;
    const bool wrote = !is_new && beats != each.beats;
    writes = writes || wrote;
    still = is_new || wrote ? Duration(0) : still + passed;
    beats = each.beats;
  }
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
    place.machines.push_back({id, member->name, member->address, member->port, member->word});
  }
  // Another port is that of an earlier launcher, with which the round was formed.
  if (place.machines[place.rank].port != port_) return;
  place_ = std::move(place);
  in_round_ = record_.round;
  leads_ = place_->rank == 0;
  ready_ = said_ = false;
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

std::optional<Place> Participant::place() {
  if (place_) untaken_ = false;
  return std::exchange(place_, std::nullopt);
}

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
           "others go on without it as long as they are enough";
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
    record.failures = record.apart = record.torn = 0;
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
  if (me == nullptr) {
    Member joins{.id = settings_.id, .name = settings_.name};
    joins.faults = faults_of(record, joins);
    me = &record.members.emplace_back(std::move(joins));
  }
  me->ready = ready_;
  me->apart = ready_ && last_.apart;
  me->missed = ready_ ? last_.missed : "";
  me->end = ready_ ? last_.end : End::Other;
  me->replaced = settings_.replaced;
  if (ready_) {
    me->address = settings_.address;
    me->port = port_;
    me->word = settings_.word;
    record.newest = std::max(record.newest, progress_);
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

// It is of the last round, and will be ready. A killed member has not been seen to write since.
bool Participant::lives(const Member& member) const {
  if (member.id == settings_.id) return true;
  const auto watched = watched_.find(member.id);
  return watched != watched_.end() && watched->second.still < settings_.last_call;
}

// A member that has not written since this machine came may have been killed long ago. No trainer
// is to be blamed for that.
bool Participant::is_silent(const Member& member) const {
  return !lives(member) || (member.id != settings_.id && !watched_.at(member.id).writes);
}

// Has it waited for all that may still come, and for a network that may come back?
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
  if (steady_ >= settings_.until_taken_back && take_back(record, settings_)) return;
  const std::size_t ready = count(record, is_ready);
  if (ready == 0 || ready < settings_.min || !waited(record)) return;
  // A machine that was killed is in the record until its lease is over.
  begin_round(record, settings_, [this](const Member& member) { return is_silent(member); });
}

bool stays(const Member& member) {
  return !member.leaves_in && !member.left_out && !member.given_back;
}

bool is_ranked(const Record& record, const std::string& id) {
  return std::ranges::find(record.ranks, id) != record.ranks.end();
}

std::size_t count(const Record& record, bool (*which)(const Member&)) {
  return static_cast<std::size_t>(std::ranges::count_if(record.members, which));
}

void begin_round(Record& record, const Settings& settings, const IsSilent& is_silent) {
  const Past past = look_back(record, record.newest > record.progress, is_silent);
  count_network(record, past);
  // A round has not trained if its workers connect, but nothing larger comes through.
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
  // Too few without one that is given back: they wait for another. The last round has been judged:
  // without ranks it is not judged again.
  if (!begins) return record.ranks.clear();
  record.ranks = std::move(ranks);
  record.phase = Phase::Training;
  ++record.round;
}

}  // namespace spotter::gang
