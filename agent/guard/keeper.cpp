#include "agent/guard/keeper.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <tuple>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/guard/copying.hpp"
#include "agent/guard/file_completeness.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::guard {
namespace {

tl::unexpected<Refusal> refuse(Refusal::Why why, std::string words = {}) {
  return tl::unexpected<Refusal>(Refusal{why, std::move(words)});
}

// Another account of the same steps may be older than the record (datagrams of the trainer's own).
Result<std::uint64_t> steps_in_ledger(const SafeDirectory& own) {
  constexpr std::size_t limit = 64U << 10;
  const auto text = own.read("ledger.json", limit);
  if (!text && text.error() != std::errc::no_such_file_or_directory) {
    return failure("cannot read " + (own.path() / "ledger.json").string() + ": " +
                   text.error().message());
  }
  const auto object = text ? wire::parsed_json(*text) : nlohmann::json();
  if (!object.is_object()) return 0;
  const auto at = object.find("newest_step");
  return at != object.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}

// Does a text that is short, or where a link leads, name the checkpoint? By its whole name; by the
// beginning of it, in quotes or by itself (`cp-0003.ckpt` names cp-0003.ckpt.index); by its number.
bool names(const std::string& text, std::string_view checkpoint) {
  constexpr std::size_t shortest = 3;
  constexpr std::size_t longest_number = 15;
  if (checkpoint.size() >= shortest && text.find(checkpoint) != std::string::npos) return true;
  const std::string word(trimmed(text));
  if (word.size() >= shortest && checkpoint.starts_with(word)) return true;
  for (auto at = text.find('"'); at != std::string::npos; at = text.find('"', at + 1)) {
    const std::string quoted = last_component(text.substr(at + 1, text.find('"', at + 1) - at - 1));
    if (quoted.size() >= shortest && checkpoint.starts_with(quoted)) return true;
  }
  const bool number = !word.empty() && word.size() <= longest_number &&
                      word.find_first_not_of("0123456789") == std::string::npos;
  return number && step_in(std::string(checkpoint)) == std::stoull(word);
}

bool same(const Row& row, const Member& member) {
  if (row.link != member.link) return false;
  if (!row.link.empty()) return true;
  if (row.grows) return member.bytes >= row.bytes;
  return is_as(row, member);
}

// Two writes within one tick of the clock of files' times have one time: the tick is over when this
// returns true. False: the clock of that file system is ahead of ours.
bool let_tick_pass(const Found& file) {
  constexpr int longest = 10;  // milliseconds
  for (int i = 0; i < longest; ++i) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec > file.changed_ns) return true;
    ::usleep(1000);
  }
  return false;
}

using What = Difference::What;

bool is_there(const Difference& one) { return one.what != What::Missing; }

bool has_members(const std::vector<Difference>& differences) {
  return std::ranges::any_of(differences,
                             [](const Difference& one) { return is_there(one) && !one.companion; });
}

// Companions follow; but for one that has lost what it said.
bool speaks_against(const Difference& one) {
  if (one.companion) return one.what == What::Changed && one.proof == Proof::Torn;
  return is_there(one) && one.proof != Proof::Whole && !one.temporary;
}

// A trainer that ended by itself meant what it left, and so did a person. But one that was stopped
// will go on: the rest of a save of which a file is torn is none.
Plan take_up(const std::vector<Difference>& differences, End end) {
  const bool spoilt =
      end == End::Stopped && std::ranges::any_of(differences, [](const Difference& one) {
        return is_there(one) && one.current && one.like && one.proof == Proof::Torn;
      });
  Plan plan;
  for (const Difference& one : differences) {
    if (spoilt && !is_there(one)) continue;  // the save before is put back
    const bool itself =
        is_there(one) && !one.companion && (one.temporary || one.proof == Proof::Torn);
    const bool rest = spoilt && (one.companion || one.current);
    (itself || rest ? plan.away : plan.taken).push_back(one.name);
    if (itself && plan.why.empty())
      plan.why = one.name + (one.why.empty() ? " had not got its name yet" : ": " + one.why);
  }
  plan.back = !plan.away.empty();
  return plan;
}

