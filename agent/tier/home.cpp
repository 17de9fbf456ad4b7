#include "agent/tier/home.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "agent/base/record.hpp"
#include "agent/base/text.hpp"
#include "agent/guard/copying.hpp"
#include "agent/guard/keeper.hpp"
#include "agent/guard/place.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::tier {
namespace {

class Bringing {
 public:
  Bringing(const Home& home, const io::SafeDirectory& folder)
      : home_(home),
        folder_(folder),
        bucket_(home.place, home.job, home.s3),
        kept_(kept_roots(home, folder)) {
    kept_.push_back(home.checkpoints);
  }

  Result<Brought> bring(const std::string& name, std::uint32_t held) {
    const auto mark = read_mark(home_, folder_);
    const bool newer = mark && (mark->epoch == home_.epoch || (held != 0 && mark->epoch == held));
    bucket::Manifest manifest{.job = home_.job};
    if (!name.empty()) {
      manifest = TRY(read_manifest(bucket_, name));
    }
    std::size_t left = guard::removals_limit;
    guard::remove_any(folder_, fetching, left);  // of one that was interrupted
    TRY(behind("cannot make " + std::string(own_folder), folder_.make_folder(own_folder, 0755)));
    brought_.cleared = !newer || mark->cleared;
    if (!newer) {
      TRY(leave_other(mark.has_value()));
      TRY(clear(manifest, ""));
      TRY(clear(manifest, own_folder));
      TRY(make_folders(folder_, home_.checkpoints + "/"));
    }
    std::vector<const Each*> missing;
    for (const Each& file : manifest.files)
      if (!is_here(file, newer)) missing.push_back(&file);
    auto fetched = fetch_files(bucket_, missing, folder_, std::string(fetching) + "/file");
    guard::remove_any(folder_, fetching, left);
    if (!fetched) return tl::unexpected(fetched.error());
    brought_.files = fetched->files;
    brought_.bytes = fetched->bytes;
    torn_ = std::move(fetched->torn);
    TRY(drop_torn(manifest));
    TRY(make_durable());
    const Mark made{home_.epoch, name, std::move(manifest), brought_.cleared};
    TRY(write_mark(home_, folder_, made));
    return brought_;
  }

  s3::Tally requests() { return bucket_.client().tally(); }

 private:
  using Each = bucket::Files::value_type;

  // Removes the mark until all is here, and the code of another home, among which its trainer may
  // have written: experiments that are claimed one after the other are in one folder. Code without
  // a mark may be any home's, and is fetched again.
  Result<void> leave_other(bool of_this_home) {
    const std::string mark = std::string(own_folder) + "/" + mark_name;
    std::size_t left = guard::removals_limit;
    if (!of_this_home) guard::remove_any(folder_, code_folder, left);
    if (!of_this_home && folder_.look(code_folder) && !set_aside(code_folder))
      return failure("cannot remove " + std::string(code_folder) + ", which is of another home");
    if (!folder_.look(mark) || folder_.remove(mark)) return {};
    return failure("cannot remove " + mark);
  }

  // Renames what its user cannot remove, such as what a container wrote as root: it is of no home
  // then. Names directly in the folder only: elsewhere the user may not be able to rename.
  bool set_aside(const std::string& name) const {
    int number = 0;
    while (folder_.look(std::string(left_behind) + std::to_string(number))) ++number;
    return folder_.rename(name, folder_, std::string(left_behind) + std::to_string(number))
        .has_value();
  }

  // True if a file of another history at that path would say how far the job is, or be kept as if
  // it were of this one.
  bool may_be_kept(const std::string& path) const {
    return std::ranges::any_of(kept_, [&](const std::string& root) {
      return path == root || path.starts_with(root + "/") || root.starts_with(path + "/");
    });
  }

