#include "agent/guard/keeper.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "agent/guard/copying.hpp"
#include "agent/guard/format.hpp"
#include "agent/guard/shape.hpp"
#include "trainer/library/files.hpp"

namespace spotter::guard {
namespace {

constexpr std::size_t record_limit = 64U << 20;

tl::unexpected<Refusal> refuse(Refusal::Why why, std::string words = {}) {
  return tl::unexpected<Refusal>(Refusal{why, std::move(words)});
}

// Another account of the same steps may be older than the record (datagrams of the trainer's own).
Result<std::uint64_t> steps_in_ledger(const Beneath& own) {
  constexpr std::size_t limit = 64U << 10;
  const auto text = own.read("ledger.json", limit);
  if (!text && text.error() != std::errc::no_such_file_or_directory) {
    return failure("cannot read " + (own.path() / "ledger.json").string() + ": " +
                   text.error().message());
  }
  const auto object = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  if (!object.is_object()) return 0;
  const auto at = object.find("newest_step");
  return at != object.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}

bool same(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec && a.st_ino == b.st_ino;
}

}  // namespace

Result<Keeper> Keeper::open(Where where) {
  auto place = Place::open(std::move(where));
  if (!place) return tl::unexpected(place.error());
  Keeper keeper(*std::move(place));
  const auto none = std::errc::no_such_file_or_directory;
  const auto own = keeper.place_.own();
  if (!own && own.error() == none) return keeper;
  if (!own) return keeper.wrong("cannot use", "", own.error());
  const auto text = own->read(record_name, record_limit);
  if (!text && text.error() != none) return keeper.wrong("cannot read", record_name, text.error());
  keeper.absent_ = !text;
  if (text) {
    auto record = decode(*text);
    if (!record && wire::is_newer(record.error())) {
      return failure(keeper.place_.shown_own(record_name).string() + ": " + record.error().message);
    }
    keeper.damaged_ = !record;
    if (record) keeper.record_ = *std::move(record);
    // What job.yaml kept before says nothing of what it keeps now: nobody watched that.
    if (keeper.record_.of_folders != keeper.keeps_folders()) keeper.record_.watching = false;
    std::erase_if(keeper.record_.files,
                  [&keeper](const Entry& entry) { return entry.folder != keeper.keeps_folders(); });
  }
  const auto ledger = steps_in_ledger(*own);
  if (!ledger) return tl::unexpected(ledger.error());
  keeper.record_.step = std::max(keeper.record_.step, *ledger);
  return keeper;
}

tl::unexpected<Error> Keeper::wrong(const std::string& what, const std::string& name,
                                    const std::error_code& error) const {
  return failure(what + " " + place_.shown_own(name).string() + ": " + error.message());
}

Result<void> Keeper::save() {
  const auto own = place_.own();
  if (!own) return wrong("cannot use", "", own.error());
  const auto written = own->write(record_name, encode(record_), 0644);
  if (!written) return wrong("cannot write", record_name, written.error());
  absent_ = damaged_ = false;
  return {};
}

Result<void> Keeper::make_own_folders() const {
  for (const char* name : {kept_directory, torn_directory}) {
    if (const auto made = place_.own(name); !made) return wrong("cannot make", name, made.error());
  }
  return {};
}

Result<void> Keeper::begin() {
  if (auto made = make_own_folders(); !made) return made;
  ++record_.run;
  record_.watching = true;
  record_.of_folders = keeps_folders();
  return save();
}

std::string Keeper::next_number() {
  std::string number = std::to_string(++record_.number);
  return std::string(number.size() < 6 ? 6 - number.size() : 0, '0') + number;
}

// Empty: there is none; that the disk is full is no reason not to record.
std::string Keeper::copy(int file, const struct stat& status) {
  const std::string name = next_number();
  const auto kept = place_.own(kept_directory);
  return kept && copy_file(file, status, *kept, name) ? name : std::string();
}

Result<Candidate, Refusal> Keeper::examine(const std::string& name, Closing closing) {
  using Why = Refusal::Why;
  const Descriptor file = place_.open(name, O_RDONLY);
  struct stat before {};
  if (!file && errno == EACCES) return refuse(Why::Failed, "we may not read it");
  if (!file || ::fstat(file.get(), &before) != 0 || !S_ISREG(before.st_mode)) {
    return refuse(Why::Gone);
  }
  if (!place_.is_trainers(before)) {
    return refuse(Why::Failed, "it " + std::string(has_other_name));
  }
  const auto bytes = static_cast<std::uint64_t>(before.st_size);
  if (is_being_written(file.get())) return refuse(Why::Busy);
  const Look look = look_at(file.get(), bytes, name);
  if (look.shape == Shape::Torn) return refuse(Why::Torn, look.why);
  if (checkpoint::is_mostly_unwritten(file.get()))
    return refuse(Why::Torn, "most of it was never written");
  if (closing == Closing::Unsure && look.shape != Shape::Sealed) return refuse(Why::Unsure);
  if (::fsync(file.get()) != 0) {
    return refuse(Why::Failed, "cannot make it durable: " + std::string(std::strerror(errno)));
  }
  Candidate candidate{found(name, before), {}, copy(file.get(), before)};
  // The copy is nobody's to change while it is read.
  const auto kept = place_.own(kept_directory);
  const auto copied = kept && !candidate.kept.empty()
                          ? kept->file(candidate.kept, O_RDONLY)
                          : Result<Descriptor, std::error_code>(Descriptor());
  const auto sum = sum_of_file(copied && *copied ? copied->get() : file.get(), bytes);
  struct stat after {};
  if (sum && ::fstat(file.get(), &after) == 0 && same(before, after)) {
    candidate.sum = *sum;
    return candidate;
  }
  discard(candidate);
  return sum ? refuse(Why::Busy) : refuse(Why::Failed, sum.error().message);
}

void Keeper::discard(const Candidate& candidate) const {
  const auto kept = place_.own(kept_directory);
  if (kept && !candidate.kept.empty()) (void)kept->remove(candidate.kept);
}

Result<Entry> Keeper::finish(Candidate candidate) {
  place_.sync_log();
  auto finished = enter(std::move(candidate));
  if (!finished) return finished;
  forget_old_copies();
  if (auto saved = save(); !saved) return tl::unexpected(saved.error());
  clear_kept();
  return finished;
}

Result<Entry> Keeper::enter(Candidate candidate) {
  // Its name, and those of the folders on the way to it.
  for (std::string name = candidate.file.name; !name.empty();) {
    const auto parent = place_.parent(name);
    if (!parent || !parent->sync()) {
      return failure("cannot make the folder of " + place_.shown(name) + " durable");
    }
    const auto slash = name.rfind('/');
    name.resize(slash == std::string::npos ? 0 : slash);
  }
  Entry entry;
  entry.name = candidate.file.name;
  entry.bytes = candidate.file.bytes;
  entry.mtime_ns = candidate.file.mtime_ns;
  entry.sum = candidate.sum;
  entry.kept = candidate.kept;
  entry.folder = !candidate.parts.empty();
  if (entry.folder) entry.look = look_of(candidate.parts);
  entry.parts = std::move(candidate.parts);
  return record_.finish(std::move(entry),
                        keeps_folders() ? step_in(candidate.file.name) : std::nullopt);
}

// Of names beyond the newest two, and of those that are gone: all but the very newest, whose owner
// may have removed it before its successor was whole.
void Keeper::forget_old_copies() {
  std::size_t names = 0;
  bool newest = true;
  for (auto at = record_.files.rbegin(); at != record_.files.rend(); ++at) {
    at->gone = at->gone || (!place_.open(at->name, O_PATH | O_NOFOLLOW) && is_out_of_place(errno));
    const bool keep = newest || (!at->gone && names < kept_names);
    newest = false;
    if (!at->gone) ++names;
    if (!keep) at->kept.clear();
  }
}

Result<bool> Keeper::is_whole(const Entry& entry, const Found& file, bool thorough) const {
  if (entry.bytes != file.bytes) return false;
  if (entry.mtime_ns == file.mtime_ns && !thorough) return true;
  const Descriptor opened = place_.open(entry.name, O_RDONLY);
  if (!opened && is_out_of_place(errno)) return false;
  if (!opened) return checkpoint::system_failure("cannot open", place_.shown(entry.name));
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if (checkpoint::is_mostly_unwritten(opened.get())) return false;
  const auto sum = sum_of_file(opened.get(), entry.bytes);
  if (!sum) return failure(place_.shown(entry.name) + ": " + sum.error().message);
  return *sum == entry.sum;
}

}  // namespace spotter::guard
