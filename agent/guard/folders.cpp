// Folders that are one checkpoint each: recorded, found and moved aside as one.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <utility>

#include "agent/guard/copying.hpp"
#include "agent/guard/format.hpp"
#include "agent/guard/keeper.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::guard {
namespace {

using Clock = std::chrono::steady_clock;
using Verdict = Judgement::Verdict;

constexpr const char* latest_name = "latest";  // of DeepSpeed: the name of a folder beside it
constexpr const char* latest_beside = "latest-new";
constexpr std::size_t latest_limit = 4096;
constexpr std::chrono::seconds between_saves(2);
constexpr std::size_t most_sentences = 50;

tl::unexpected<Refusal> declined(Refusal::Why why, std::string words = {}) {
  return tl::unexpected(Refusal{why, std::move(words)});
}

template <class Parts>
std::string look_of_all(const Parts& parts) {
  std::string lines;
  for (const auto& part : parts) {
    lines +=
        part.name + '\n' + std::to_string(part.bytes) + '\n' + std::to_string(part.mtime_ns) + '\n';
  }
  return checkpoint::sum_of(lines);
}

// A file's sum is asked for while nobody may change it, and once it is on the disk.
class Examiner {
 public:
  Examiner(const Place& place, const Beneath& folder) : place_(place), folder_(folder) {}

  Result<Part, Refusal> part(const Found& file, bool durable) const {
    const auto failed = [&file](const std::string& what) {
      return declined(Refusal::Why::Failed, file.name + " in it " + what);
    };
    const auto opened = folder_.file(file.name, O_RDONLY);
    if (!opened &&
        (is_out_of_place(opened.error().value()) || opened.error() == std::errc::invalid_argument))
      return declined(Refusal::Why::Busy);
    if (!opened) return failed("cannot be read: " + opened.error().message());
    struct stat status {};
    if (::fstat(opened->get(), &status) != 0 || found(file.name, status) != file)
      return declined(Refusal::Why::Busy);
    if (!place_.is_trainers(status)) return failed(std::string(has_other_name));
    if (durable && is_being_written(opened->get())) return declined(Refusal::Why::Busy);
    if (checkpoint::is_mostly_unwritten(opened->get()))
      return declined(Refusal::Why::Torn, file.name + ": most of it was never written");
    if (durable && ::fsync(opened->get()) != 0)
      return failed("cannot be made durable: " + std::string(std::strerror(errno)));
    const auto sum = sum_of_file(opened->get(), file.bytes);
    if (!sum) return failed("cannot be read: " + sum.error().message);
    return Part{file.name, file.bytes, file.mtime_ns, *sum};
  }

  Result<std::vector<Part>, Refusal> parts(const Contents& contents, bool durable) const {
    std::vector<Part> parts;
    for (const Found& file : contents.parts) {
      auto one = part(file, durable);
      if (!one) return tl::unexpected(one.error());
      parts.push_back(*std::move(one));
    }
    return parts;
  }

  // The names in it: the innermost folders first, itself last.
  Result<void, Refusal> sync(const Contents& contents) const {
    for (std::size_t i = contents.folders.size() + 1; i-- > 0;) {
      const auto inner = folder_.folder(i == 0 ? "" : contents.folders[i - 1]);
      const auto synced = inner ? inner->sync() : tl::unexpected(inner.error());
      if (!synced)
        return declined(Refusal::Why::Failed,
                        "it cannot be made durable: " + synced.error().message());
    }
    return {};
  }

