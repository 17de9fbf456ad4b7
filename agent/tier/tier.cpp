#include "agent/tier/tier.hpp"

#include <chrono>

#include "agent/guard/keeper.hpp"
#include "agent/tier/store.hpp"

namespace spotter::tier {
namespace {

constexpr std::size_t record_limit = 64U << 20;

// No record is none of a folder: the guard writes one before the trainer starts.
Result<guard::Record> read_record(const guard::Place& place) {
  const std::string shown = place.shown_own(guard::record_name).string();
  const auto own = place.own();
  const auto text = own ? own->read(guard::record_name, record_limit) : tl::unexpected(own.error());
  if (!text && text.error() == std::errc::no_such_file_or_directory) return guard::Record();
  if (!text) return failure("cannot read " + shown + ": " + text.error().message());
  auto record = guard::decode(*text);
  if (!record) return failure(shown + ": " + record.error().message);
  return record;
}

// The newest checkpoint that was recorded; none: there is none.
struct Local {
  std::string name;
  std::uint64_t step = 0;
  std::vector<guard::Part> parts;
};
std::optional<Local> newest_of(const guard::Record& record) {
  const guard::Generation* newest = record.newest();
  if (newest == nullptr || newest->name.empty()) return std::nullopt;
  return Local{newest->name, newest->step, record.parts_of(newest->name)};
}

std::int64_t now_ms() {
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<milliseconds>(now).count();
}

bool is_newer(const Manifest& stored, const std::optional<Local>& local) {
  if (!local) return true;
  const auto there = guard::step_in(stored.name);
  const auto here = guard::step_in(local->name);
  return there && here && *there > *here;
}

Result<std::optional<std::string>> without_s3(const std::string& why,
                                              const std::optional<Local>& local,
                                              const std::function<void(const std::string&)>& say) {
  if (!local)
    return failure("no checkpoint is on the storage, and none could be fetched from S3: " + why);
  say("the storage's own checkpoint is used, though S3 may have a newer one: " + why);
  return std::nullopt;
}

}  // namespace

Result<std::optional<std::string>> copy(const Options& options) {
  const auto place = guard::Place::open(options.where);
  if (!place) return tl::unexpected(place.error());
  Store store(options.to, options.job, options.s3);
  std::optional<std::string> done;
  for (std::string sum;;) {
    const auto record = read_record(*place);
    if (!record) return tl::unexpected(record.error());
    const auto newest = newest_of(*record);
    if (!newest || guard::sum_of_parts(newest->parts) == sum) return done;
    const std::string shown = place->shown(newest->name);
    if (newest->parts.empty()) return failure(shown + " is not there any more");
    const auto copied =
        store.copy(*place, {options.job, newest->name, newest->step, now_ms(), newest->parts});
    if (!copied) return failure(shown + " is not copied to S3: " + copied.error().message);
    sum = guard::sum_of_parts(newest->parts);
    done = newest->name;
  }
}

Result<std::optional<std::string>> fetch(const Options& options,
                                         const std::function<void(const std::string&)>& say) {
  using Why = guard::Refusal::Why;
  const auto place = guard::Place::open(options.where);
  if (!place) return tl::unexpected(place.error());
  const auto record = read_record(*place);
  if (!record) return tl::unexpected(record.error());
  const auto local = newest_of(*record);
  Store store(options.to, options.job, options.s3);
  const auto stored = store.stored();
  if (!stored && wire::is_newer(stored.error())) return tl::unexpected(stored.error());
  if (!stored) return without_s3(stored.error().message, local, say);
  for (const std::string& torn : stored->torn) say(torn);
  std::size_t torn = stored->torn.size();
  for (const Manifest& manifest : stored->whole) {
    if (!guard::matches(options.where.folders, manifest.name)) continue;
    if (!is_newer(manifest, local)) return std::nullopt;
    const auto fetched = store.fetch(*place, manifest);
    if (fetched) return manifest.name;
    const std::string words = store.shown(manifest) + ": " + fetched.error().words;
    if (fetched.error().why != Why::Torn) return without_s3(words, local, say);
    say(words);
    ++torn;
  }
  if (local || torn == 0) return std::nullopt;
  return failure("no checkpoint is on the storage, and all in " + wire::to_url(options.to) +
                 " are torn: remove them there to begin from scratch");
}

}  // namespace spotter::tier