std::string reason(const std::vector<Difference>& differences) {
  const auto torn = std::ranges::find(differences, Proof::Torn, &Difference::proof);
  if (torn != differences.end()) return torn->name + ": " + torn->why;
  const auto unknown = std::ranges::find_if(differences, speaks_against);
  if (unknown != differences.end())
    return unknown->name + " was not finished when its trainer ended";
  return "the trainer ended between two files of one save";
}

}  // namespace

bool is_as(const Row& row, const Found& found) {
  return row.bytes == found.bytes && row.mtime_ns == found.mtime_ns &&
         row.changed_ns == found.changed_ns;
}

bool is_log(const std::string& name) {
  constexpr std::string_view endings[] = {".log",     ".csv", ".tsv", ".jsonl",
                                          "-journal", "-wal", "-shm"};  // SQLite's last
  return name.find("tfevents") != std::string::npos ||
         std::ranges::any_of(endings, [&name](auto each) { return name.ends_with(each); });
}

Result<Keeper> Keeper::open(Where where) {
  Keeper keeper(TRY(Place::open(std::move(where))));
  const auto none = std::errc::no_such_file_or_directory;
  const auto own = keeper.place_.own();
  if (!own && own.error() == none) return keeper;
  if (!own) return keeper.wrong("cannot use", "", own.error());
  const auto text = own->read(record_name, record_limit);
  if (!text && text.error() != none) return keeper.wrong("cannot read", record_name, text.error());
  keeper.absent_ = !text;
  if (text) {
    auto record = decode(*text);
    if (!record && wire::is_newer(record.error()))
      return failure(keeper.place_.shown_own(record_name).string() + ": " + record.error().message);
    keeper.damaged_ = !record;
    if (record) keeper.record_ = *std::move(record);
    // Earlier patterns of job.yaml say nothing of what it keeps now: nobody watched that.
    if (keeper.record_.patterns != keeper.place_.patterns()) keeper.record_.watching = false;
  }
  keeper.record_.of_files = !keeper.place_.where().files.empty();
  const auto ledger = TRY(steps_in_ledger(*own));
  keeper.record_.step = std::max(keeper.record_.step, ledger);
  return keeper;
}

tl::unexpected<Error> Keeper::wrong(const std::string& what, const std::string& name,
                                    const std::error_code& error) const {
  return failure(what + " " + place_.shown_own(name).string() + ": " + error.message());
}

Result<void> Keeper::save() {
  const auto own = place_.own();
  if (!own) return wrong("cannot use", "", own.error());
  const auto kept = own->folder(kept_directory);
  for (const std::string& name : std::exchange(unsynced_, {})) {
    const auto copy = kept ? kept->file(name, O_RDONLY) : tl::unexpected(kept.error());
    if (copy && ::fsync(copy->get()) != 0)
      return wrong("cannot make durable", kept_directory,
                   std::error_code(errno, std::generic_category()));
  }
  if (kept) (void)kept->sync();  // second names
  const auto written = own->write(record_name, encode(record_), 0644);
  if (!written) return wrong("cannot write", record_name, written.error());
  absent_ = damaged_ = false;
  return {};
}

// All at once: thousands of files, one after another, take longer than the next save needs to come.
// Each is made durable by itself where the file system is another machine's.
bool Keeper::sync_all() {
  const Descriptor folder = place_.open("", O_RDONLY | O_DIRECTORY);
  const bool is_ours =
      folder && is_on_any(folder.get(), {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC})
                    .value_or(false);
  const bool synced = is_ours && ::syncfs(folder.get()) == 0;
  if (synced) unsynced_.clear();
  return synced;
}

Result<void> Keeper::make_own_folders() const {
  for (const char* name : {kept_directory, torn_directory}) {
    if (const auto made = place_.own(name); !made) return wrong("cannot make", name, made.error());
  }
  return {};
}

bool Keeper::is_written(const std::string& name) const {
  const Descriptor file = place_.open(name, O_RDONLY);
  struct stat status {};
  const bool is_file = file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode);
  return is_file && !is_database(file.get()) && has_writer(file);
}

bool Keeper::has_writer(const Descriptor& file) const {
  return knows_writers() && is_being_written(file.get());
}

bool Keeper::knows_writers() const {
  if (leases_) return *leases_;
  const auto own = place_.own();
  leases_ = own && has_leases(*own);
  return *leases_;
}

