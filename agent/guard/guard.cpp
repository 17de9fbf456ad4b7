#include "agent/guard/guard.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "agent/guard/file_completeness.hpp"

namespace spotter::guard {
namespace {

constexpr std::size_t folders_limit = 4096;

bool is_one_of(std::uint32_t mask, std::uint32_t wanted) { return (mask & wanted) != 0; }

// With the newest member first: old folders hardly change, and the next start looks at them.
std::vector<std::string> newest_first(const Listing& listing) {
  std::map<std::string, std::int64_t> newest;
  for (const Member& member : listing.members)
    for (const std::string& folder : folders_above(member.name)) {
      std::int64_t& time = newest[folder];
      time = std::max(time, member.mtime_ns);
    }
  std::vector<std::string> folders = listing.folders;
  std::ranges::stable_sort(folders, std::greater(), [&newest](const std::string& folder) {
    const auto at = newest.find(folder);
    // One without a file was made just now.
    return at == newest.end() ? std::numeric_limits<std::int64_t>::max() : at->second;
  });
  if (folders.size() > folders_limit) folders.resize(folders_limit);
  return folders;
}

using std::chrono::milliseconds;

// A file was closed, and about then somebody died. Was it the writer, in the middle? A trainer
// whose writer died ends within this time, too; `cp` in a shell script ends each time.
constexpr milliseconds settle_time(1000);
constexpr milliseconds look_again(10'000);          // at the processes, also while nothing happens
constexpr milliseconds between_companions(10'000);  // a script may write a small file all the time
constexpr milliseconds try_again(200);              // what somebody wrote to meanwhile
constexpr int torn_saves = 2;  // in a row that are not recorded, as a file of theirs is torn
// A file is open, and nobody writes to it: it may be open, or mapped, for as long as the trainer
// runs. A writer of a checkpoint rests for less.
constexpr milliseconds held_for(10'000);

}  // namespace

Result<void> Changes::watch_folder(const std::string& folder) {
  const Descriptor opened = place_.open(folder, O_PATH | O_DIRECTORY);
  if (!opened) return {};  // gone already
  const std::string path = "/proc/self/fd/" + std::to_string(opened.get());
  const int watch =
      ::inotify_add_watch(inotify_.get(), path.c_str(),
                          IN_CLOSE_WRITE | IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM |
                              IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
  if (watch < 0 && errno == ENOSPC) {
    return failure(
        "too many folders are watched on this machine; raise the sysctl "
        "fs.inotify.max_user_watches");
  }
  if (watch < 0)
    return failure("cannot watch " + place_.shown(folder) + ": " + std::strerror(errno));
  folders_[watch] = folder;
  return {};
}

Result<Listing> Changes::watch() {
  // Again: the watch of a folder that was moved keeps its old name.
  inotify_ = Descriptor(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify_)
    return failure("cannot watch " + place_.where().directory + ": " + std::strerror(errno));
  folders_.clear();
  // The outer ones first, each before its files are looked at; until no new folder turns up.
  for (std::vector<std::string> before;;) {
    auto listing = place_.list();
    if (!listing || listing->folders == before) return listing;
    for (const std::string& folder : newest_first(*listing)) {
      if (auto watched = watch_folder(folder); !watched) return tl::unexpected(watched.error());
    }
    before = listing->folders;
  }
}

bool Changes::is_link(const std::string& name) const {
  const auto status = place_.look(name);
  return status && S_ISLNK(status->st_mode);
}

// REQUIRES: `name` is the event's own, which may be longer than its type says.
void Changes::take(const inotify_event& event, const char* name,
                   std::vector<Change>& changes) const {
  const bool folder = is_one_of(event.mask, IN_ISDIR) && event.len > 0;
  const bool itself = is_one_of(event.mask, IN_DELETE_SELF | IN_MOVE_SELF);
  if (folder || itself || is_one_of(event.mask, IN_Q_OVERFLOW)) {
    changes.push_back({Change::Kind::Folders});
    return;
  }
  const auto known = folders_.find(event.wd);
  if (known == folders_.end() || event.len == 0) return;
  const std::string path = known->second.empty() ? name : known->second + "/" + name;
  // A link is never closed.
  const bool link = is_one_of(event.mask, IN_CREATE) && is_link(path);
  const bool closed = link || is_one_of(event.mask, IN_CLOSE_WRITE | IN_MOVED_TO);
  const auto kind = closed                                             ? Change::Kind::Closed
                    : is_one_of(event.mask, IN_DELETE | IN_MOVED_FROM) ? Change::Kind::Removed
                                                                       : Change::Kind::Modified;
  changes.push_back({kind, path, is_one_of(event.mask, IN_MOVED_FROM)});
}

std::vector<Change> Changes::read() {
  std::vector<Change> changes;
  alignas(inotify_event) std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (got <= 0) return changes;
    for (ssize_t at = 0; at < got;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      take(*event, event->name, changes);
    }
  }
}

Result<void> Guard::begin(bool again) {
  if (!again) say_settled(TRY(keeper_.settle(false)));
  auto listing = changes_.watch();
  if (!listing) return tl::unexpected(listing.error());
  if (const std::string why = keeper_.left_alone(*listing); !why.empty()) {
    leave_alone(why);
    return {};
  }
  if (auto begun = keeper_.begin(); !begun) return begun;
  std::ignore = somebody_died();
  if (again)
    look_at_all(true);
  else
    listing_ = *std::move(listing);
  return {};
}

std::chrono::milliseconds Guard::look() {
  take_changes();
  if (idle_) return look_again;
  // A script removes the directory at its start, and makes it again.
  if (listing_.folders.empty() && now_() >= not_before_) {
    not_before_ = now_() + settle_time;
    look_at_all(false);
  }
  close_what_nobody_writes();
  const auto now = now_();
  const auto quiet = moments_.wait(now);
  const auto late = wait_for_companions();
  if (!quiet && !late) return listing_.folders.empty() ? settle_time : look_again;
  auto left = std::min(quiet.value_or(look_again), late.value_or(look_again));
  left = std::max(left, std::chrono::ceil<milliseconds>(not_before_ - now));
  if (left > milliseconds(0)) return std::min(left, settle_time);
  capture();
  return milliseconds(50);
}

// Files that name a checkpoint are often written last, when that is recorded already.
std::optional<milliseconds> Guard::wait_for_companions() const {
  if (!companions_ || moments_.wait(now_())) return std::nullopt;
  const auto at = std::max(*companions_ + settle_time, last_companions_ + between_companions);
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(at - now_()));
}

// Two accounts of one trainer, with other steps, would spoil both.
bool Guard::is_left() {
  if (!idle_ && keeper_.place().where().of_all() && reports_()) leave_alone(trainer_reports);
  return idle_;
}

void Guard::capture() {
  if (is_left()) return;
  touched_.clear();
  // Once: a file that is closed meanwhile belongs to what is captured next.
  const std::set<std::string> in_flux = moments_.in_flux();
  const bool of_companions = !moments_.wait(now_());
  const auto leave_out = [&](const std::string& name) {
    return in_flux.contains(name) || spoilt_.contains(name) ||
           (is_temporary(name) && keeper_.is_written(name));
  };
  const auto grows = [this](const std::string& name) {
    return moments_.grows(name) || is_held(name) || is_appended_to(name) || was_open(name);
  };
  not_before_ = now_() + try_again;
  if (!died_at_.empty()) return;
  if (!of_companions && !news_) {  // small files alone; those that come just behind a save are late
    const bool late = now_() - captured_at_ < settle_time;
    for (const auto& [name, times] : std::exchange(beside_, {}))
      if (!late) is_of_none(name);
    moments_.captured();
    companions_ = now_();
    return;
  }
  auto captured =
      keeper_.capture(leave_out, grows, [this](const auto& name) { return moments_.knows(name); });
  if (!captured) {
    if (captured.error().why != Refusal::Why::Busy) return complain(captured.error().words);
    wait_for(captured.error().words);
    busy_ = std::min(2 * std::max(busy_, try_again), look_again);
    not_before_ = now_() + busy_;
    return;
  }
  busy_ = {};
  take_changes();
  const auto touched = [this](const Row& row) { return touched_.contains(row.name); };
  if (std::ranges::any_of(captured->rows, touched)) return keeper_.discard(*captured);
  for (const auto& one : captured->left_out) complain(one.words);
  if (is_spoilt(*captured, of_companions)) return;
  // A file removed while nothing comes in its place, or another set is written, may have been
  // removed for that: its contents are kept.
  const auto is_news = [](const Row& row) {
    return !row.companion && !row.grows && row.link.empty();
  };
  if (!in_flux.empty() || std::ranges::none_of(captured->rows, is_news)) captured->gone.clear();
  // Not that of an earlier save beside these.
  for (const auto& one : captured->left_out)
    if (one.torn && keeper_.record().row(one.name) != nullptr) captured->gone.push_back(one.name);
  for (const Row& row : captured->rows) temporary_.erase(shape_of(row.name));
  companions_.reset();
  const auto is_late = [&](const std::string& name) {
    return moments_.knows(name) &&
           std::ranges::find(captured->rows, name, &Row::name) == captured->rows.end();
  };
  if (std::ranges::any_of(touched_, is_late)) companions_ = now_();  // closed while all was copied
  if (of_companions) last_companions_ = now_();
  if (captured->rows.empty() && captured->gone.empty()) {
    if (!of_companions) all_is_captured();
    return;
  }
  const auto finished = keeper_.finish(*std::move(captured));
  if (!finished && finished.error().why == Refusal::Why::Busy) return;  // changed, or gone, since
  if (!finished) return complain(finished.error().words);
  if (!of_companions) all_is_captured();
  keeper_.learn(moments_.learned());
  for (const Finished& one : *finished) say_finished(one);
}

// The rest of a save is none without a file of it that is torn: none of it is recorded until it is
// written again. But a script may always write what looks torn.
bool Guard::is_spoilt(const Capture& captured, bool of_companions) {
  std::set<std::string> torn;  // shapes
  for (const auto& one : captured.left_out)
    if (one.torn && moments_.is_of_captured(one.name)) torn.insert(shape_of(one.name));
  for (const Row& row : captured.rows)
    if (!torn.contains(shape_of(row.name))) torn_.erase(shape_of(row.name));
  bool spoilt = false;
  for (const std::string& shape : torn) spoilt = ++torn_[shape] <= torn_saves || spoilt;
  if (!spoilt) return false;
  keeper_.discard(captured);
  for (const Row& row : captured.rows)
    if (moments_.is_of_captured(row.name)) spoilt_.insert(row.name);
  for (const auto& one : captured.left_out)
    if (one.torn) spoilt_.insert(one.name);
  companions_.reset();
  if (of_companions)
    last_companions_ = now_();
  else
    all_is_captured();
  return true;
}

// Its writer has another try, or goes on to the next save: once the torn files are written again,
// the others are looked at, too.
void Guard::heal(const std::string& name, bool removed) {
  if (spoilt_.empty()) return;
  if (!removed && torn_.contains(shape_of(name)))
    spoilt_.clear();
  else
    spoilt_.erase(name);
}

void Guard::all_is_captured() {
  news_ = !moments_.in_flux().empty();
  if (!news_) beside_.clear();
  captured_at_ = now_();
  moments_.captured();
}

void Guard::say_finished(const Finished& one) {
  const Place& place = keeper_.place();
  if (!one.behind.empty() && !std::exchange(said_behind_, true))
    say_({.words = place.shown(one.name) + " was saved although " + place.shown(one.behind) +
                   " was there: the trainer did not go on from it, and this is no progress"});
  say_({.path = (place.where().mount / place.shown(one.name)).string(), .finished = one});
}

void Guard::take_changes() {
  const auto changes = changes_.read();
  const bool died = somebody_died();
  bool all = false;
  for (const Change& change : changes) {
    if (idle_) return;
    all = all || change.kind == Change::Kind::Folders;
    if (change.kind != Change::Kind::Folders) take_change(change, died);
  }
  if (all) look_at_all(died);
}

void Guard::take_change(const Change& change, bool died) {
  if (keeper_.place().where().of_all() && is_of_libspotter(change.name))
    return leave_alone(libspotter_saves);
  touched_.insert(change.name);
  heal(change.name, change.kind == Change::Kind::Removed);
  held_.erase(change.name);
  if (change.kind != Change::Kind::Modified) asked_.erase(change.name);
  const Role role = keeper_.place().role(change.name, listing_);
  if (role == Role::None) return;
  const bool closed = change.kind == Change::Kind::Closed;
  // A log stays open, or was open in a save; to others a part (h5py's "a") was added.
  const Row* row = keeper_.record().row(change.name);
  constexpr std::uint64_t large = 16U << 20;
  const bool is_left = closed && !died && logs_.contains(change.name) &&
                       (row == nullptr || (!row->grows && row->bytes < large)) &&
                       !keeper_.is_written(change.name);
  if (change.kind == Change::Kind::Removed || is_left)
    logs_.erase(change.name);
  else if (closed ? logs_.contains(change.name) : is_appended_to(change.name))
    return;
  if (change.renamed) learn_temporary(shape_of(change.name));
  if (!closed && !change.renamed && is_temporary(change.name)) return;
  if (role == Role::Companion && !is_of_saves(change.name, change.kind)) {
    if (!is_log(change.name)) companions_ = now_();
    return;
  }
  if (change.kind == Change::Kind::Removed) {
    news_ = news_ || role == Role::Member;
    // One of several that have other numbers is archived: the next has another number, too.
    const auto is_alike = [&change](const Row& other) {
      return other.name != change.name && shape_of(other.name) == shape_of(change.name);
    };
    const bool recorded = role == Role::Member && row != nullptr && !row->grows;
    const bool to_be_renewed =
        change.renamed && recorded && std::ranges::none_of(keeper_.record().rows, is_alike);
    moments_.removed(change.name, now_(), to_be_renewed);
    moved_ = change.renamed && recorded ? *row : Row();
    died_at_.erase(change.name);
    closed_.erase(change.name);
    return;
  }
  const auto before = closed_.find(change.name);
  const auto status = keeper_.place().look(change.name);
  if (before != closed_.end() && status && found(change.name, *status) == before->second) {
    // The event is older than what was seen since: it is no second writing.
    if (died) died_at_[change.name] = now_();
    return;
  }
  if (!moved_.name.empty() && status && change.name != moved_.name &&
      shape_of(change.name) == shape_of(moved_.name) &&
      found(change.name, *status).mtime_ns == moved_.mtime_ns)
    moments_.rotates(std::exchange(moved_, Row()).name);
  const bool grew = !closed && before != closed_.end() && status && S_ISREG(status->st_mode) &&
                    static_cast<std::uint64_t>(status->st_size) > before->second.bytes &&
                    end_of(before->second) == before->second.end;
  if (before != closed_.end()) closed_.erase(before);
  note(change.name, closed, died, role, grew);
  if (!closed) return;
  // Its folder may have got another name meanwhile.
  const auto now = keeper_.place().look(change.name);
  remember_as_closed(now ? found(change.name, *now) : Found{change.name},
                     now && S_ISREG(now->st_mode));
}

void Guard::remember_as_closed(const Found& one, bool is_file) {
  closed_[one.name] = {one, is_file ? end_of(one) : std::string()};
}

// The file's bytes where its end was then: the same if it was only added to since.
std::string Guard::end_of(const Found& one) const {
  constexpr std::size_t enough = 64;
  const Descriptor file = keeper_.place().open(one.name, O_RDONLY);
  const auto bytes = std::min<std::uint64_t>(one.bytes, enough);
  return file ? read_at(file.get(), one.bytes - bytes, bytes).value_or("") : std::string();
}

// A small file that is closed beside the checkpoints is taken for a part of a save, but for one
// that is written again and again between two of them, or twice by itself; capture() finds out what
// is written once by itself.
bool Guard::is_of_saves(const std::string& name, Change::Kind kind) {
  constexpr int often = 3;
  constexpr std::size_t many = 64;
  if (kind == Change::Kind::Removed) return moments_.knows(name);
  if (kind != Change::Kind::Closed || is_log(name) || of_no_save_.contains(name)) return false;
  if (!trackers_.contains(name) && keeper_.names_one(name, listing_)) trackers_.insert(name);
  if (trackers_.contains(name)) return false;  // it may come after its checkpoint was recorded
  if (beside_.size() >= many && !beside_.contains(name)) return false;
  const auto status = keeper_.place().look(name);
  const bool small = status && static_cast<std::uint64_t>(status->st_size) <= companion_limit;
  if (small && ++beside_[name] < (news_ ? often : 2)) return true;
  if (small || moments_.knows(name)) is_of_none(name);
  return false;
}

// It is recorded if it names a checkpoint, and else left alone.
void Guard::is_of_none(const std::string& name) {
  of_no_save_.insert(name);
  if (const auto left = keeper_.leave_out(name); !left) complain(left.error().message);
  moments_.forget(name);
  closed_.erase(name);
}

// It was open when the newest generation was made: a log, as long as nobody closes it.
bool Guard::was_open(const std::string& name) const {
  const Row* row = keeper_.record().row(name);
  return row != nullptr && row->grows && row->sum.empty() && keeper_.is_written(name);
}

// A log, whatever it holds. A file that is written from its start is none any more.
bool Guard::is_appended_to(const std::string& name) {
  if (!keeper_.is_written(name)) return logs_.contains(name);
  Moments::Time& asked = asked_.try_emplace(name, now_()).first->second;
  if (now_() - asked < settle_time) return logs_.contains(name);
  asked = now_();
  const auto status = keeper_.place().look(name);
  if (!status || !appends_(*status)) {
    logs_.erase(name);
    return false;
  }
  if (logs_.insert(name).second) moments_.forget(name);
  return true;
}

// A file gets its name when it is whole. But a file recorded under such a name is a checkpoint
// that makes room for the next.
void Guard::learn_temporary(const std::string& shape) {
  const auto& rows = keeper_.record().rows;
  if (std::ranges::none_of(rows, [&](const Row& row) { return shape_of(row.name) == shape; }))
    temporary_.insert(shape);
}

// Most scripts rename none: no shape is made of each file then.
bool Guard::is_temporary(const std::string& name) const {
  return !temporary_.empty() && temporary_.contains(shape_of(name));
}

void Guard::wait_for(const std::string& name) {
  const auto status = keeper_.place().look(name);
  const auto bytes = static_cast<std::uint64_t>(status ? status->st_size : 0);
  Held& held = held_.try_emplace(name, Held{bytes, now_()}).first->second;
  if (held.bytes != bytes) held = {bytes, now_()};
  if (is_held(name)) moments_.forget(name);
}

bool Guard::is_held(const std::string& name) const {
  const auto at = held_.find(name);
  if (at == held_.end() || now_() - at->second.since < held_for) return false;
  const auto status = keeper_.place().look(name);
  return status && static_cast<std::uint64_t>(status->st_size) == at->second.bytes;
}

void Guard::note(const std::string& name, bool closed, bool died, Role role, bool grew) {
  if (keeper_.is_steady_log(name) || (!closed && was_open(name))) return moments_.forget(name);
  news_ = news_ || role == Role::Member;
  if (closed && role == Role::Member) beside_.clear();
  moments_.wrote(name, closed, now_(), role == Role::Companion, grew);
  if (closed && died)
    died_at_[name] = now_();
  else
    died_at_.erase(name);
}

// Now, or so shortly before that the close which it caused may be seen only now. Whoever died
// longer ago, and the trainer goes on, was not the writer of what was closed then. Where nobody is
// left the trainer's end may be reported much later.
bool Guard::somebody_died() {
  const Deaths deaths = deaths_();
  if (deaths.some) last_death_ = now_();
  const auto is_over = [&](Moments::Time at) { return now_() - at >= settle_time; };
  if (!deaths.all) std::erase_if(died_at_, [&](const auto& one) { return is_over(one.second); });
  return deaths.all || (last_death_ && !is_over(*last_death_));
}

// Every file that is not known as it is now, as if something had just happened to it. A file that
// was seen to be closed as it is now is known: a new folder is no sign that it was written again.
void Guard::look_at_all(bool died) {
  auto listing = changes_.watch();
  if (!listing) return complain(listing.error().message);
  if (const std::string why = keeper_.left_alone(*listing); !why.empty()) return leave_alone(why);
  keeper_.look_again(*listing);
  // A folder that got another name took all names in it away, and nobody said so of each.
  std::erase_if(closed_, [&](const auto& one) {
    if (listing->find(one.first) != nullptr) return false;
    if (moments_.knows(one.first)) moments_.removed(one.first, now_());
    died_at_.erase(one.first);
    return true;
  });
  // A name that was made of one of these changed it, and wrote nothing.
  const auto alike = [](const Found& one, const Found& other) {
    return one.bytes == other.bytes && one.mtime_ns == other.mtime_ns;
  };
  std::vector<std::pair<const Member*, bool>> news;  // and whether it is closed
  for (const Member& member : listing->members) {
    const Row* row = keeper_.record().row(member.name);
    const Member* before = listing_.find(member.name);
    const bool known = row != nullptr && is_as(*row, member) && row->link == member.link;
    const bool seen = before != nullptr && alike(*before, member);
    const auto closed = closed_.find(member.name);
    if (known || seen || (closed != closed_.end() && alike(closed->second, member))) continue;
    touched_.insert(member.name);
    heal(member.name, false);
    const bool is_closed = keeper_.knows_writers() && !keeper_.is_written(member.name);
    const auto kind = is_closed ? Change::Kind::Closed : Change::Kind::Modified;
    if (member.role == Role::Companion && !is_of_saves(member.name, kind)) {
      companions_ = now_();
      continue;
    }
    news.emplace_back(&member, is_closed);
  }
  died = somebody_died() || died;  // what closed it may have been a death, since `died` was asked
  for (const auto& [member, is_closed] : news) {
    note(member->name, is_closed, died, member->role);
    if (is_closed) remember_as_closed(*member, member->link.empty());
  }
  listing_ = *std::move(listing);
}

// A link, or a name that was made of a file that is there, is never closed.
void Guard::close_what_nobody_writes() {
  auto open = moments_.open_for(settle_time, now_());
  std::erase_if(open, [this](const std::string& name) {
    return is_appended_to(name) || keeper_.is_written(name);
  });
  if (open.empty()) return;
  const bool died = somebody_died();
  for (const std::string& name : open) {
    moments_.close(name);
    if (died) died_at_[name] = now_();
  }
}

bool Guard::end(End how, bool progressed) {
  take_changes();
  if (is_left()) return false;
  close_what_nobody_writes();
  const Witness witness{how, moments_.is_sure(), progressed || keeper_.is_long(now_() - began_),
                        [this](const std::string& name) {
                          return Witness::Seen{
                              .closed = moments_.is_closed(name) && !died_at_.contains(name),
                              .current = moments_.is_current(name),
                              .beside = moments_.knows(name),
                              .log = logs_.contains(name),
                              .temporary = is_temporary(name)};
                        }};
  keeper_.learn(moments_.learned());
  const auto settled = keeper_.settle(false, witness);
  for (const Finished& one : settled ? settled->finished : std::vector<Finished>())
    say_finished(one);
  if (settled)
    say_settled(*settled);
  else
    complain(settled.error().message);
  return settled && settled->tried_again;
}

void Guard::say_settled(const Settled& settled) {
  for (const std::string& words : settled.said) say_({.words = words});
  for (const std::string& words : settled.torn) say_({.words = words});
}

// There is nothing to say of a trainer that reports by itself, as those of libspotter do.
void Guard::leave_alone(const std::string& why) {
  idle_ = true;
  changes_.stop();
  const auto left = keeper_.leave_alone(why == trainer_reports);
  if (!left) complain(left.error().message);
  if (why != libspotter_saves && why != trainer_reports)
    complain(keeper_.place().where().directory + " is not watched: " + why +
             "; name what its checkpoints are in checkpoints.files or checkpoints.folders");
}

// The same once: it may be true at each checkpoint.
void Guard::complain(const std::string& words) {
  if (words != last_complaint_) say_({.words = words});
  last_complaint_ = words;
}

}  // namespace spotter::guard