  // Removes what the manifest does not have.
  Result<void> clear(const bucket::Manifest& manifest, const std::string& path) {
    const auto at = folder_.folder(path);
    const auto names =
        TRY(behind("cannot list " + path, at ? at->names() : tl::unexpected(at.error())));
    std::size_t left = guard::removals_limit;
    for (const std::string& name : names) {
      if (path.empty() && is_left_alone(name)) continue;
      const std::string below = path.empty() ? name : path + "/" + name;
      const auto status = at->look(name);
      const auto next = manifest.files.lower_bound(below + "/");
      const bool leads = next != manifest.files.end() && next->first.starts_with(below + "/");
      // The job's own folders stay, if empty: they were laid out for the trainer.
      const bool of_layout = path.empty();
      const bool is_folder = status && S_ISDIR(status->st_mode);
      Result<void> cleared;
      if (is_folder && (leads || of_layout)) {
        cleared = clear(manifest, below);
      } else if (!manifest.files.contains(below) || !status || !S_ISREG(status->st_mode)) {
        guard::remove_any(*at, name, left);
        if (at->look(name))
          cleared = failure("cannot remove " + below + ", which is not of this home");
      }
      if (cleared) continue;
      const bool aside = path.empty() && set_aside(name);
      if (aside && (!is_folder || folder_.make_folder(name, 0755))) continue;
      if (!path.empty() || may_be_kept(name)) return cleared;
    }
    return {};
  }

  bool is_here(const Each& file, bool newer) const {
    const auto status = folder_.look(file.first);
    if (!status || !S_ISREG(status->st_mode)) return false;
    const auto found = guard::found({}, *status);
    const bool as_kept = found.bytes == file.second.bytes && found.mtime_ns == file.second.mtime_ns;
    // Also where what is here is newer: after a power cut a file may have all but its bytes.
    return as_kept ? is_whole(folder_, file) : newer;
  }

  // The file or folder directly below the checkpoints' directory; empty: it is of none.
  std::string checkpoint_of(const std::string& path) const {
    const std::string begin = home_.checkpoints + "/";
    if (!path.starts_with(begin)) return {};
    return path.substr(0, path.find('/', begin.size()));
  }

  // A checkpoint is there as a whole or not at all; without its ledger no job may begin.
  Result<void> drop_torn(bucket::Manifest& manifest) {
    std::set<std::string> all, broken;
    for (const auto& [path, file] : manifest.files)
      if (auto name = checkpoint_of(path); !name.empty()) all.insert(std::move(name));
    std::size_t left = guard::removals_limit;
    for (const auto& [path, why] : torn_) {
      const std::string name = checkpoint_of(path);
      if (name.empty() && path == std::string(own_folder) + "/ledger.json")
        return failure("the job's ledger in the bucket is torn: " + why);
      if (!name.empty() && !broken.insert(name).second) continue;
      brought_.torn.push_back((name.empty() ? path : name) + " is torn in the bucket: " + why);
      manifest.files.erase(path);
      if (!name.empty()) guard::remove_any(folder_, name, left);
    }
    if (!broken.empty()) manifest.step = -1;  // nobody knows: the files do not say their steps
    std::erase_if(manifest.files, [&](const Each& file) {
      const std::string name = checkpoint_of(file.first);
      return !name.empty() && broken.contains(name);
    });
    if (!all.empty() && broken.size() == all.size())
      return failure("all checkpoints in " + home_.at +
                     " are torn: remove what lies below it to begin from scratch");
    return {};
  }

  // Nothing says that the files are here before they are durable.
  Result<void> make_durable() const {
    const auto opened =
        TRY(behind("cannot open the home", folder_.open("", O_RDONLY | O_DIRECTORY)));
    if (::syncfs(opened.get()) != 0)
      return failure(std::string("cannot sync the home: ") + std::strerror(errno));
    return {};
  }

  const Home& home_;
  const io::SafeDirectory& folder_;
  bucket::Bucket bucket_;
  std::vector<std::string> kept_;
  std::map<std::string, std::string> torn_;  // paths, and why
  Brought brought_;
};

bool is_of_s3(const Error& error) { return error.kind.starts_with("s3"); }

std::int64_t mtime_of(const struct stat& status) { return guard::found({}, status).mtime_ns; }

// The epoch in "7", a group of data, and in "7-SUM", a manifest.
std::optional<std::uint32_t> epoch_in(const std::string& group) {
  return number_of_text<std::uint32_t>(std::string_view(group).substr(0, group.find('-')));
}

class Keeping {
 public:
  Keeping(const Home& home, const io::SafeDirectory& folder)
      : home_(home),
        folder_(folder),
        bucket_(home.place, home.job, home.s3),
        sender_(bucket_, std::to_string(home.epoch), opener(folder)) {}