bool Keeper::is_long(std::chrono::steady_clock::duration time) const {
  std::int64_t longest = 600;
  constexpr std::int64_t least = 60;
  for (std::size_t i = 1; i < record_.generations.size(); ++i) {
    const auto& [one, next] = std::tie(record_.generations[i - 1], record_.generations[i]);
    if (one.run == next.run) longest = std::max(least, next.time - one.time);
  }
  return time > std::chrono::seconds(longest);
}

Result<void> Keeper::begin() {
  if (auto made = make_own_folders(); !made) return made;
  ++record_.run;
  record_.watching = true;
  record_.left = false;
  // That nothing was there is a moment, too.
  if (record_.generations.empty()) record_.add({.time = std::time(nullptr)}, {}, {});
  record_.patterns = place_.patterns();
  return save();
}

std::string Keeper::left_alone(const Listing& listing) const {
  const bool left = record_.left && place_.where().of_all() && !listing.members.empty();
  return left ? trainer_reports : listing.left_alone;
}

Result<void> Keeper::leave_alone(bool reports) {
  const bool known = record_.left || !reports;
  if (known && (absent_ || record_.generations.empty())) return {};
  record_.left = record_.left || reports;
  record_.generations.clear();
  record_.rows.clear();
  record_.watching = record_.restoring = false;
  record_.tried = 0;
  if (auto saved = save(); !saved) return saved;
  clear_kept();
  return {};
}

std::string Keeper::next_number() { return numbered(++record_.number); }

bool Keeper::has_room(std::uint64_t bytes) const {
  struct statvfs volume {};
  const auto own = place_.own();
  if (!own || ::fstatvfs(own->descriptor(), &volume) != 0) return true;
  return std::uint64_t{volume.f_bavail} * volume.f_frsize >= bytes;
}

// "": there is none; that the disk is full is no reason not to record.
std::string Keeper::keep(const Descriptor& file, const struct stat& status,
                         const std::string& name) {
  const auto kept = place_.own(kept_directory);
  const std::string number = next_number();
  if (!kept) return {};
  if (clone_file(file.get(), status, *kept, number)) return unsynced_.emplace_back(number);
  // With a second name it must still be the trainer's, whoever asks. A file that its script gave
  // one may be written over by that.
  struct stat named_twice = status;
  named_twice.st_nlink = 2;
  const bool once = record_.row(name) == nullptr && status.st_nlink == 1 && record_.is_series(name);
  if (once && place_.is_trainers(named_twice) && kept->link(file, number)) return number;
  // Another machine may find out only then that it has no room.
  const bool durable = !knows_writers();
  if (!copy_file(file.get(), status, *kept, number, {}, durable)) return {};
  return durable ? number : unsynced_.emplace_back(number);
}

// One file as it is now, kept beside.
Result<Row, Refusal> Keeper::row_of(const Member& member, bool may_be_open) {
  using Why = Refusal::Why;
  Row row{.name = member.name,
          .bytes = member.bytes,
          .mtime_ns = member.mtime_ns,
          .changed_ns = member.changed_ns,
          .link = member.link,
          .companion = member.role == Role::Companion};
  if (!row.link.empty()) return row;
  const Descriptor file = place_.open(member.name, O_RDONLY);
  struct stat status {};
  if (!file && errno == EACCES) return refuse(Why::Failed, "we may not read it");
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return refuse(Why::Busy, member.name);
  if (!place_.is_trainers(status)) return refuse(Why::Failed, "it " + std::string(has_other_name));
  const Found now = found(member.name, status);
  row.bytes = now.bytes;
  row.mtime_ns = now.mtime_ns;
  row.changed_ns = now.changed_ns;
  row.grows = may_be_open || is_log(member.name) || is_database(file.get());
  if (row.grows) return row;
  const Row* before = record_.row(member.name);
  waits_ = waits_ && let_tick_pass(now);
  if (before != nullptr && has_only_grown(*before, file.get(), row.bytes)) {
    row.grows = true;
    row.sum = sum_of_file(file.get(), row.bytes).value_or("");
    row.kept = keep(file, status, member.name);  // a list written over may have grown, too
    return row;
  }
  if (has_writer(file)) return refuse(Why::Busy, member.name);
  const Look look = look_at(file.get(), row.bytes, member.name);
  if (look.shape == Shape::Torn) return refuse(Why::Torn, look.why);
  if (checkpoint::is_mostly_unwritten(file.get()))
    return refuse(Why::Torn, "most of it was never written");
  row.kept = keep(file, status, member.name);
  if (::fstat(file.get(), &status) == 0)  // it may have another name now
    row.changed_ns = found(member.name, status).changed_ns;
  return row;
}