 private:
  const Place& place_;
  const Beneath& folder_;
};

// model-500.pt and model-1000.pt are one name; of four ranks there are four of one.
std::map<std::string, std::size_t> names_without_numbers(const auto& parts) {
  std::map<std::string, std::size_t> names;
  for (const auto& part : parts) {
    std::string name;
    for (const char each : part.name) {
      if (each < '0' || each > '9') {
        name += each;
      } else if (!name.ends_with('#')) {
        name += '#';
      }
    }
    ++names[name];
  }
  return names;
}

// All that was recorded of it is as it was; there may be more.
bool has_all(const Contents& contents, const std::vector<Part>& parts) {
  return !parts.empty() && std::ranges::all_of(parts, [&contents](const Part& part) {
    const Found* file = contents.find(part.name);
    return file != nullptr && file->bytes == part.bytes && file->mtime_ns == part.mtime_ns;
  });
}

// Each is a line of the journal, and all are one answer, which has a limit. The newest stay: where
// the job resumes is among them.
void shorten(std::vector<std::string>& sentences) {
  if (sentences.size() <= most_sentences) return;
  const std::size_t more = sentences.size() - most_sentences;
  sentences.erase(sentences.begin(), sentences.begin() + static_cast<std::ptrdiff_t>(more));
  sentences.insert(sentences.begin(), std::to_string(more) + " lines of older folders left out");
}

std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

}  // namespace

std::string look_of(const std::vector<Part>& parts) { return look_of_all(parts); }

bool Keeper::is_like_the_last(const Contents& contents) const {
  const Entry* last = record_.last_folder();
  if (last == nullptr || last->parts.empty()) return false;
  auto names = names_without_numbers(contents.parts);
  return std::ranges::all_of(names_without_numbers(last->parts), [&names](const auto& wanted) {
    return names[wanted.first] >= wanted.second;
  });
}

Result<Candidate, Refusal> Keeper::examine_folder(const std::string& name, Asked asked) {
  const auto folder = place_.folder(name);
  if (!folder && is_out_of_place(folder.error().value())) return declined(Refusal::Why::Gone);
  if (!folder)
    return declined(Refusal::Why::Failed, "it cannot be read: " + folder.error().message());
  const auto contents = read_contents(*folder);
  if (!contents) return tl::unexpected(contents.error());
  const auto judged = judge(place_, *folder, name, *contents);
  if (!judged) return tl::unexpected(judged.error());
  if (judged->verdict == Verdict::Incomplete) return declined(Refusal::Why::Torn, judged->why);
  const bool like = asked <= Asked::Format && is_like_the_last(*contents);
  const bool believed =
      judged->verdict == Verdict::Proven || asked == Asked::Nothing ||
      (!judged->stale &&
       ((asked == Asked::Seal && judged->sealed && like) || (asked >= Asked::Likeness && like) ||
        (asked >= Asked::Format && judged->known_format) || asked == Asked::Quiet));
  if (!believed) return declined(Refusal::Why::Unsure);
  const Examiner examiner(place_, *folder);
  auto parts = examiner.parts(*contents, true);
  if (!parts) return tl::unexpected(parts.error());
  if (auto synced = examiner.sync(*contents); !synced) return tl::unexpected(synced.error());
  const auto after = read_contents(*folder);
  if (!after) return tl::unexpected(after.error());
  if (*after != *contents) return declined(Refusal::Why::Busy);
  Candidate candidate{{name, contents->bytes, contents->mtime_ns}, sum_of_parts(*parts), {}};
  candidate.parts = *std::move(parts);
  return candidate;
}

Result<Keeper::Difference> Keeper::compare(const Entry& entry, const Unit& unit,
                                           bool thorough) const {
  if (look_of_all(unit.contents->parts) != entry.look) return Difference::Look;
  if (!thorough) return Difference::None;
  const auto folder = place_.folder(unit.name);
  if (!folder) return failure(place_.shown(unit.name) + ": " + folder.error().message());
  const auto parts = Examiner(place_, *folder).parts(*unit.contents, false);
  if (parts) return sum_of_parts(*parts) == entry.sum ? Difference::None : Difference::Bytes;
  if (parts.error().why == Refusal::Why::Torn) return Difference::Bytes;
  const bool busy = parts.error().why == Refusal::Why::Busy;
  return failure(place_.shown(unit.name) + ": " +
                 (busy ? "somebody changes it" : parts.error().words));
}