  Result<Kept> keep(const verbs::KeepHome& request) {
    const auto& [described, committed, whole, trims] = request;
    TRY(learn(committed));
    const auto inventory = TRY(look_over(home_, folder_, whole));
    kept_.said = inventory.left_out;
    if (!committed.empty() && trims) trim(committed);
    bucket::Manifest manifest{.job = home_.job};
    const auto take = [&](Files files) {
      for (auto& [path, file] : files) manifest.files.insert_or_assign(path, std::move(file));
    };
    // The trainer may remove a checkpoint while it is read: then it is none that counts. S3's own
    // trouble is not that, and ends all of it.
    bool taken = false, missed = false;
    for (const WantedCheckpoint& checkpoint : inventory.checkpoints) {
      auto files = send(checkpoint.files);
      if (!files && is_of_s3(files.error())) return tl::unexpected(files.error());
      missed = missed || !files;
      const bool is_newest = &checkpoint == &inventory.checkpoints.front();
      if (!files && !is_newest) continue;  // its retention may have removed it
      if (!files) {
        kept_.said.push_back("the checkpoint " + checkpoint.name +
                             " is not taken along: " + files.error().message);
        continue;
      }
      taken = true;
      take(*std::move(files));
      manifest.step = std::max(manifest.step, checkpoint.step);
    }
    // A trainer with a format of its own leaves some when it ends.
    const bool left = whole && inventory.checkpoints.empty() &&
                      std::ranges::any_of(inventory.others, [&](const Wanted& wanted) {
                        return wanted.path.starts_with(home_.checkpoints + "/");
                      });
    // A committed checkpoint is worth more than none, or than an older one: it stays as it is
    // recorded.
    const bool stays = (!taken && !left) || (missed && manifest.step < committed_.step);
    if (stays) {
      manifest.files = committed_checkpoints();
      manifest.step = committed_.step;
    }
    for (const Wanted& wanted : inventory.others) {
      auto file = send({wanted});
      if (!file && (whole || is_of_s3(file.error()))) return tl::unexpected(file.error());
      if (file) take(*std::move(file));  // else it is being written: the next time
    }
    const auto record = committed_.files.find(std::string(own_folder) + "/" + guard::record_name);
    if (stays && record != committed_.files.end()) take({*record});
    kept_.sent = sender_.sent();
    for (const auto& [path, file] : manifest.files) kept_.bytes += file.bytes;
    kept_.newest = manifest.step;
    if (!committed.empty() && manifest == committed_) {
      kept_.manifest = committed;
      return kept_;
    }
    kept_.manifest = bucket::manifest_name(std::to_string(home_.epoch) + "-" +
                                           checkpoint::sum_of(bucket::encode(manifest)));
    TRY(bucket_.commit(kept_.manifest, manifest));
    const Mark made{home_.epoch, kept_.manifest, std::move(manifest)};
    TRY(write_mark(home_, folder_, made));
    return kept_;
  }

  s3::Tally requests() { return bucket_.client().tally(); }

 private:
  using Files = bucket::Files;

  // Reads what is in the bucket: what is committed, and what this epoch sent for a commit that
  // failed.
  Result<void> learn(const std::string& committed) {
    mark_ = read_mark(home_, folder_);
    if (mark_ && mark_->epoch != home_.epoch) mark_.reset();
    if (mark_ && mark_->name == committed) {
      committed_ = mark_->manifest;
    } else if (!committed.empty()) {
      committed_ = TRY(read_manifest(bucket_, committed));
    }
    sender_.add_known(committed_.files);
    if (mark_) sender_.add_known(mark_->manifest.files);
    return {};
  }