// Lines were added, one at its begin or behind one, and nothing else was changed: a log that its
// script opens for each.
bool Keeper::has_only_grown(const Row& before, int file, std::uint64_t bytes) const {
  constexpr std::uint64_t longest = 16U << 20;  // is read at each change
  const bool longer =
      before.bytes > 0 && before.bytes < bytes && bytes <= longest &&
      read_at(file, before.bytes - 1, 2).value_or("").find('\n') != std::string::npos;
  const auto sum = longer && !before.sum.empty() ? sum_of_file(file, before.bytes)
                                                 : Result<std::string>(std::string());
  return sum && !sum->empty() && *sum == before.sum;
}

bool Keeper::is_database_file(const std::string& name) const {
  const Descriptor file = place_.open(name, O_RDONLY);
  return file && is_database(file.get());
}

bool Keeper::is_steady_log(const std::string& name) const {
  if (is_log(name)) return true;
  const Row* row = record_.row(name);
  if (row == nullptr || !row->grows || row->companion) return false;
  return !row->sum.empty() || is_database_file(name);
}

// Is it as the newest generation has it?
bool Keeper::is_known(const Member& member, const LeaveOut& grows) const {
  const Row* before = record_.row(member.name);
  if (before == nullptr || !same(*before, member)) return false;
  if (!before->grows || grows(member.name) || is_database_file(member.name)) return true;
  if (before->sum.empty()) return false;  // it was open, and is not any more
  return is_as(*before, member);
}

void Keeper::look_again(const Listing& listing) {
  for (Row& row : record_.rows) {
    if (row.until != 0 || row.sum.empty()) continue;
    const Member* member = listing.find(row.name);
    if (member == nullptr || member->changed_ns == row.changed_ns || member->bytes != row.bytes ||
        member->mtime_ns != row.mtime_ns)
      continue;
    // An older build's row, and a file that is written once, are not read through for it.
    const bool as_it_is = row.changed_ns == 0 || (row.kept.empty() && record_.is_series(row.name));
    if (!as_it_is) {
      const auto refuted = refuted_.find(row.name);
      if (refuted != refuted_.end() && refuted->second == member->changed_ns) continue;
      const auto whole = has_sum(row);
      if (whole && !*whole) refuted_[row.name] = member->changed_ns;
      if (!whole || !*whole) continue;
    }
    row.changed_ns = member->changed_ns;
    const auto status = place_.look(row.name);
    const auto copy = copy_of(row);
    struct stat kept {};
    const bool shared = status && copy && *copy && ::fstat(copy->get(), &kept) == 0 &&
                        kept.st_ino == status->st_ino && kept.st_nlink > 2;
    std::string own = shared ? keep(*copy, kept, row.name) : "";  // it may be written over by it
    if (!own.empty()) row.kept = std::move(own);                  // else there is no room
  }
}

// Those that are there, and those that are recorded.
std::set<std::string> Keeper::checkpoints(const Listing& listing) const {
  std::set<std::string> all;
  for (const Member& each : listing.members)
    if (each.role == Role::Member) all.insert(record_.checkpoint_of(each.name));
  for (const Row& row : record_.rows)
    if (!row.companion) all.insert(record_.checkpoint_of(row.name));
  return all;
}

// An empty companion, a mark, names by the numbers of its own name: DONE_00000010.
bool Keeper::names_any(const Member& member, const std::set<std::string>& checkpoints) const {
  const std::string text = words_of(member);
  const auto numbers = member.bytes == 0 ? numbers_in(member.name) : std::vector<std::string>();
  const std::string folder = member.name.substr(0, member.name.rfind('/') + 1);
  return std::ranges::any_of(checkpoints, [&](const auto& each) {
    std::string_view below = each;
    if (each.starts_with(folder)) below.remove_prefix(folder.size());
    if (names(text, below)) return true;
    const auto its = numbers.empty() ? numbers : numbers_in(each);
    return std::ranges::find_first_of(numbers, its) != numbers.end();
  });
}

