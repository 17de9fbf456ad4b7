#include "agent/guard/inventory.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

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

}  // namespace

Result<Inventory> inventory_of(const std::filesystem::path& home, bool as_trainer) {
  Inventory found;
  found.where.mount = home;
  found.where.as_trainer = as_trainer;
  const auto place = Place::open(found.where);
  if (!place) return tl::unexpected(place.error());
  const std::string shown = place->shown_own(record_name).string();
  const auto own = place->own();
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
    return failure("cannot list " + place->shown_own(torn_directory).string() + ": " +
                   names.error().message());
  found.record.away = names ? away_in(*torn, *names, found.record.away) : std::vector<Away>();
  return found;
}

std::string away_text(const std::vector<Away>& away, const std::filesystem::path& home) {
  if (away.empty()) return {};
  const auto bytes = std::accumulate(away.begin(), away.end(), std::uint64_t{0},
                                     [](auto sum, const Away& each) { return sum + each.bytes; });
  std::string text = std::to_string(away.size()) +
                     (away.size() == 1 ? " thing is" : " things are") + " put away, " +
                     bytes_text(bytes) + ", the newest: " + away.back().why +
                     " (`spotter checkpoints " + home.string() + "` lists them)";
  for (char& each : text)
    if (static_cast<unsigned char>(each) < ' ') each = ' ';
  return text;
}

}  // namespace spotter::guard
