// What a trainer finds when it starts: only whole files.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <system_error>

#include "agent/guard/copying.hpp"
#include "agent/guard/keeper.hpp"
#include "agent/guard/shape.hpp"
#include "trainer/library/files.hpp"

namespace spotter::guard {
namespace {

constexpr const char* beside_name = "putting-back";

const Found* find(const std::vector<Found>& files, const std::string& name) {
  const auto at = std::lower_bound(
      files.begin(), files.end(), name,
      [](const Found& file, const std::string& wanted) { return file.name < wanted; });
  return at != files.end() && at->name == name ? &*at : nullptr;
}

constexpr const char* cannot_be_read = " cannot be read, and is left as it is";

std::vector<std::string> names_in(const Result<Beneath, std::error_code>& directory) {
  auto names = directory ? directory->names() : tl::unexpected(directory.error());
  return names ? *std::move(names) : std::vector<std::string>();
}

}  // namespace

Result<void> Keeper::begin_settling(Settled& settled) {
  if (auto made = make_own_folders(); !made) return made;
  if (damaged_) {
    settled.said.push_back(
        std::string("the record of finished checkpoint ") +
        (keeps_folders() ? "folders is damaged: the folders" : "files is damaged: the files") +
        " are taken as they are");
  }
  return damaged_ || absent_ ? set_unnamed_aside() : Result<void>();
}

Result<Settled> Keeper::settle(bool thorough) {
  if (keeps_folders()) return settle_folders(thorough);
  Settled settled;
  std::vector<std::string> ones;
  auto files = place_.list(nullptr, &ones);
  if (!files) return tl::unexpected(files.error());
  forget_parts_of(ones, settled);
  if (absent_ && files->empty()) return settled;
  if (auto begun = begin_settling(settled); !begun) return tl::unexpected(begun.error());
  std::vector<Found> unknown;
  auto done = settle_recorded(*files, thorough, unknown, settled);
  if (done) done = settle_unknown(std::move(unknown), settled);
  if (!done) return tl::unexpected(done.error());
  // Its owner removed it, and then ended before it finished the next.
  Entry* last = record_.files.empty() ? nullptr : &record_.files.back();
  if (last != nullptr && record_.newest() == nullptr) {
    const auto copy = whole_copy(*last);
    const auto back = copy ? put_back(*last, *copy, settled) : tl::unexpected(copy.error());
    if (!back) return tl::unexpected(back.error());
  }
  forget_old_copies();
  record_.watching = false;
  if (auto saved = save(); !saved) return tl::unexpected(saved.error());
  clear_kept();
  forget_torn(std::time(nullptr), settled.said);
  if (const Entry* newest = record_.newest()) {
    settled.newest = newest == &record_.files.back() ? record_.step : newest->step;
    settled.name = newest->name;
  }
  return settled;
}

// Of folders that are one checkpoint an earlier Spotter recorded single files, and moved them.
void Keeper::forget_parts_of(const std::vector<std::string>& ones, Settled& settled) {
  for (const std::string& one : ones) {
    std::erase_if(record_.files,
                  [&one](const Entry& entry) { return entry.name.starts_with(one + "/"); });
  }
  if (ones.empty()) return;
  settled.said.push_back(place_.shown(ones.front()) + " is one checkpoint of several files" +
                         (ones.size() > 1 ? ", as are others" : "") +
                         ": checkpoints.files keeps none of them; checkpoints.folders does");
}

Result<void> Keeper::settle_recorded(const std::vector<Found>& files, bool thorough,
                                     std::vector<Found>& unknown, Settled& settled) {
  const Entry* newest = record_.newest();
  for (Entry& entry : record_.files) {
    const Found* file = find(files, entry.name);
    if (file == nullptr && entry.restoring) {
      const auto copy = whole_copy(entry);
      const auto back = copy ? put_back(entry, *copy, settled) : tl::unexpected(copy.error());
      if (!back) return back;
      continue;
    }
    entry.restoring = false;
    if (entry.gone || file == nullptr) {
      entry.gone = true;
      continue;
    }
    const auto whole = is_whole(entry, *file, thorough && &entry == newest);
    if (!whole) return tl::unexpected(whole.error());
    if (*whole) continue;
    const bool changed = entry.bytes != file->bytes || entry.mtime_ns != file->mtime_ns;
    if (changed && !record_.watching) {  // by a person, while no trainer ran
      unknown.push_back(*file);
      continue;
    }
    if (changed && record_.watching) {  // overwritten, and it may be whole all the same
      const Descriptor opened = place_.open(entry.name, O_RDONLY);
      if (!opened && !is_out_of_place(errno)) {
        return checkpoint::system_failure("cannot open", place_.shown(entry.name));
      }
      if (opened && is_known_complete(opened.get(), file->bytes)) {
        unknown.push_back(*file);
        continue;
      }
    }
    auto done = exchange(entry, "it is not what was finished and recorded", settled);
    if (!done) return done;
  }
  for (const Found& file : files) {
    const Entry* entry = record_.find(file.name);
    if (entry != nullptr && !entry->gone) continue;
    if (place_.open(file.name, O_PATH | O_NOFOLLOW)) unknown.push_back(file);
  }
  return {};
}

Result<void> Keeper::settle_unknown(std::vector<Found> unknown, Settled& settled) {
  std::sort(unknown.begin(), unknown.end(),
            [](const Found& a, const Found& b) { return a.mtime_ns < b.mtime_ns; });
  for (const Found& file : unknown) {
    std::string why;
    if (record_.watching) {
      const Descriptor opened = place_.open(file.name, O_RDONLY);
      if (!opened && !is_out_of_place(errno)) {
        settled.said.push_back(place_.shown(file.name) + cannot_be_read);
        continue;
      }
      const bool complete = opened && is_known_complete(opened.get(), file.bytes);
      if (!complete) why = "it was not finished when its trainer ended";
    }
    if (why.empty()) {
      auto candidate = examine(file.name, Closing::Voluntary);
      if (candidate) {
        auto finished = finish(*std::move(candidate));
        if (!finished) return tl::unexpected(finished.error());
        settled.said.push_back(place_.shown(file.name) + " is whole, and is recorded now");
        continue;
      }
      using Why = Refusal::Why;
      if (candidate.error().why == Why::Gone || candidate.error().why == Why::Busy) continue;
      why = candidate.error().words;
      if (candidate.error().why == Why::Failed) {
        settled.said.push_back(place_.shown(file.name) + cannot_be_read + ": " + why);
        continue;
      }
    }
    Entry* entry = record_.find(file.name);
    auto done =
        entry != nullptr ? exchange(*entry, why, settled) : set_aside(file.name, why, settled);
    if (!done) return done;
  }
  return {};
}

Result<void> Keeper::set_aside(const std::string& name, const std::string& why, Settled& settled) {
  const auto parent = place_.parent(name);
  const auto torn = place_.own(torn_directory);
  std::string moved = next_number() + "-" + last_component(name);
  // A number that was given before something failed, and was not saved, is given again.
  for (int tries = 0; torn && torn->look(moved) && tries < 1000; ++tries)
    moved = next_number() + "-" + last_component(name);
  const auto done = !parent ? tl::unexpected(parent.error())
                    : !torn ? tl::unexpected(torn.error())
                            : parent->rename(last_component(name), *torn, moved);
  if (!done)
    return failure("cannot move aside " + place_.shown(name) + ": " + done.error().message());
  settled.torn.push_back(place_.shown(name) + ": " + why + "; moved to " +
                         (torn->path() / moved).string());
  return {};
}

// Of its last finished content, if there is one. Fails where it cannot be read, and may be whole:
// asked before anything is moved.
Result<Descriptor> Keeper::whole_copy(const Entry& entry) const {
  if (entry.kept.empty()) return Descriptor();
  const auto kept = place_.own(kept_directory);
  auto from = kept ? kept->file(entry.kept, O_RDONLY) : tl::unexpected(kept.error());
  const std::string shown = place_.shown_own(kept_directory) / entry.kept;
  const auto none = std::errc::invalid_argument;  // no regular file
  if (!from && (is_out_of_place(from.error().value()) || from.error() == none)) return Descriptor();
  if (!from) return failure("cannot open " + shown + ": " + from.error().message());
  struct stat status {};
  if (::fstat(from->get(), &status) != 0) return checkpoint::system_failure("cannot open", shown);
  if (static_cast<std::uint64_t>(status.st_size) != entry.bytes) return Descriptor();
  const auto sum = sum_of_file(from->get(), entry.bytes);
  if (!sum) return failure(shown + ": " + sum.error().message);
  return *sum == entry.sum ? *std::move(from) : Descriptor();
}

// Its file moves aside, and its last finished content takes its place.
Result<void> Keeper::exchange(Entry& entry, const std::string& why, Settled& settled) {
  const auto copy = whole_copy(entry);
  if (!copy) return tl::unexpected(copy.error());
  if (*copy) {
    entry.restoring = true;
    if (auto saved = save(); !saved) return saved;
  }
  if (auto aside = set_aside(entry.name, why, settled); !aside) return aside;
  return put_back(entry, *copy, settled);
}

// Where there is no copy, or no folder for it, the file is gone.
Result<void> Keeper::put_back(Entry& entry, const Descriptor& copy, Settled& settled) {
  const auto parent = place_.parent(entry.name);
  if (!copy || (!parent && is_out_of_place(parent.error().value()))) {
    entry.gone = true;
    entry.restoring = false;
    return {};
  }
  const auto own = place_.own();
  const auto kept = place_.own(kept_directory);
  struct stat status {};
  if (!parent || !own || !kept || ::fstat(copy.get(), &status) != 0)
    return failure("cannot put back " + place_.shown(entry.name));
  const std::string name = last_component(entry.name);
  const bool copied =
      copy_file(copy.get(), status, *own, beside_name) && own->rename(beside_name, *parent, name);
  if (!copied) {
    (void)own->remove(beside_name);
    // Where no room is left for a second one: the copy itself.
    const auto moved = kept->rename(entry.kept, *parent, name);
    if (!moved)
      return failure("cannot put back " + place_.shown(entry.name) + ": " +
                     moved.error().message());
    entry.kept.clear();
  }
  entry.gone = entry.restoring = false;
  settled.said.push_back(place_.shown(entry.name) + ": its last finished content is put back");
  return {};
}

// What only the record could have said whose copies they are: a person may still need them. With
// numbers that nothing has yet: a name that is there would be replaced.
Result<void> Keeper::set_unnamed_aside() {
  const auto own = place_.own();
  const auto kept = place_.own(kept_directory);
  const auto torn = place_.own(torn_directory);
  const auto copies = kept ? kept->names() : tl::unexpected(kept.error());
  const auto before = torn ? torn->names() : tl::unexpected(torn.error());
  if (!own) return wrong("cannot use", "", own.error());
  if (!copies) return wrong("cannot list", kept_directory, copies.error());
  if (!before) return wrong("cannot list", torn_directory, before.error());
  for (const auto* names : {&*copies, &*before})
    for (const std::string& name : *names)
      record_.number =
          std::max<std::uint64_t>(record_.number, std::strtoull(name.c_str(), nullptr, 10));
  for (const std::string& name : *copies) {
    const auto moved = kept->rename(name, *torn, next_number() + "-copy");
    if (!moved) return wrong("cannot move aside", kept_directory, moved.error());
  }
  if (!damaged_) return {};
  const auto moved = own->rename(record_name, *torn, next_number() + "-" + record_name);
  if (!moved) return wrong("cannot move aside", record_name, moved.error());
  return {};
}

// Copies that no entry names.
void Keeper::clear_kept() const {
  const auto kept = place_.own(kept_directory);
  for (const std::string& name : names_in(kept)) {
    const bool used = std::any_of(record_.files.begin(), record_.files.end(),
                                  [&](const Entry& entry) { return entry.kept == name; });
    if (!used) (void)kept->remove(name);
  }
}

Result<Settled> Keeper::prove() const {
  Settled settled;
  if (damaged_) settled.torn.emplace_back("the record of finished checkpoint files is damaged");
  if (absent_ || damaged_) return settled;
  if (keeps_folders()) return prove_folders();
  const auto files = place_.list();
  if (!files) return tl::unexpected(files.error());
  if (record_.step > 0) settled.newest = record_.step;
  for (auto at = record_.files.rbegin(); at != record_.files.rend(); ++at) {
    const Found* file = at->gone ? nullptr : find(*files, at->name);
    if (file == nullptr) continue;
    settled.name = at->name;
    const bool unchanged = file->bytes == at->bytes && file->mtime_ns == at->mtime_ns;
    const auto whole = unchanged ? is_whole(*at, *file, true) : Result<bool>(true);
    if (!whole) return tl::unexpected(whole.error());
    if (*whole) {
      if (!settled.torn.empty()) settled.newest = at->step;
      return settled;
    }
    settled.torn.push_back(place_.shown(at->name) + ": it is not what was recorded");
    settled.newest.reset();
  }
  return settled;
}

}  // namespace spotter::guard
