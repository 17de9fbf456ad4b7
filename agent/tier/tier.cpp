#include "agent/tier/tier.hpp"

#include <fcntl.h>

#include <algorithm>

#include "agent/guard/keeper.hpp"
#include "agent/tier/home.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/manifest.hpp"
#include "trainer/library/transfer.hpp"

namespace spotter::tier {
namespace {

using bucket::Bucket;
using bucket::Manifest;

constexpr std::size_t record_limit = 64U << 20;
// Two, so that there is another one if the newest is torn.
constexpr std::size_t kept_in_s3 = 2;

// Two contents of one name are two groups: checkpoint-500-SUM.
std::string stem_of(const Manifest& manifest) { return manifest.name + "-" + manifest.sum(); }

// By the number in the name. Without one the step is the storage's own count, which the next
// storage begins again.
std::pair<std::uint64_t, std::int64_t> order_of(const Manifest& manifest) {
  return {guard::step_in(manifest.name).value_or(0), manifest.saved_ms};
}

struct Stored {
  std::vector<Manifest> whole;    // the newest first
  std::vector<std::string> torn;  // sentences
  std::set<std::string> spared;   // the stems of those, and of what was removed meanwhile
};

// Fails when the place cannot be read, or a manifest in it is a newer Spotter's or another job's:
// then nothing is known.
Result<Stored> stored_in(Bucket& bucket) {
  const auto stems = TRY(bucket.stems());
  Stored stored;
  for (const std::string& stem : stems) {
    const std::string name = bucket::manifest_name(stem);
    auto manifest = bucket.read(name);
    if (!manifest && manifest.error().kind != bucket::torn) return tl::unexpected(manifest.error());
    if (manifest && !*manifest) {  // who removed it removes what it named
      stored.spared.insert(stem);
      continue;
    }
    if (manifest && stem_of(**manifest) == stem) {
      stored.whole.push_back(**std::move(manifest));
      continue;
    }
    stored.torn.push_back(manifest ? bucket.shown(name) + ": it is of another folder"
                                   : manifest.error().message);
    stored.spared.insert(stem);
  }
  std::ranges::sort(stored.whole, std::greater(), order_of);
  return stored;
}

// The name of the folder whose group it is; none: it is nobody's of ours.
std::optional<std::string> folder_of(const std::string& group) {
  constexpr std::size_t digits = 32;
  if (group.size() < digits + 2 || group[group.size() - digits - 1] != '-') return std::nullopt;
  const auto dash = group.size() - digits - 1;
  std::string name = group.substr(0, dash);
  const bool ours = bucket::is_folder_name(name) && checkpoint::is_sum(group.substr(dash + 1));
  return ours ? std::optional(std::move(name)) : std::nullopt;
}

// Keeps the newest, and a damaged one, which is a person's to remove. Old data without a manifest
// is left of an interrupted copy; that of a later step may be under way, and without a number it is
// not known.
void remove_older(Bucket& bucket, const Manifest& written) {
  const auto data = bucket.data();  // before the manifests: else their data may be newer than they
  if (!data) return;                // until the next copy
  const auto stored = stored_in(bucket);
  if (!stored) return;
  std::set<std::string> spared = stored->spared;
  std::set<std::string> older;
  spared.insert(stem_of(written));  // also where newer ones are there
  for (std::size_t i = 0; i < stored->whole.size(); ++i)
    (i < kept_in_s3 ? spared : older).insert(stem_of(stored->whole[i]));
  std::vector<std::string> gone;
  for (const std::string& stem : older) gone.push_back(bucket::manifest_name(stem));
  const auto reached = guard::step_in(written.name);
  for (const auto& each : *data) {
    const auto name = folder_of(each.group);
    if (!name || spared.contains(each.group)) continue;
    const auto step = guard::step_in(*name);
    const bool is_left = each.is_old && step && reached && *step <= *reached;
    if (is_left || older.contains(each.group)) gone.push_back(each.name);
  }
  bucket.remove(gone);
}

// Copies that folder, and then removes older ones. Succeeds if it is there already.
Result<void> put(Bucket& bucket, const guard::Place& place, Manifest manifest,
                 const std::vector<guard::Part>& parts) {
  if (!bucket::is_folder_name(manifest.name))
    return failure(manifest.name + ": no copy in a bucket can have this name");
  std::vector<bucket::Wanted> wanted;
  for (const guard::Part& part : parts) {
    wanted.push_back({part.name, part.name, part.sum, std::nullopt});
    manifest.files[part.name] = {part.bytes, part.mtime_ns, part.sum, {}};
  }
  const std::string stem = stem_of(manifest);
  const auto before = TRY(stored_in(bucket));
  if (std::ranges::find(before.whole, stem, stem_of) != before.whole.end()) return {};
  const auto folder = TRY(behind("it cannot be read", place.folder(manifest.name)));
  bucket::Sender sender(bucket, stem, opener(folder));
  manifest.files = TRY(sender.send(wanted));
  auto committed = bucket.commit(bucket::manifest_name(stem), manifest);
  if (committed) remove_older(bucket, manifest);
  return committed;
}

// In the checkpoint directory, while a folder is fetched. Hidden: no pattern of ours matches it.
constexpr const char* fetching_directory = ".spotter-fetching";

Result<void> get_files(Bucket& bucket, const Manifest& manifest, const fs::path& folder) {
  const auto into = TRY(behind("cannot open " + folder.string(), io::SafeDirectory::open(folder)));
  std::vector<const bucket::Files::value_type*> files;
  for (const auto& file : manifest.files) files.push_back(&file);
  bucket::Receiver receiver;
  receiver.make = [&](std::size_t i) { return make_file(into, files[i]->first); };
  receiver.ended = [](std::size_t, const Result<void>& verified) { return verified; };
  TRY(bucket::fetch(bucket, files, receiver));
  const auto durable = checkpoint::make_durable(folder);
  return durable ? Result<void>() : tl::unexpected(durable.error());
}

// Makes the folder in the directory: all files verified, durable and with their times before it
// has its name. Fails as bucket::torn when S3 has other bytes than the manifest says.
Result<void> get(Bucket& bucket, const guard::Place& place, const Manifest& manifest) {
  const auto failed = [](const char* what, const fs::path& path, const std::error_code& error) {
    return failure(std::string(what) + " " + path.string() + ": " + error.message());
  };
  const fs::path directory = place.where().mount / place.where().directory;
  const fs::path beside = directory / fetching_directory;
  const fs::path whole = directory / manifest.name;
  std::error_code error;
  fs::remove_all(beside, error);  // of a fetch that was interrupted
  if (error) return failed("cannot remove", beside, error);
  if (fs::exists(fs::symlink_status(whole, error)))
    return failure(whole.string() + " is there, and is no whole checkpoint: move it away");
  fs::create_directories(beside / manifest.name, error);
  if (error) return failed("cannot make", beside, error);
  auto done = get_files(bucket, manifest, beside / manifest.name);
  if (done) {
    fs::rename(beside / manifest.name, whole, error);
    if (error) done = failed("cannot make", whole, error);
  }
  if (done) {
    const auto opened = checkpoint::open_directory(directory);
    done = opened ? checkpoint::sync_directory(opened->get(), directory)
                  : tl::unexpected(opened.error());
  }
  fs::remove_all(beside, error);
  return done;
}

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
  const auto place = TRY(guard::Place::open(options.where));
  Bucket bucket(options.to, options.job, options.s3);
  std::optional<std::string> done;
  for (std::string sum;;) {
    const auto record = TRY(read_record(place));
    const auto newest = newest_of(record);
    if (!newest || guard::sum_of_parts(newest->parts) == sum) return done;
    const std::string shown = place.shown(newest->name);
    if (newest->parts.empty()) return failure(shown + " is not there any more");
    Manifest manifest{options.job, newest->name, static_cast<std::int64_t>(newest->step),
                      now_ms(),    {},           {}};
    TRY(behind(shown + " is not copied to S3",
               put(bucket, place, std::move(manifest), newest->parts)));
    sum = guard::sum_of_parts(newest->parts);
    done = newest->name;
  }
}

Result<std::optional<std::string>> fetch(const Options& options,
                                         const std::function<void(const std::string&)>& say) {
  const auto place = TRY(guard::Place::open(options.where));
  const auto record = TRY(read_record(place));
  const auto local = newest_of(record);
  Bucket bucket(options.to, options.job, options.s3);
  const auto stored = stored_in(bucket);
  if (!stored && wire::is_newer(stored.error())) return tl::unexpected(stored.error());
  if (!stored) return without_s3(stored.error().message, local, say);
  for (const std::string& torn : stored->torn) say(torn);
  std::size_t torn = stored->torn.size();
  for (const Manifest& manifest : stored->whole) {
    if (!guard::matches(options.where.folders, manifest.name)) continue;
    if (!is_newer(manifest, local)) return std::nullopt;
    const auto fetched = get(bucket, place, manifest);
    if (fetched) return manifest.name;
    const std::string words =
        bucket.shown(bucket::manifest_name(stem_of(manifest))) + ": " + fetched.error().message;
    if (fetched.error().kind != bucket::torn) return without_s3(words, local, say);
    say(words);
    ++torn;
  }
  if (local || torn == 0) return std::nullopt;
  return failure("no checkpoint is on the storage, and all in " + wire::to_url(options.to) +
                 " are torn: remove them there to begin from scratch");
}

}  // namespace spotter::tier
