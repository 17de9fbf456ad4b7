#include "agent/guard/inventory.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "agent/guard/copying.hpp"

namespace spotter::guard {
namespace {

const auto none = std::errc::no_such_file_or_directory;

// Reads what Place::patterns() wrote.
void read_patterns(const std::string& patterns, Where& where) {
  for (const auto& [word, into] :
       {std::pair<std::string, std::string Where::*>{" files ", &Where::files},
        {" folders ", &Where::folders}}) {
    const auto at = patterns.find(word);
    if (at == patterns.npos) continue;
    where.directory = patterns.substr(0, at);
    where.*into = patterns.substr(at + word.size());
    return;
  }
}

Contents contents_of(const Record& record, std::uint64_t generation,
                     const Result<SafeDirectory, std::error_code>& kept) {
  Contents all;
  for (const Row* row : record.rows_of(generation)) {
    ++all.files;
    all.bytes += row->bytes;
    const auto copy = kept && !row->kept.empty() ? kept->look(row->kept)
                                                 : tl::unexpected(std::make_error_code(none));
    if (copy) ++(copy->st_nlink > 1 ? all.names : all.copies);
  }
  return all;
}

// Everything in `torn`, whether or not the record names it.
std::vector<Away> away_in(const SafeDirectory& torn, const std::vector<std::string>& names,
                          const std::vector<Away>& recorded) {
  std::vector<Away> all;
  for (const std::string& name : names) {
    const auto known = std::ranges::find_if(
        recorded, [&name](const Away& each) { return numbered(each.number) == name; });
    if (known != recorded.end()) {
      all.push_back(*known);
      continue;
    }
    const auto status = torn.look(name);
    if (!status) continue;
    const bool file = S_ISREG(status->st_mode);
    all.push_back({std::strtoull(name.c_str(), nullptr, 10),
                   status->st_ctime,
                   file ? static_cast<std::uint64_t>(status->st_size) : 0,
                   {name},
                   "no record says why"});
  }
  return all;
}

using What = Difference::What;

template <class Each>
std::string numbers_of(const std::vector<Each>& all) {
  std::string numbers;
  for (const Each& one : all) numbers += (numbers.empty() ? "" : ", ") + std::to_string(one.number);
  return numbers.empty() ? "there is none" : "there is " + numbers;
}

tl::unexpected<Error> unknown_away(const Record& record, std::uint64_t number) {
  return failure("nothing is put away as " + std::to_string(number) + ": " +
                 numbers_of(record.away));
}

}  // namespace

Result<Inventory> inventory_of(const std::filesystem::path& home, bool as_trainer) {
  Inventory found;
  found.where.mount = home;
  found.where.as_trainer = as_trainer;
  const auto place = TRY(Place::open(found.where));
  const std::string shown = place.shown_own(record_name).string();
  const auto own = place.own();
  const auto text = own ? own->read(record_name, record_limit) : tl::unexpected(own.error());
  if (!text && text.error() == none)
    return failure("there is no " + shown + ": no guard has kept checkpoints here", no_record);
  if (!text) return failure("cannot read " + shown + ": " + text.error().message());
  auto record = decode(*text);
  if (!record && wire::is_newer(record.error()))
    return failure(shown + ": " + record.error().message, record.error().kind);
  if (!record) return failure(shown + " is damaged", record_damaged);
  found.record = *std::move(record);
  read_patterns(found.record.patterns, found.where);
  const auto kept = own->folder(kept_directory);
  for (const Generation& each : found.record.generations)
    found.contents[each.number] = contents_of(found.record, each.number, kept);
  const auto torn = own->folder(torn_directory);
  const auto names = torn ? torn->names() : tl::unexpected(torn.error());
  if (!names && names.error() != none)
    return failure("cannot list " + place.shown_own(torn_directory).string() + ": " +
                   names.error().message());
  found.record.away = names ? away_in(*torn, *names, found.record.away) : std::vector<Away>();
  return found;
}

std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char each) { return each < ' ' || each == 127; }, ' ');
  return text;
}

std::string away_text(const std::vector<Away>& away, const std::filesystem::path& home) {
  if (away.empty()) return {};
  const auto bytes = std::accumulate(away.begin(), away.end(), std::uint64_t{0},
                                     [](auto sum, const Away& each) { return sum + each.bytes; });
  return one_line(std::to_string(away.size()) + (away.size() == 1 ? " thing is" : " things are") +
                  " put away, " + bytes_text(bytes) + ", the newest: " + away.back().why +
                  " (`spotter checkpoints " + home.string() + "` lists them)");
}

// Commands of a person on generations, and on what was put away.

// Also what has the size and the time of change that were recorded, and not the content.
Result<std::vector<Difference>> Keeper::unlike(const Listing& listing,
                                               std::uint64_t generation) const {
  std::vector<Difference> found = differences(listing, generation);
  for (const Row* row : record_.rows_of(generation)) {
    const bool seen = std::ranges::find(found, row->name, &Difference::name) != found.end();
    if (seen || row->sum.empty()) continue;
    const auto whole = TRY(has_sum(*row));
    if (!whole) found.push_back({.name = row->name, .what = What::Changed});
  }
  std::erase_if(found, [this](const Difference& one) {
    return is_log(one.name) || (one.beside && record_.row(one.name) == nullptr);
  });
  // The files that name a checkpoint go first: broken off, nothing names what is not there.
  std::ranges::stable_sort(found, std::greater(), &Difference::companion);
  return found;
}