Result<Settled> Keeper::settle_folders(bool thorough) {
  Settled settled;
  const auto units = list_units(place_);
  if (!units) return tl::unexpected(units.error());
  if (absent_ && units->empty()) return settled;
  if (auto begun = begin_settling(settled); !begun) return tl::unexpected(begun.error());
  std::vector<const Unit*> unknown;
  auto done = settle_recorded(*units, thorough, unknown, settled);
  if (done) done = settle_unknown(unknown, settled);
  if (!done) return tl::unexpected(done.error());
  shorten(settled.torn);
  settle_latest(settled);
  record_.watching = false;
  if (auto saved = save(); !saved) return tl::unexpected(saved.error());
  clear_kept();
  forget_torn(std::time(nullptr), settled.said);
  shorten(settled.said);
  if (const Entry* newest = record_.newest()) {
    settled.newest = newest->step;
    settled.name = newest->name;
  }
  return settled;
}

Result<void> Keeper::settle_recorded(const std::vector<Unit>& units, bool thorough,
                                     std::vector<const Unit*>& unknown, Settled& settled) {
  const Entry* newest = record_.newest();
  for (const Unit& unit : units) {
    Entry* entry = record_.find(unit.name);
    const bool known = entry != nullptr && !entry->gone;
    if (!unit.contents && unit.contents.error().why == Refusal::Why::Failed && known)
      return failure(place_.shown(unit.name) + ": " + unit.contents.error().words);
    if (!unit.contents) {
      settled.said.push_back(place_.shown(unit.name) +
                             " is left as it is: " + unit.contents.error().words);
      continue;
    }
    if (!known) {
      unknown.push_back(&unit);
      continue;
    }
    const auto differs = compare(*entry, unit, thorough && entry == newest);
    if (!differs) return tl::unexpected(differs.error());
    if (*differs == Difference::None) continue;
    // By a person, while no trainer ran; with more files than when it was recorded; or nobody knows
    // with which: of an older one the record has the sum alone.
    if (*differs == Difference::Look &&
        (!record_.watching || entry->parts.empty() || has_all(*unit.contents, entry->parts))) {
      unknown.push_back(&unit);
      continue;
    }
    auto done = set_folder_aside(unit.name, "it is not what was finished and recorded", settled);
    if (!done) return done;
  }
  // Its owner has removed it.
  for (Entry& entry : record_.files) {
    entry.gone = entry.gone || std::ranges::none_of(units, [&entry](const Unit& unit) {
                   return unit.name == entry.name;
                 });
  }
  return {};
}

bool Keeper::can_be_judged(const Unit& unit) const {
  const auto folder = place_.folder(unit.name);
  const auto judged = folder ? judge(place_, *folder, unit.name, *unit.contents)
                             : Result<Judgement, Refusal>(declined(Refusal::Why::Failed));
  return judged || judged.error().why != Refusal::Why::Failed;
}

Result<void> Keeper::settle_unknown(const std::vector<const Unit*>& found, Settled& settled) {
  std::vector<const Unit*> unknown = found;
  std::ranges::stable_sort(unknown, {}, [](const Unit* unit) {
    return std::pair(step_in(unit->name).value_or(0), unit->contents->mtime_ns);
  });
  auto saved = Clock::now();
  for (const Unit* unit : unknown) {
    const Entry* entry = record_.find(unit->name);
    const bool known = entry != nullptr && !entry->gone;
    std::string why = "it was not finished when its trainer ended";
    if (record_.watching && !known && !can_be_judged(*unit)) {
      settled.said.push_back(place_.shown(unit->name) +
                             " is left as it is: a file of it cannot be read");
      continue;
    }
    if (!record_.watching || known) {
      auto candidate = examine_folder(unit->name, Asked::Nothing);
      if (candidate) {
        auto entered = enter(*std::move(candidate));
        if (!entered) return tl::unexpected(entered.error());
        // Thousands would each write the whole record; who is killed meanwhile repeats little.
        if (Clock::now() - saved > between_saves) {
          if (auto done = save(); !done) return done;
          saved = Clock::now();
        }
        settled.said.push_back(place_.shown(unit->name) + " is whole, and is recorded now");
        continue;
      }
      using Why = Refusal::Why;
      const Why reason = candidate.error().why;
      why = candidate.error().words;
      if (reason == Why::Failed && known) return failure(place_.shown(unit->name) + ": " + why);
      if (reason != Why::Torn) {
        if (!why.empty())
          settled.said.push_back(place_.shown(unit->name) + " is left as it is: " + why);
        continue;
      }
    }
    if (auto done = set_folder_aside(unit->name, why, settled); !done) return done;
  }
  return {};
}