bool Keeper::names_one(const std::string& companion, const Listing& listing) const {
  const auto status = place_.look(companion);
  if (!status || S_ISLNK(status->st_mode)) return status.has_value();
  const bool small = static_cast<std::uint64_t>(status->st_size) <= companion_limit;
  return small && names_any(Member{found(companion, *status)}, checkpoints(listing));
}

Result<void> Keeper::leave_out(const std::string& companion) {
  if (record_.row(companion) == nullptr) return {};
  const auto listing = place_.list();
  if (!listing || listing->find(companion) == nullptr || names_one(companion, *listing)) return {};
  record_.amend({}, {companion});
  return save();
}

std::string Keeper::words_of(const Member& member) const {
  return member.link.empty() ? text_of(member.name) : member.link;
}

bool Keeper::is_hollow(const Member& member) const {
  return member.link.empty() && text_of(member.name).find_first_not_of('\0') == std::string::npos;
}

std::string Keeper::text_of(const std::string& name) const {
  const auto folder = place_.folder("");
  const auto text = folder ? folder->read(name, companion_limit) : tl::unexpected(folder.error());
  return text.value_or(std::string());
}

Result<Capture, Refusal> Keeper::capture(const LeaveOut& leave_out, const LeaveOut& grows,
                                         const LeaveOut& beside) {
  using Why = Refusal::Why;
  const auto listing = place_.list();
  if (!listing) return refuse(Why::Failed, listing.error().message);
  look_again(*listing);
  waits_ = true;
  const LeaveOut is_open_log = [&grows](const std::string& name) {
    return is_log(name) || (grows && grows(name));
  };
  // Before anything is copied.
  for (const Member& member : listing->members) {
    const Row* before = record_.row(member.name);
    const bool known = before != nullptr && same(*before, member);
    const bool skipped = known || leave_out(member.name) || !member.link.empty();
    if (!skipped && member.role == Role::Member && is_written(member.name) &&
        !is_open_log(member.name))
      return refuse(Why::Busy, member.name);
  }
  const std::set<std::string> all = checkpoints(*listing);
  // Companions of a checkpoint that is not captured now wait, too.
  std::set<std::string> not_now;
  for (const Member& each : listing->members)
    if (each.role == Role::Member && leave_out(each.name))
      not_now.insert(record_.checkpoint_of(each.name));
  Capture capture;
  const auto stop = [&](Refusal refusal) {
    discard(capture);
    return tl::unexpected(std::move(refusal));
  };
  for (const Member& member : listing->members) {
    if (is_known(member, is_open_log) || leave_out(member.name)) continue;
    const bool companion = member.role == Role::Companion;
    if (companion && !(beside && beside(member.name)) && !names_any(member, all)) continue;
    if ((companion || !member.link.empty()) && names_any(member, not_now)) continue;
    auto row = row_of(member, grows && grows(member.name));
    if (row) {
      capture.rows.push_back(*std::move(row));
    } else if (row.error().why == Why::Busy) {
      return stop(row.error());
    } else {
      capture.left_out.push_back(
          {member.name,
           place_.shown(member.name) + " is no finished checkpoint: " + row.error().words,
           row.error().why == Why::Torn});
    }
  }
  for (auto& one : capture.left_out)
    one.torn = one.torn && has_like(one.name, [&capture](const std::string& name) {
                 return std::ranges::find(capture.rows, name, &Row::name) != capture.rows.end();
               });
  for (const Row* row : record_.rows_of(record_.newest_number()))
    if (listing->find(row->name) == nullptr && !leave_out(row->name))
      capture.gone.push_back(row->name);
  return capture;
}

// Was it, or the one in its place in an earlier save, whole? Other ranks' files are of this save
// (`changed`), or more than one number differs.
bool Keeper::has_like(const std::string& name, const LeaveOut& changed) const {
  const std::string shape = shape_of(name);
  const auto numbers = numbers_in(name);
  return std::ranges::any_of(record_.rows, [&](const Row& row) {
    if (row.companion || row.grows || shape_of(row.name) != shape) return false;
    int others = 0;
    const auto its = numbers_in(row.name);
    for (std::size_t i = 0; i < numbers.size(); ++i) others += numbers[i] != its[i];
    return others == 0 || (others == 1 && !changed(row.name));
  });
}