// The names that have to go; each that comes has a copy.
Result<std::vector<std::string>> Keeper::weigh_return(const std::vector<Difference>& found,
                                                      std::uint64_t generation) const {
  std::vector<std::string> away, lacking;
  const auto rows = record_.rows_of(generation);
  for (const Difference& one : found) {
    if (one.what != What::Missing) {
      if (is_written(one.name))
        return failure(place_.shown(one.name) + " is being written: stop who writes it first");
      away.push_back(one.name);
    }
    const auto row = std::ranges::find(rows, one.name, [](const Row* each) { return each->name; });
    if (row == rows.end() || (*row)->grows) continue;
    const auto copy = TRY(has_copy(**row));
    if (!copy) lacking.push_back(one.name);
  }
  if (lacking.empty()) return away;
  return failure("generation " + std::to_string(generation) + " cannot be put back whole: of " +
                 some_of(lacking) + " there is no copy");
}

Result<Settled> Keeper::go_back(std::uint64_t generation) {
  if (record_.find(generation) == nullptr)
    return failure("there is no generation " + std::to_string(generation) + ": " +
                   numbers_of(record_.generations));
  const auto listing = TRY(place_.list());
  const auto found = TRY(unlike(listing, generation));
  const auto away = TRY(weigh_return(found, generation));
  Settled settled;
  if (found.empty() && generation == record_.newest_number() && !record_.restoring) return settled;
  TRY(make_own_folders());
  record_.go_to(generation);
  record_.tried = 0;
  // If this is broken off, the next start finds a trainer that was lost, and goes on.
  record_.watching = record_.restoring = true;
  TRY(save());
  if (!away.empty())
    TRY(put_away(away, "generation " + std::to_string(generation) + " was asked for", settled));
  TRY(put_back({}, settled));
  record_.watching = record_.restoring = false;
  TRY(save());
  settled.name = record_.newest()->name;
  settled.newest = record_.newest()->step;
  return settled;
}

Result<Settled> Keeper::bring_back(std::uint64_t number) {
  spared_ = number;
  // Without this the next start would put it away again, with what it does not know.
  Result<Settled> settled{Settled{}};
  if (record_.watching || record_.restoring) settled = settle(false);
  if (!settled) return settled;
  const auto away = std::ranges::find(record_.away, number, &Away::number);
  const auto torn = place_.own(torn_directory);
  if (!torn) return wrong("cannot use", torn_directory, torn.error());
  const auto below = torn->folder(numbered(number));
  if (away == record_.away.end() || !below) return unknown_away(record_, number);
  std::vector<std::string> names, in_the_way;
  for (const std::string& name : away->names) {
    if (!below->look(name)) continue;  // an attempt that was broken off brought it
    names.push_back(name);
    if (place_.look(name)) in_the_way.push_back(place_.shown(name));
  }
  if (!in_the_way.empty()) return failure("in the way: " + some_of(in_the_way));
  const auto folder = place_.folder("");
  if (!folder) return wrong("cannot use", place_.where().directory, folder.error());
  for (const std::string& name : names) {
    const auto from = below->parent(name);
    const auto like = below->look(name);
    const auto above = like ? make_above(*folder, name, &*like) : tl::unexpected(like.error());
    const auto moved = from && above
                           ? from->rename(last_component(name), *above, last_component(name))
                           : tl::unexpected(above ? from.error() : above.error());
    if (!moved)
      return failure("cannot bring back " + place_.shown(name) + ": " + moved.error().message());
  }
  std::size_t left = removals_limit;
  remove_any(*torn, numbered(number), left);  // empty folders
  record_.away.erase(away);
  TRY(save());
  return settled;
}

Result<void> Keeper::remove_away(std::uint64_t number, bool even_the_last) {
  const auto torn = place_.own(torn_directory);
  const auto listed = torn ? torn->names() : tl::unexpected(torn.error());
  if (!listed) return wrong("cannot list", torn_directory, listed.error());
  const auto entry = std::ranges::find(record_.away, number, &Away::number);
  const auto name = std::ranges::find_if(*listed, [number](const std::string& each) {
    return std::strtoull(each.c_str(), nullptr, 10) == number;
  });
  if (name == listed->end()) return unknown_away(record_, number);
  std::vector<std::string> last;
  if (entry == record_.away.end()) last.push_back(*name);
  for (const std::string& each :
       entry == record_.away.end() ? std::vector<std::string>() : entry->names)
    if (std::ranges::find(record_.rows, each, &Row::name) == record_.rows.end())
      last.push_back(each);
  if (!last.empty() && !even_the_last)
    return failure("no generation has " + some_of(last) +
                   ": this may be the last of it (--force removes it all the same)");
  std::size_t left = removals_limit;
  remove_any(*torn, *name, left);
  if (torn->look(*name))
    return failure("cannot remove all of " + (torn->path() / *name).string() + ": try it again");
  if (entry != record_.away.end()) record_.away.erase(entry);
  return save();
}

}  // namespace spotter::guard
