// Gives a trainer that starts a whole generation.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "agent/guard/copying.hpp"
#include "agent/guard/file_completeness.hpp"
#include "agent/guard/keeper.hpp"
#include "trainer/library/files.hpp"

namespace spotter::guard {
namespace {

using What = Difference::What;

constexpr const char* beside_name = "putting-back";
constexpr std::int64_t spared_seconds = 3600;  // for a person to notice

std::vector<std::string> new_names(const std::vector<Difference>& differences) {
  std::vector<std::string> names;
  for (const Difference& one : differences)
    if (one.what != What::Missing && one.is_of_save()) names.push_back(one.name);
  return names;
}

}  // namespace

Result<Settled> Keeper::settle(bool thorough, const Witness& witness) {
  Settled settled;
  auto listing = TRY(place_.list());
  settled.left_alone = !left_alone(listing).empty();
  if (settled.left_alone || (absent_ && listing.members.empty())) return settled;
  TRY(make_own_folders());
  if (damaged_)
    settled.said.emplace_back(
        "the record of finished checkpoints is damaged: what is there is taken as it is");
  if (damaged_ || absent_) TRY(set_unnamed_aside());
  look_again(listing);
  const End end = record_.generations.empty() || !record_.watching ? End::Unwatched : witness.end;
  std::vector<Difference> found = differences(listing, record_.newest_number(), witness);
  TRY(weigh(found, end, witness, thorough, settled));
  const bool complete =
      end == End::Lost ? !record_.usual.empty() && !lacks_usual(record_.usual, new_names(found))
                       : witness.complete;
  Plan todo = plan(found, end, complete && !record_.restoring);
  if (record_.restoring && !todo.back) todo = Plan{.back = true};  // it was broken off
  for (const Difference& one : found) {
    const Row* row = record_.row(one.name);
    // There is no witness that a save wrote it.
    if (one.beside && row == nullptr && !witness.file && !todo.back)
      std::erase(todo.taken, one.name);
    const bool only = one.what == What::Changed && one.proof == Proof::Unknown && row != nullptr &&
                      row->kept.empty() && row->link.empty();
    if (!only || std::erase(todo.away, one.name) == 0) continue;
    settled.said.push_back(place_.shown(one.name) +
                           " may not be whole, and is left, as there was no room for a copy");
  }
  Result<void> done;
  for (const Difference& one : found) {  // before anything is moved
    const Row* row = todo.back ? record_.row(one.name) : nullptr;
    TRY(row != nullptr ? copy_of(*row) : Result<Descriptor>(Descriptor()));
  }
  if (!todo.away.empty()) done = put_away(todo.away, todo.why, settled);
  if (done && todo.back) done = put_back(todo.taken, settled);
  if (done && (!todo.taken.empty() || record_.generations.empty()))
    done = take_up(todo.taken, end, settled);
  if (end != End::Unwatched && end != End::Finished)
    remove_empty_folders(left_behind(listing.folders));
  if (done && end == End::Failed) done = try_another(witness, settled);
  if (!done) return tl::unexpected(done.error());
  record_.watching = record_.restoring = false;
  forget_away(std::time(nullptr), settled.said);
  TRY(save());
  clear_kept();
  if (const Generation* newest = record_.newest(); newest != nullptr && !newest->name.empty()) {
    settled.newest = std::max(newest->step, place_.where().files.empty() ? 0 : record_.step);
    settled.name = newest->name;
  }
  return settled;
}

// A log by its name, but for one in a folder that came with a save: it goes with that.
bool Keeper::is_old_log(const std::string& name) const {
  const std::string folder = name.substr(0, name.rfind('/') + 1);
  return is_log(name) && (folder.empty() || std::ranges::any_of(record_.rows, [&](const Row& row) {
                            return row.name.starts_with(folder);
                          }));
}

// Each file's evidence. A file that cannot be read may be whole: nothing is moved then.
Result<void> Keeper::weigh(std::vector<Difference>& found, End end, const Witness& witness,
                           bool thorough, Settled& settled) const {
  std::set<std::string> names;
  for (const Difference& one : found) names.insert(one.name);
  const auto changed = [&names](const std::string& name) { return names.contains(name); };
  std::vector<Difference> readable;
  for (Difference& one : found) {
    one.newest = record_.newest() != nullptr && !one.companion &&
                 record_.checkpoint_of(one.name) == record_.newest()->name;
    const auto seen = witness.file ? witness.file(one.name) : Witness::Seen{};
    one.current = seen.current;
    const bool meant = end == End::Unwatched || end == End::Finished || end == End::Stopped;
    if (one.what != What::Missing && (seen.log || (!meant && is_old_log(one.name)))) continue;
    one.temporary = !meant && one.what == What::New && seen.temporary;
    if (one.what != What::Missing) {
      const auto look = proof_of(one, end);
      if (!look && one.what == What::Changed && !one.companion) return tl::unexpected(look.error());
      if (!look) {
        settled.said.push_back(look.error().message + ": it is left as it is");
        continue;
      }
      one.proof = look->proof;
      one.why = look->why;
      one.like = one.proof == Proof::Torn && !one.companion && has_like(one.name, changed);
      const Row* row = record_.row(one.name);  // nobody looks at when a log is closed
      const bool log = row != nullptr && row->grows;
      const bool closed = !log && seen.closed;
      if (one.proof == Proof::Unknown && (meant || closed)) one.proof = Proof::Whole;
    }
    readable.push_back(std::move(one));
  }
  found = std::move(readable);
  if (!thorough) return {};
  for (const Row& row : record_.rows) {
    const bool of_newest = row.until == 0 && row.link.empty() && record_.newest() != nullptr &&
                           record_.checkpoint_of(row.name) == record_.newest()->name;
    if (!of_newest || std::ranges::find(found, row.name, &Difference::name) != found.end())
      continue;
    const auto whole = TRY(has_sum(row));
    if (!whole)
      found.push_back({.name = row.name,
                       .what = What::Changed,
                       .proof = Proof::Torn,
                       .why = "it is not what was recorded"});
  }
  return {};
}

Result<Keeper::Evidence> Keeper::proof_of(const Difference& one, End end) const {
  const auto folder = place_.parent(one.name);
  if (!folder) return failure(place_.shown(one.name) + " cannot be read");
  const auto status = folder->look(last_component(one.name));
  if (status && S_ISLNK(status->st_mode)) return Evidence{Proof::Whole, {}};
  const Descriptor file = place_.open(one.name, O_RDONLY);
  if (!file && is_out_of_place(errno)) return Evidence{Proof::Unknown, {}};
  struct stat now {};
  if (!file || ::fstat(file.get(), &now) != 0)
    return failure(place_.shown(one.name) + " cannot be read: " + std::strerror(errno));
  if (!place_.is_trainers(now))
    return failure(place_.shown(one.name) + " " + std::string(has_other_name));
  const auto bytes = static_cast<std::uint64_t>(now.st_size);
  if (one.companion) {
    const std::string text = text_of(one.name);
    const Row* row = record_.row(one.name);
    const bool was_empty = row != nullptr && row->bytes == 0 && row->link.empty();  // a mark
    const bool torn = (text.empty() && !was_empty) || text.find('\0') != std::string::npos;
    return Evidence{torn ? Proof::Torn : Proof::Whole, "it is empty, or its blocks are missing"};
  }
  const Look look = look_at(file.get(), bytes, one.name);
  if (look.shape == Shape::Torn) return Evidence{Proof::Torn, look.why};
  if (checkpoint::is_mostly_unwritten(file.get()))
    return Evidence{Proof::Torn, "most of it was never written"};
  // After the loss of a machine a length proves nothing: then each byte has to be as its sum says.
  const bool whole =
      end == End::Lost ? is_known_complete(file.get(), bytes) : look.shape == Shape::Sealed;
  return Evidence{whole ? Proof::Whole : Proof::Unknown, {}};
}

Result<bool> Keeper::has_sum(const Row& row) const {
  const Descriptor file = place_.open(row.name, O_RDONLY);
  if (!file && is_out_of_place(errno)) return true;  // that it is missing was seen
  if (!file) return checkpoint::system_failure("cannot open", place_.shown(row.name));
  if (row.sum.empty()) return true;
  const auto sum = sum_of_file(file.get(), row.bytes);
  if (!sum) return failure(place_.shown(row.name) + ": " + sum.error().message);
  return *sum == row.sum;
}

Result<void> Keeper::take_up(const std::vector<std::string>& names, End end, Settled& settled) {
  const std::set<std::string> taken(names.begin(), names.end());
  auto captured = capture([&taken](const std::string& name) { return !taken.contains(name); }, {},
                          [&taken](const std::string& name) { return taken.contains(name); });
  if (!captured) {
    if (captured.error().why != Refusal::Why::Busy) return failure(captured.error().words);
    settled.said.push_back(place_.shown(captured.error().words) +
                           " is written by somebody just now, and is left as it is");
    return {};
  }
  for (auto& one : captured->left_out) settled.said.push_back(std::move(one.words));
  if (captured->rows.empty() && captured->gone.empty() && !record_.generations.empty()) return {};
  const auto finished = finish(*std::move(captured));
  if (!finished) return failure(finished.error().words);
  settled.finished = *finished;
  if (end != End::Unwatched && end != End::Lost) return {};
  for (const Finished& one : *finished)
    settled.said.push_back(place_.shown(one.name) + " is whole, and is recorded now");
  return {};
}

// All names of one moment, below one number. A folder of which all is moved goes as it is.
Result<void> Keeper::put_away(const std::vector<std::string>& names, const std::string& why,
                              Settled& settled) {
  const auto torn = place_.own(torn_directory);
  if (!torn) return wrong("cannot use", torn_directory, torn.error());
  do {
    ++record_.number;
  } while (torn->look(numbered(record_.number)));  // it was given before something failed
  // Recorded before it is moved: whatever happens then, it is named.
  Away away{record_.number, std::time(nullptr), 0, names, why};
  for (const std::string& name : names)
    if (const auto status = place_.look(name))
      away.bytes += static_cast<std::uint64_t>(status->st_size);
  record_.away.push_back(std::move(away));
  record_.restoring = true;
  if (auto saved = save(); !saved) return saved;
  const auto below = torn->make_folder(numbered(record_.number), 0755);
  if (!below) return wrong("cannot make", torn_directory, below.error());
  for (const std::string& name : names) {
    const auto parent = place_.parent(name);
    if (!parent || !parent->look(last_component(name))) continue;  // gone meanwhile
    const auto above = make_above(*below, name);
    auto moved = above ? parent->rename(last_component(name), *above, last_component(name))
                       : tl::unexpected(above.error());
    if (!moved && moved.error() == std::errc::permission_denied &&
        ::fchmod(parent->descriptor(), 0700) == 0)  // its folder is read-only
      moved = parent->rename(last_component(name), *above, last_component(name));
    if (!moved)
      return failure("cannot put away " + place_.shown(name) + ": " + moved.error().message());
  }
  remove_empty_folders(names);
  settled.torn.push_back(place_.where().directory + ", " + some_of(names) + ": " + why +
                         "; moved to " + below->path().string() + " (" +
                         bytes_text(record_.away.back().bytes) + ")");
  return {};
}

// The folders of checkpoints that have no file; any other may be a mark of a whole one.
std::vector<std::string> Keeper::left_behind(std::vector<std::string> folders) const {
  std::set<std::string> whole, shapes;
  std::int64_t newest = 0;  // by the clock that the folders have, too
  for (const Row& row : record_.rows) {
    if (row.until == 0 && row.from == record_.newest_number())
      newest = std::max(newest, row.mtime_ns);
    const std::string checkpoint = row.name.substr(0, row.name.find('/'));
    if (checkpoint == row.name) continue;
    shapes.insert(shape_of(checkpoint));
    if (row.until == 0 && row.link.empty()) whole.insert(checkpoint);
  }
  std::erase_if(folders, [&](const std::string& folder) {
    const auto status = place_.look(folder);
    if (status && found({}, *status).mtime_ns < newest)
      return true;  // a script has made it beforehand, for later: fold_4
    const std::string checkpoint = folder.substr(0, folder.find('/'));
    const std::string shape = shape_of(checkpoint);
    const bool like = shape.find('#') != shape.npos && shapes.contains(shape);
    return whole.contains(checkpoint) || (!like && place_.where().folders.empty());
  });
  return folders;
}

// With those above them. They were left by what was put away, or by a lost machine: a script that
// looks for the newest folder would find them.
void Keeper::remove_empty_folders(const std::vector<std::string>& names) const {
  std::set<std::string, std::greater<>> folders;  // the inner ones first
  for (const std::string& name : names) {
    folders.insert(name);
    for (std::string& above : folders_above(name)) folders.insert(std::move(above));
  }
  for (const std::string& folder : folders) {
    const auto parent = place_.parent(folder);
    if (parent) (void)parent->remove_folder(last_component(folder));
  }
}

// Restores what the newest generation has and the directory lacks; but not what becomes the next
// one.
Result<void> Keeper::put_back(const std::vector<std::string>& taken, Settled& settled) {
  const auto listing = TRY(place_.list());
  std::vector<std::string> names, lost;
  for (const Difference& one : differences(listing, record_.newest_number())) {
    if (one.what != What::Missing || std::ranges::find(taken, one.name) != taken.end()) continue;
    const auto there = place_.look(one.name);
    if (there && one.companion && S_ISREG(there->st_mode)) continue;  // longer than such files are
    // It has lost its files: sockets are left, empty folders, what is not ours.
    if (there && S_ISDIR(there->st_mode))
      TRY(put_away({one.name}, "it is a folder, and was none", settled));
    const auto row = std::ranges::find_if(
        record_.rows, [&one](const Row& each) { return each.name == one.name && each.until == 0; });
    const auto back = TRY(restore(*row));
    if (back || !row->grows) (back ? names : lost).push_back(one.name);
  }
  if (!lost.empty())
    settled.said.push_back(place_.where().directory + ": " + some_of(lost) +
                           " cannot be put back: no copy is as it was at the newest moment at "
                           "which all was whole");
  if (!names.empty())
    settled.said.push_back(place_.where().directory + ": " + some_of(names) +
                           (names.size() == 1 ? " is" : " are") +
                           " put back, as of the newest moment at which all was whole");
  return {};
}

// An empty descriptor: there is none. Fails if one is there that cannot be read.
Result<Descriptor> Keeper::copy_of(const Row& row) const {
  if (row.kept.empty()) return Descriptor();
  const auto kept = place_.own(kept_directory);
  auto copy = kept ? kept->file(row.kept, O_RDONLY) : tl::unexpected(kept.error());
  const auto none = std::errc::invalid_argument;  // no regular file
  if (copy) return *std::move(copy);
  if (is_out_of_place(copy.error().value()) || copy.error() == none) return Descriptor();
  return failure("cannot read the copy of " + place_.shown(row.name) + ": " +
                 copy.error().message());
}

// A copy that its length and sum fit; of a link that is the row.
Result<bool> Keeper::has_copy(const Row& row) const {
  if (!row.link.empty()) return true;
  const auto copy = TRY(copy_of(row));
  struct stat status {};
  if (!copy || ::fstat(copy.get(), &status) != 0) return false;
  const auto sum = sum_of_file(copy.get(), row.bytes);
  return static_cast<std::uint64_t>(status.st_size) == row.bytes && sum && *sum == row.sum;
}

// False: there is no copy. Fails where one is there that cannot be read, or put back.
Result<bool> Keeper::restore(Row& row) {
  const std::string shown = place_.shown(row.name);
  const auto above = [&](const struct stat* like) -> Result<SafeDirectory, std::error_code> {
    const auto folder = place_.folder("");
    return folder ? make_above(*folder, row.name, like) : tl::unexpected(folder.error());
  };
  const std::string name = last_component(row.name);
  if (!row.link.empty()) {
    const auto parent = above(nullptr);
    if (!parent || !parent->make_link(row.link, name)) return failure("cannot put back " + shown);
    return true;
  }
  const auto own = place_.own();
  const auto good = has_copy(row);
  if (!good || !*good) return good;
  const auto copy = copy_of(row);
  struct stat status {};
  if (!own || !copy || !*copy || ::fstat(copy->get(), &status) != 0)
    return failure("cannot read the copy of " + shown);
  const auto parent = above(&status);
  if (!parent) return failure("cannot put back " + shown + ": " + parent.error().message());
  const auto copied = copy_file(copy->get(), status, *own, beside_name);
  if (!copied) (void)own->remove(beside_name);
  const auto kept = place_.own(kept_directory);
  auto moved = copied ? own->rename(beside_name, *parent, name)
               : kept ? kept->rename(row.kept, *parent, name)  // no room for a second one
                      : tl::unexpected(kept.error());
  if (moved && !copied) row.kept.clear();
  if (const auto now = place_.look(row.name); moved && now)
    row.changed_ns = found(row.name, *now).changed_ns;
  if (moved) return true;
  (void)own->remove(beside_name);
  return failure("cannot put back " + shown + ": " + moved.error().message());
}

// A start failed before its first progress: the checkpoint may be the reason, whatever its files
// say. The one before is tried, once; if that fails, too, it was not, and the newest comes back.
Result<void> Keeper::try_another(const Witness& witness, Settled& settled) {
  const Generation* newest = record_.newest();
  if (newest == nullptr || newest->run == record_.run || witness.progressed) return {};
  const std::uint64_t failed = newest->number;
  const bool second = record_.tried != 0;
  if (record_.tried == newest->number) return {};  // both were tried
  const std::uint64_t other = second ? record_.tried : before(failed);
  const auto listing = TRY(place_.list());
  if (other == 0 || !is_restorable(listing, other)) return {};
  std::vector<std::string> away;
  for (const Difference& one : differences(listing, other))
    if (one.what != What::Missing && (!one.beside || record_.row(one.name) != nullptr))
      away.push_back(one.name);
  // The way back must be open.
  for (const std::string& name : away) {
    const Row* row = record_.row(name);
    if (row == nullptr || (row->kept.empty() && row->link.empty())) return {};
  }
  const std::string words =
      second ? "the start on the checkpoint before it failed, too: it is there again"
             : "a start on it failed before any progress: the one before is tried";
  record_.generations.back().failed = true;
  record_.go_to(other);
  record_.tried = second ? record_.newest_number() : failed;
  record_.restoring = true;
  if (auto saved = save(); !saved) return saved;
  if (!away.empty())
    if (auto done = put_away(away, words, settled); !done) return done;
  if (auto done = put_back({}, settled); !done) return done;
  settled.tried_again = !second;
  return {};
}

// The newest one before that has a checkpoint. 0: none.
std::uint64_t Keeper::before(std::uint64_t generation) const {
  for (auto at = record_.generations.rbegin(); at != record_.generations.rend(); ++at)
    if (at->number < generation && !at->name.empty()) return at->number;
  return 0;
}

// Is each content of it in the directory, or kept?
bool Keeper::is_restorable(const Listing& listing, std::uint64_t generation) const {
  for (const Difference& one : differences(listing, generation)) {
    if (one.what == What::New || one.companion) continue;
    const auto rows = record_.rows_of(generation);
    const auto row = std::ranges::find(rows, one.name, [](const Row* row) { return row->name; });
    if (row == rows.end() || ((*row)->kept.empty() && (*row)->link.empty())) return false;
  }
  return true;
}

// Puts away the copies that only the record could have named: a person may still need them. They
// get numbers that nothing has yet: a name that is there would be replaced.
Result<void> Keeper::set_unnamed_aside() {
  const auto own = place_.own();
  const auto kept = place_.own(kept_directory);
  const auto torn = place_.own(torn_directory);
  const auto copies = kept ? kept->names() : tl::unexpected(kept.error());
  const auto there = torn ? torn->names() : tl::unexpected(torn.error());
  if (!own) return wrong("cannot use", "", own.error());
  if (!copies) return wrong("cannot list", kept_directory, copies.error());
  if (!there) return wrong("cannot list", torn_directory, there.error());
  for (const auto* names : {&*copies, &*there})
    for (const std::string& name : *names)
      record_.number =
          std::max<std::uint64_t>(record_.number, std::strtoull(name.c_str(), nullptr, 10));
  for (const std::string& name : *copies) {
    const auto moved = kept->rename(name, *torn, next_number() + "-copy");
    if (!moved) return wrong("cannot put away", kept_directory, moved.error());
  }
  if (!damaged_) return {};
  const auto moved = own->rename(record_name, *torn, next_number() + "-" + record_name);
  if (!moved) return wrong("cannot put away", record_name, moved.error());
  return {};
}

void Keeper::forget_away(std::int64_t now, std::vector<std::string>& said) {
  const auto torn = place_.own(torn_directory);
  const auto listed = torn ? torn->names() : tl::unexpected(torn.error());
  if (!listed) return;
  // Without a checkpoint in any generation this is all that there is.
  if (std::ranges::all_of(record_.generations, &std::string::empty, &Generation::name)) return;
  std::erase_if(record_.away, [&](const Away& one) { return !torn->look(numbered(one.number)); });
  const std::uint64_t needed = 2 * newest_bytes();
  std::size_t left = removals_limit;
  for (std::size_t i = 0; i + 1 < listed->size(); ++i) {
    const std::string& name = (*listed)[i];
    const auto status = torn->look(name);
    if (!status || name == numbered(spared_)) continue;
    const std::int64_t age = now - status->st_ctime;
    const bool old = i + away_limit < listed->size() && age >= away_seconds;
    const bool in_the_way = age >= spared_seconds && !has_room(needed);
    if (!old && !in_the_way) continue;
    remove_any(*torn, name, left);
    if (in_the_way)
      said.push_back((torn->path() / name).string() + " is removed: there is no room for two more");
    std::erase_if(record_.away,
                  [&name](const Away& away) { return numbered(away.number) == name; });
  }
  if (record_.away.empty() || has_room(needed)) return;
  const std::string home = place_.where().mount.string();
  said.push_back("there is no room for two checkpoints more: `spotter checkpoints " + home +
                 "` lists what was put away in " + torn->path().string() +
                 ", and `spotter checkpoints " + home + " --delete " +
                 std::to_string(record_.away.front().number) + "` removes the oldest (" +
                 bytes_text(record_.away.front().bytes) + ")");
}

Result<Settled> Keeper::prove() const {
  Settled settled;
  const auto listing = TRY(place_.list());
  settled.left_alone = !left_alone(listing).empty();
  if (settled.left_alone) return settled;
  if (damaged_) settled.torn.emplace_back("the record of finished checkpoints is damaged");
  if (absent_ || damaged_) return settled;
  for (auto at = record_.generations.rbegin(); at != record_.generations.rend(); ++at) {
    bool whole = true;
    for (const Row* row : record_.rows_of(at->number)) {
      const Member* member = listing.find(row->name);
      const bool unchanged = member != nullptr && row->bytes == member->bytes &&
                             row->mtime_ns == member->mtime_ns && !row->sum.empty();
      if (record_.checkpoint_of(row->name) != at->name || !unchanged || !whole) continue;
      whole = TRY(has_sum(*row));
    }
    settled.name = at->name;
    if (whole) {
      if (!at->name.empty()) settled.newest = at->step;
      if (settled.torn.empty() && record_.step > 0) settled.newest = record_.step;
      return settled;
    }
    settled.torn.push_back(place_.shown(at->name) + ": it is not what was recorded");
  }
  return settled;
}

}  // namespace spotter::guard