void Keeper::discard(const Capture& capture) const {
  const auto kept = place_.own(kept_directory);
  for (const Row& row : capture.rows)
    if (kept && !row.kept.empty()) (void)kept->remove(row.kept);
}

// Sums up the kept content, where it is one of its own, else the file.
Result<void, Refusal> Keeper::make_durable(Row& row, bool synced) const {
  using Why = Refusal::Why;
  if (!row.link.empty()) return {};
  const Descriptor file = place_.open(row.name, O_RDONLY);
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return refuse(Why::Busy, row.name);
  if (!synced && ::fsync(file.get()) != 0)
    return refuse(Why::Failed, "cannot make it durable: " + std::string(std::strerror(errno)));
  if (row.grows) return {};
  const auto kept = place_.own(kept_directory);
  const auto copy = kept && !row.kept.empty() ? kept->file(row.kept, O_RDONLY)
                                              : Result<Descriptor, std::error_code>(Descriptor());
  const int read = copy && *copy ? copy->get() : file.get();
  const auto sum = sum_of_file(read, row.bytes);
  const bool there = ::fstat(file.get(), &status) == 0;
  const Found now = found(row.name, status);
  if (!there || now.bytes != row.bytes || now.mtime_ns != row.mtime_ns)
    return refuse(Why::Busy, row.name);
  if (!sum) return refuse(Why::Failed, sum.error().message);
  // Files of a set may be names of one file, which gets another one with each that is kept.
  if (now.changed_ns != row.changed_ns && sum_of_file(file.get(), row.bytes).value_or("") != *sum)
    return refuse(Why::Busy, row.name);
  row.changed_ns = now.changed_ns;
  row.sum = *sum;
  return {};
}

// Its name, and those of the folders on the way to it.
Result<void> Keeper::sync_folders_of(const std::vector<Row>& rows) const {
  std::set<std::string> folders;
  for (const Row& row : rows) {
    folders.emplace();
    for (std::string& above : folders_above(row.name)) folders.insert(std::move(above));
  }
  for (const std::string& folder : folders) {
    const auto opened = place_.folder(folder);
    if (!opened || !opened->sync())
      return failure("cannot make " + place_.shown(folder) + " durable");
  }
  const auto above = place_.parent("");
  if (above) (void)above->sync();
  return {};
}

Result<std::vector<Finished>, Refusal> Keeper::finish(Capture capture) {
  constexpr std::size_t many = 64;
  const bool synced = capture.rows.size() > many && sync_all();
  for (Row& row : capture.rows) {
    auto durable = make_durable(row, synced);
    if (durable) continue;
    discard(capture);
    return refuse(durable.error().why, place_.shown(row.name) + ": " + durable.error().words);
  }
  place_.sync_log();
  if (auto synced = sync_folders_of(capture.rows); !synced) {
    discard(capture);
    return refuse(Refusal::Why::Failed, synced.error().message);
  }
  auto finished = enter(std::move(capture));
  forget_copies();
  if (auto saved = save(); !saved) return refuse(Refusal::Why::Failed, saved.error().message);
  clear_kept();
  return finished;
}

// One of an earlier run whose name has larger numbers, and none that is smaller. "": none has.
std::string Keeper::later_one(const std::string& name) const {
  const std::string shape = shape_of(name);
  const auto numbers = numbers_in(name);
  if (numbers.empty()) return {};
  const auto less = [](std::string one, std::string other) {
    for (std::string* each : {&one, &other}) each->erase(0, each->find_first_not_of('0'));
    return std::pair(one.size(), one) < std::pair(other.size(), other);
  };
  std::vector<std::string> largest;
  std::string its;
  for (const Row* row : record_.rows_of(record_.newest_number())) {
    const Generation* from = record_.find(row->from);
    const bool earlier = from == nullptr || from->run != record_.run;
    if (!earlier || row->companion || shape_of(row->name) != shape) continue;
    const auto its_numbers = numbers_in(row->name);
    if (largest.empty()) largest = its_numbers;
    bool larger = its.empty();
    for (std::size_t i = 0; i < std::min(largest.size(), its_numbers.size()); ++i)
      if (less(largest[i], its_numbers[i])) largest[i] = its_numbers[i], larger = true;
    if (larger) its = record_.checkpoint_of(row->name);
  }
  bool behind = false;
  for (std::size_t i = 0; i < std::min(largest.size(), numbers.size()); ++i) {
    if (less(largest[i], numbers[i])) return {};
    behind = behind || less(numbers[i], largest[i]);
  }
  return behind ? its : std::string();
}