  // Only what this epoch or one before it sent, and neither the committed manifest names nor the
  // one that follows it will: of a later epoch, whose session this one does not know of yet,
  // nothing. A failure costs only what is stored a little longer.
  void trim(const std::string& committed) {
    std::set<std::string> needed{committed};
    if (mark_) needed.insert(mark_->name);
    for (const auto& [content, file] : sender_.known()) needed.insert(file.key());
    for (const auto& [path, file] : committed_.files) needed.insert(file.key());
    const auto data = bucket_.data();
    const auto stems = bucket_.stems();
    if (!data || !stems) return;
    std::vector<std::string> gone;
    const auto judge = [&](const std::string& group, const std::string& name) {
      const auto epoch = epoch_in(group);
      if (epoch && *epoch <= home_.epoch && !needed.contains(name)) gone.push_back(name);
    };
    for (const std::string& stem : *stems) judge(stem, bucket::manifest_name(stem));
    for (const auto& each : *data) judge(each.group, each.name);
    bucket_.remove(gone);
  }

  // All of them, or an error that says which one cannot be.
  Result<Files> send(const std::vector<Wanted>& files) {
    Files done;
    std::vector<Wanted> changed;
    for (const Wanted& wanted : files) {
      const auto same = unchanged(wanted);
      if (same) done[wanted.path] = *same;
      if (!same) changed.push_back(wanted);
    }
    auto sent = TRY(sender_.send(changed));
    done.merge(std::move(sent));
    return done;
  }

  // The file as it was kept last, if its size and time are the same: nothing is read.
  std::optional<bucket::File> unchanged(const Wanted& wanted) const {
    if (wanted.content || !mark_) return std::nullopt;
    const auto before = mark_->manifest.files.find(wanted.path);
    if (before == mark_->manifest.files.end()) return std::nullopt;
    const bucket::File& file = before->second;
    if (!wanted.sum.empty() && wanted.sum != file.sum) return std::nullopt;
    const auto status = folder_.look(wanted.from);
    const bool same = status && S_ISREG(status->st_mode) && mtime_of(*status) == file.mtime_ns &&
                      static_cast<std::uint64_t>(status->st_size) == file.bytes;
    if (!same || !sender_.knows(file)) return std::nullopt;
    return file;
  }

  Files committed_checkpoints() const {
    Files files;
    const std::string begin = home_.checkpoints + "/";
    for (auto at = committed_.files.lower_bound(begin);
         at != committed_.files.end() && at->first.starts_with(begin); ++at)
      files.insert(*at);
    return files;
  }