Result<void> Keeper::set_folder_aside(const std::string& name, const std::string& why,
                                      Settled& settled) {
  if (auto aside = set_aside(name, why, settled); !aside) return aside;
  if (Entry* entry = record_.find(name)) entry->gone = true;
  return {};
}

// DeepSpeed reads from `latest` which folder to go on with. Where that one was moved aside, it gets
// the name of the newest whole one: else a start would fail until a person writes it.
void Keeper::settle_latest(Settled& settled) const {
  const auto own = place_.own();
  const auto directory = place_.folder("");
  const auto text =
      directory ? directory->read(latest_name, latest_limit) : tl::unexpected(directory.error());
  const auto status = directory ? directory->look(latest_name) : tl::unexpected(directory.error());
  if (!own || !text || !status || !place_.is_trainers(*status)) return;
  const std::string name = trimmed(*text);
  const Entry* newest = record_.newest();
  if (!matches(place_.where().folders, name) || name.find('/') != std::string::npos) return;
  const auto named = directory->look(name);
  if (named || !is_out_of_place(named.error().value())) return;
  const std::string names = place_.shown(latest_name) + " names " + name + ", which is not there";
  if (newest == nullptr) return settled.said.push_back(names);
  (void)own->remove(latest_beside);
  const auto written = own->write(latest_beside, newest->name, status->st_mode & 0777);
  const auto opened =
      written ? own->file(latest_beside, O_RDONLY) : tl::unexpected(written.error());
  const bool given =
      opened && (::geteuid() != 0 || io::give(*opened, status->st_uid, status->st_gid));
  const bool moved = given && own->rename(latest_beside, *directory, latest_name);
  if (!moved) (void)own->remove(latest_beside);
  settled.said.push_back(names + (moved ? ": it names " + newest->name + " now" : ""));
}

Result<Settled> Keeper::prove_folders() const {
  Settled settled;
  const auto units = list_units(place_);
  if (!units) return tl::unexpected(units.error());
  std::vector<const Entry*> newest_first;
  for (const Entry& entry : record_.files)
    if (!entry.gone) newest_first.push_back(&entry);
  std::ranges::stable_sort(newest_first, std::greater(), &Entry::step);
  if (record_.step > 0) settled.newest = record_.step;
  for (const Entry* entry : newest_first) {
    const auto unit = std::ranges::find(*units, entry->name, &Unit::name);
    if (unit == units->end()) continue;
    if (!unit->contents && unit->contents.error().why == Refusal::Why::Failed)
      return failure(place_.shown(entry->name) + ": " + unit->contents.error().words);
    settled.name = entry->name;
    const auto differs = unit->contents ? compare(*entry, *unit, true) : Difference::Look;
    if (!differs) return tl::unexpected(differs.error());
    if (*differs != Difference::Bytes) {
      if (!settled.torn.empty()) settled.newest = entry->step;
      return settled;
    }
    settled.torn.push_back(place_.shown(entry->name) + ": it is not what was recorded");
    settled.newest.reset();
  }
  return settled;
}

}  // namespace spotter::guard