// Records it, and says which checkpoints are new in it.
std::vector<Finished> Keeper::enter(Capture capture) {
  struct New {
    std::uint64_t bytes = 0;
    std::int64_t mtime_ns = 0;
    bool progress = false;
    bool asked = false;  // for `behind`
    std::string behind;
  };
  std::map<std::string, New> checkpoints;
  for (const Row& row : capture.rows) {
    if (row.companion || row.grows || !row.link.empty()) continue;
    const Row* before = record_.row(row.name);
    const Generation* since = before != nullptr ? record_.find(before->from) : nullptr;
    New& one = checkpoints[record_.checkpoint_of(row.name)];
    one.mtime_ns = std::max(one.mtime_ns, row.mtime_ns);
    // A trainer that starts over after each crash makes none.
    if (before == nullptr && !std::exchange(one.asked, true)) one.behind = later_one(row.name);
    const bool first = before == nullptr || since == nullptr || since->run == record_.run;
    one.progress = one.progress || (first && one.behind.empty());
  }
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const auto& [name, one] : checkpoints) order.emplace_back(one.mtime_ns, name);
  std::ranges::sort(order);
  std::vector<Finished> finished;
  const bool folders = place_.where().files.empty();
  const bool progress =
      std::ranges::any_of(checkpoints, [](const auto& one) { return one.second.progress; });
  if (progress && !folders) ++record_.step;
  Generation next;
  for (const auto& [time, name] : order) {
    const auto number = folders ? step_in(name) : std::nullopt;
    if (folders && !number && checkpoints[name].progress) ++record_.step;
    const std::uint64_t step = number.value_or(record_.step);
    record_.step = std::max(record_.step, step);
    finished.push_back({name, step, 0, time, checkpoints[name].behind});
    if (next.name.empty() || step >= next.step) next = {0, step, 0, 0, name, false};
  }
  if (const Generation* newest = record_.newest(); newest != nullptr && next.name.empty()) {
    next.name = newest->name;
    next.step = newest->step;
  }
  if (!order.empty()) record_.tried = 0;
  next.run = record_.run;
  next.time = std::time(nullptr);
  // Companions alone: the same moment, whose last word came late.
  if (order.empty() && record_.newest() != nullptr)
    record_.amend(std::move(capture.rows), capture.gone);
  else
    record_.add(std::move(next), std::move(capture.rows), capture.gone);
  for (Finished& one : finished)
    for (const Part& part : record_.parts_of(one.name)) one.bytes += part.bytes;
  return finished;
}

// Forgets the copies of generations that are gone. The files of a series are not written again, so
// they stand for themselves: only the copies of the last generations stay.
void Keeper::forget_copies() {
  const bool room = has_room(2 * newest_bytes());
  record_.forget_but(room ? kept_generations : kept_generations - 1);
  if (record_.generations.empty()) return;
  const std::uint64_t oldest = record_.generations.front().number;
  for (Row& row : record_.rows)
    if (row.until == 0 && row.from < oldest && record_.is_series(row.name)) row.kept.clear();
}

std::uint64_t Keeper::newest_bytes() const {
  std::uint64_t bytes = 0;
  for (const Row& row : record_.rows)
    if (row.from == record_.newest_number()) bytes += row.bytes;
  return bytes;
}

// Removes copies that no row names. One with another name costs no room, and removing it would give
// that another time of change: scripts find their newest file by it.
void Keeper::clear_kept() const {
  const auto kept = place_.own(kept_directory);
  const auto names = kept ? kept->names() : tl::unexpected(kept.error());
  if (!names) return;
  std::set<std::string> used;
  for (const Row& row : record_.rows) used.insert(row.kept);
  for (const std::string& name : *names) {
    if (used.contains(name)) continue;
    const auto status = kept->look(name);
    if (status && status->st_nlink == 1) (void)kept->remove(name);
  }
}