  const Home& home_;
  const io::SafeDirectory& folder_;
  bucket::Bucket bucket_;
  bucket::Sender sender_;
  std::optional<Mark> mark_;
  bucket::Manifest committed_;
  Kept kept_;
};

constexpr std::size_t home_record_limit = 64U << 20;
constexpr std::size_t mark_limit = 16U << 20;
constexpr std::size_t kept_checkpoints = 2;  // so that there is another one if the newest is torn

// A folder of libspotter's, which has its name only when it is whole.
std::optional<WantedCheckpoint> of_libspotter(const Home& home, const io::SafeDirectory& folder,
                                              std::uint64_t step, bool& measured) {
  const std::string name = checkpoint::directory_name(step);
  const std::string path = home.checkpoints + "/" + name;
  const std::string manifest_path = path + "/" + std::string(checkpoint::kManifestName);
  const auto bytes = folder.read(manifest_path, checkpoint::kManifestLimit);
  const auto manifest = bytes ? checkpoint::decode(*bytes) : failure("");
  if (!manifest) return std::nullopt;
  measured = manifest->metric.has_value();
  WantedCheckpoint one{name, static_cast<std::int64_t>(step), {}};
  for (const auto& part : manifest->parts)
    one.files.push_back({path + "/" + part.name, path + "/" + part.name, part.xxh3_128, {}});
  one.files.push_back({manifest_path, manifest_path, checkpoint::sum_of(*bytes), *bytes});
  return one;
}

// The newest two, and older ones that the trainer keeps for their metric.
Result<void> look_at_library(const Home& home, const io::SafeDirectory& folder,
                             Inventory& inventory) {
  const auto steps = TRY(checkpoint::steps_in(fs::path(home.folder) / home.checkpoints));
  for (const std::uint64_t step : steps) {
    bool measured = false;
    auto one = of_libspotter(home, folder, step, measured);
    if (!one) continue;
    if (inventory.checkpoints.size() < kept_checkpoints || measured)
      inventory.checkpoints.push_back(std::move(*one));
  }
  return {};
}

// The newest generation as two checkpoints: what came last, with all that is written over in place,
// and of a numbered series what came before it.
std::vector<WantedCheckpoint> of_generation(const Home& home, guard::Record& record) {
  const guard::Generation* newest = record.newest();
  if (newest == nullptr || newest->name.empty()) return {};
  std::set<std::uint64_t, std::greater<>> moments;  // the newest first
  for (const guard::Row* row : record.rows_of(newest->number))
    if (!row->companion) moments.insert(row->from);
  const std::uint64_t last = moments.empty() ? newest->number : *moments.begin();
  const std::uint64_t before = moments.size() > 1 ? *std::next(moments.begin()) : last;
  std::vector<WantedCheckpoint> found = {
      {newest->name, static_cast<std::int64_t>(newest->step), {}}};
  if (before != last) found.push_back({"", static_cast<std::int64_t>(newest->step), {}});
  std::vector<guard::Row> rows;
  for (const guard::Row* row : record.rows_of(newest->number)) {
    const bool older = row->from < last && record.is_series(row->name);
    if (older && row->from != before) continue;
    if (row->link.empty() && !row->grows) {
      const std::string path = home.checkpoints + "/" + row->name;
      // The file may be written over at this moment; its copy beside is not.
      const std::string from = row->kept.empty() ? path
                                                 : std::string(own_folder) + "/" +
                                                       guard::kept_directory + "/" + row->kept;
      WantedCheckpoint& one = older ? found.back() : found.front();
      if (one.name.empty()) one.name = record.checkpoint_of(row->name);
      one.files.push_back({path, from, row->sum, {}});
    }
    rows.push_back(*row);
    rows.back().kept.clear();
  }
  record.generations = {*newest};
  record.rows = std::move(rows);
  return found;
}

// Adds what the guard recorded as whole. The record goes along as it will be true where the home is
// brought: without what is not kept, and without the copies beside.
Result<void> look_at_record(const Home& home, const io::SafeDirectory& folder,
                            Inventory& inventory) {
  const std::string path = std::string(own_folder) + "/" + guard::record_name;
  const auto bytes = folder.read(path, home_record_limit);
  if (!bytes && is_absent(bytes.error())) return {};
  if (!bytes) return failure("cannot read " + path + ": " + bytes.error().message());
  auto record = TRY(behind(path, guard::decode(*bytes)));
  for (WantedCheckpoint& one : of_generation(home, record))
    if (!one.files.empty()) inventory.checkpoints.push_back(std::move(one));
  if (home.of_all() && inventory.checkpoints.empty()) return {};  // libspotter's job
  record.away.clear();
  record.watching = false;
  const std::string there = guard::encode(record);
  inventory.others.push_back({path, path, checkpoint::sum_of(there), there});
  return {};
}

// Epochs begin at 1 in each home: the number alone says nothing.
std::string home_of_mark(const Home& home) { return home.at + " " + home.id; }

// The mark of whichever home, as it is written.
struct MarkRecord {
  static constexpr std::string_view keys = "home! epoch! name! manifest! cleared";
  std::string home;
  std::uint32_t epoch = 0;
  std::string name, manifest;
  bool cleared = false;
};
std::optional<MarkRecord> any_mark(const io::SafeDirectory& folder) {
  const auto bytes = folder.read(std::string(own_folder) + "/" + mark_name, mark_limit);
  const auto object = bytes ? checkpoint::unseal(*bytes) : std::nullopt;
  MarkRecord mark;
  if (!object || !wire::read_record(*object, mark).empty()) return std::nullopt;
  return mark;
}

}  // namespace

Result<Brought> bring(const Home& home, const std::string& manifest, std::uint32_t held) {
  const auto folder =
      TRY(behind("cannot open " + home.folder, io::SafeDirectory::open(home.folder)));
  Bringing bringing(home, folder);
  auto brought = bringing.bring(manifest, held);
  if (brought) brought->requests = bringing.requests();
  return brought;
}