// True: one of its shape was of a save.
bool Keeper::is_like_recorded(const std::string& companion) const {
  const std::string shape = shape_of(companion);
  return std::ranges::any_of(record_.rows, [&shape](const Row& row) {
    return row.companion && shape_of(row.name) == shape;
  });
}

std::vector<Difference> Keeper::differences(const Listing& listing, std::uint64_t generation,
                                            const Witness& witness) const {
  using What = Difference::What;
  std::vector<Difference> found;
  std::map<std::string_view, const Row*> rows;
  for (const Row* row : record_.rows_of(generation)) rows.emplace(row->name, row);
  const std::set<std::string> all = checkpoints(listing);
  std::int64_t newest = 0;
  for (const auto& [name, row] : rows) newest = std::max(newest, row->mtime_ns);
  const Generation* moment = record_.find(generation);
  const std::int64_t begun = moment != nullptr ? moment->time * 1'000'000'000 : 0;
  for (const Member& member : listing.members) {
    const auto at = rows.find(member.name);
    const Row* row = at == rows.end() ? nullptr : at->second;
    if (row != nullptr && same(*row, member)) continue;
    const bool shorter = row != nullptr && !row->kept.empty() && member.bytes < row->bytes;
    if (row != nullptr && row->grows && !shorter) continue;
    const bool companion = member.role == Role::Companion;
    const bool silent = companion && !names_any(member, all);
    // A file that came just now and has lost its content may have named one.
    const bool hollow = silent && is_hollow(member);
    const bool came = hollow && member.mtime_ns > newest;
    const bool like = !silent || row != nullptr || is_like_recorded(member.name) ||
                      (rows.empty() && member.changed_ns >= begun);
    const bool is_of_save = like && (!witness.file || witness.file(member.name).beside);
    if (silent && !came && !(hollow && row != nullptr) && !is_of_save) continue;
    found.push_back({.name = member.name,
                     .what = row == nullptr ? What::New : What::Changed,
                     .companion = companion || !member.link.empty(),
                     .beside = silent && !hollow});
  }
  for (const auto& [name, row] : rows)
    if (listing.find(name) == nullptr)
      found.push_back(
          {.name = std::string(name), .what = What::Missing, .companion = row->companion});
  // Without a witness they are of a save only if more of it is there.
  if (!witness.file && !has_members(found))
    std::erase_if(found, [](const Difference& one) { return one.beside && one.what == What::New; });
  return found;
}

Plan plan(const std::vector<Difference>& differences, End end, bool complete) {
  if (end == End::Unwatched || end == End::Finished || end == End::Stopped)
    return take_up(differences, end);
  const bool news = std::ranges::any_of(
      differences, [](const Difference& one) { return is_there(one) && one.is_of_save(); });
  // It removes the last one before it writes the next.
  const bool lost =
      !has_members(differences) && std::ranges::any_of(differences, [](const Difference& one) {
        return !is_there(one) && one.newest;
      });
  if (!lost && (complete || !news) && std::ranges::none_of(differences, speaks_against))
    return take_up(differences, end);
  // The set before the one that was being written may be whole, and not recorded yet. A companion
  // that names the newest may have been written for either.
  const bool named = std::ranges::any_of(
      differences, [](const Difference& one) { return !one.is_of_save() && is_there(one); });
  const bool written_over = std::ranges::any_of(differences, [](const Difference& one) {
    return one.current && one.what == What::Changed && one.is_of_save();
  });
  const bool older =
      !named && !written_over && std::ranges::any_of(differences, [](const Difference& one) {
        return !one.current && is_there(one);
      });
  const bool whole = older && std::ranges::none_of(differences, [](const Difference& one) {
                       return !one.current && speaks_against(one);
                     });
  Plan plan;
  plan.back = true;
  plan.why = reason(differences);
  for (const Difference& one : differences) {
    if (!is_there(one)) continue;  // it may have been removed after that set
    const bool taken = whole && !one.current && one.is_of_save();
    (taken ? plan.taken : plan.away).push_back(one.name);
  }
  return plan;
}

}  // namespace spotter::guard