Result<Kept> keep(const Home& home, const verbs::KeepHome& request) {
  const auto folder =
      TRY(behind("cannot open " + home.folder, io::SafeDirectory::open(home.folder)));
  Keeping keeping(home, folder);
  auto kept = keeping.keep(request);
  if (kept) kept->requests = keeping.requests();
  return kept;
}

bool is_left_alone(const std::string& name) {
  return name == code_folder || name == "cache" || name == "setup" || name == own_folder ||
         name == fetching || name.starts_with(left_behind);
}

std::vector<std::string> kept_roots(const Home& home, const io::SafeDirectory& folder) {
  std::vector<std::string> roots = {"result", "model", "log", "ml/state", "ml/model", "ml/output"};
  if (!home.result.empty()) roots.push_back(home.result);
  roots.emplace_back("metrics.jsonl");
  roots.push_back(std::string(own_folder) + "/best");
  // A log among the checkpoints would be taken for a checkpoint that a trainer left.
  for (const std::string& log : folder.matching(home.log, guard::logs_limit)) {
    const auto has_it = [&log](const std::string& root) {
      return log == root || log.starts_with(root + "/");
    };
    const bool apart = !is_left_alone(log.substr(0, log.find('/'))) && !has_it(home.checkpoints);
    if (!apart || std::ranges::any_of(roots, has_it)) continue;
    if (folder.file(log, O_RDONLY)) roots.push_back(log);  // nothing fails for want of a log
  }
  return roots;
}

Result<Inventory> look_over(const Home& home, const io::SafeDirectory& folder, bool whole) {
  Inventory inventory;
  auto looked = look_at_record(home, folder, inventory);
  if (looked && home.of_all() && inventory.checkpoints.empty())
    looked = look_at_library(home, folder, inventory);
  if (!looked) return tl::unexpected(looked.error());
  std::vector<std::string> roots = kept_roots(home, folder);
  // Checkpoints in a trainer's own format are known to be whole only once it has ended.
  if (whole && home.of_all() && inventory.checkpoints.empty()) roots.push_back(home.checkpoints);
  for (const std::string& root : roots) TRY(walk(folder, root, inventory));
  const auto own = folder.folder(own_folder);
  const auto names = TRY(behind("cannot list " + std::string(own_folder),
                                own ? own->names() : tl::unexpected(own.error())));
  for (const std::string& name : names) {
    const auto status = own->look(name);
    const bool ours = name == mark_name || name == guard::record_name || name.starts_with('.') ||
                      name == guard::guards_lock || name == guard::persons_lock;
    if (!status || !S_ISREG(status->st_mode) || ours) continue;
    const std::string path = std::string(own_folder) + "/" + name;
    if (bucket::is_path(path)) inventory.others.push_back({path, path, {}, std::nullopt});
  }
  return inventory;
}

bool is_copy(const fs::path& folder, const std::string& url) {
  const auto opened = io::SafeDirectory::open(folder);
  const auto mark = opened ? any_mark(*opened) : std::nullopt;
  return mark && mark->home.starts_with(url + " ");
}

std::optional<Mark> read_mark(const Home& home, const io::SafeDirectory& folder) {
  auto mark = any_mark(folder);
  if (!mark || mark->home != home_of_mark(home)) return std::nullopt;
  auto manifest = bucket::decode(mark->manifest);
  if (!manifest) return std::nullopt;
  return Mark{mark->epoch, std::move(mark->name), *std::move(manifest), mark->cleared};
}

Result<void> write_mark(const Home& home, const io::SafeDirectory& folder, const Mark& mark) {
  const auto object = wire::object_of(MarkRecord{home_of_mark(home), mark.epoch, mark.name,
                                                 bucket::encode(mark.manifest), mark.cleared});
  const auto written =
      folder.write(std::string(own_folder) + "/" + mark_name, checkpoint::seal(object), 0644);
  if (written) return {};
  return failure("cannot write " + std::string(own_folder) + "/" + mark_name + ": " +
                 written.error().message());
}

Result<bucket::Manifest> read_manifest(bucket::Bucket& bucket, const std::string& name) {
  auto manifest = TRY(bucket.read(name));
  if (!manifest) return failure(bucket.shown(name) + ": there is no such manifest", "s3-rejected");
  return *std::move(manifest);
}

}  // namespace spotter::tier
