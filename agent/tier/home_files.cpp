#include "agent/tier/home_files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "agent/guard/keeper.hpp"
#include "agent/guard/lock.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::tier {
namespace {

constexpr std::size_t home_record_limit = 64U << 20;
constexpr std::size_t mark_limit = 16U << 20;
constexpr int deepest = 32;                  // as a manifest has them
constexpr std::size_t kept_checkpoints = 2;  // so that there is another one if the newest is torn

bool is_absent(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

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
  const auto steps = checkpoint::steps_in(home.folder / home.checkpoints);
  if (!steps) return tl::unexpected(steps.error());
  for (const std::uint64_t step : *steps) {
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
  auto record = guard::decode(*bytes);
  if (!record) return failure(path + ": " + record.error().message);
  for (WantedCheckpoint& one : of_generation(home, *record))
    if (!one.files.empty()) inventory.checkpoints.push_back(std::move(one));
  if (home.of_all() && inventory.checkpoints.empty()) return {};  // libspotter's job
  record->away.clear();
  record->watching = false;
  const std::string there = guard::encode(*record);
  inventory.others.push_back({path, path, checkpoint::sum_of(there), there});
  return {};
}

// Epochs begin at 1 in each home: the number alone says nothing.
std::string home_of_mark(const Home& home) { return wire::to_url(home.at) + " " + home.id; }

// The mark of whichever home.
std::optional<nlohmann::json> any_mark(const io::SafeDirectory& folder) {
  const auto bytes = folder.read(std::string(own_folder) + "/" + mark_name, mark_limit);
  auto object = bytes ? checkpoint::unseal(*bytes) : std::nullopt;
  if (!object || !object->is_object()) return std::nullopt;
  return object;
}

}  // namespace

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
  for (const std::string& root : roots)
    if (auto walked = walk(folder, root, inventory); !walked) return tl::unexpected(walked.error());
  const auto own = folder.folder(own_folder);
  const auto names = own ? own->names() : tl::unexpected(own.error());
  if (!names)
    return failure("cannot list " + std::string(own_folder) + ": " + names.error().message());
  for (const std::string& name : *names) {
    const auto status = own->look(name);
    const bool ours = name == mark_name || name == guard::record_name || name.starts_with('.') ||
                      name == guard::guards_lock || name == guard::persons_lock;
    if (!status || !S_ISREG(status->st_mode) || ours) continue;
    const std::string path = std::string(own_folder) + "/" + name;
    if (bucket::is_path(path)) inventory.others.push_back({path, path, {}, std::nullopt});
  }
  return inventory;
}

bool is_copy(const std::filesystem::path& folder, const std::string& url) {
  const auto opened = io::SafeDirectory::open(folder);
  const auto mark = opened ? any_mark(*opened) : std::nullopt;
  const nlohmann::json of = mark ? mark->value("home", nlohmann::json()) : nlohmann::json();
  return of.is_string() && of.get_ref<const std::string&>().starts_with(url + " ");
}

std::optional<Mark> read_mark(const Home& home, const io::SafeDirectory& folder) {
  const auto object = any_mark(folder);
  if (!object) return std::nullopt;
  const auto of = object->find("home");
  if (of == object->end() || *of != home_of_mark(home)) return std::nullopt;
  const auto epoch = object->find("epoch");
  const auto name = object->find("name");
  const auto text = object->find("manifest");
  if (epoch == object->end() || !epoch->is_number_unsigned() || name == object->end() ||
      !name->is_string() || text == object->end() || !text->is_string())
    return std::nullopt;
  auto manifest = bucket::decode(text->get<std::string>());
  if (!manifest) return std::nullopt;
  const auto cleared = object->find("cleared");
  return Mark{epoch->get<std::uint32_t>(), name->get<std::string>(), *std::move(manifest),
              cleared != object->end() && *cleared == true};
}

Result<void> write_mark(const Home& home, const io::SafeDirectory& folder, const Mark& mark) {
  const nlohmann::json object = {{"home", home_of_mark(home)},
                                 {"epoch", mark.epoch},
                                 {"name", mark.name},
                                 {"manifest", bucket::encode(mark.manifest)},
                                 {"cleared", mark.cleared}};
  const auto written =
      folder.write(std::string(own_folder) + "/" + mark_name, checkpoint::seal(object), 0644);
  if (written) return {};
  return failure("cannot write " + std::string(own_folder) + "/" + mark_name + ": " +
                 written.error().message());
}

Result<bucket::Manifest> read_manifest(bucket::Bucket& bucket, const std::string& name) {
  auto manifest = bucket.read(name);
  if (!manifest) return tl::unexpected(manifest.error());
  if (!*manifest) return failure(bucket.shown(name) + ": there is no such manifest", "s3-rejected");
  return **std::move(manifest);
}

Result<void> walk(const io::SafeDirectory& home, const std::string& path, Inventory& into,
                  int depth) {
  const auto status = home.look(path);
  if (!status && is_absent(status.error())) return {};
  if (!status) return failure("cannot look at " + path + ": " + status.error().message());
  if (S_ISREG(status->st_mode)) {
    if (bucket::is_path(path))
      into.others.push_back({path, path, {}, std::nullopt});
    else
      into.left_out.push_back(path + " has a name that no bucket takes");
    return {};
  }
  if (!S_ISDIR(status->st_mode)) return {};
  if (depth > deepest) {
    into.left_out.push_back(path + " lies in too many folders");
    return {};
  }
  const auto folder = home.folder(path);
  if (!folder && is_absent(folder.error())) return {};
  const auto names = folder ? folder->names() : tl::unexpected(folder.error());
  if (!names) return failure("cannot list " + path + ": " + names.error().message());
  for (const std::string& name : *names) {
    if (into.others.size() > bucket::most_files)
      return failure("there are too many files below " + path);
    if (auto walked = walk(home, path + "/" + name, into, depth + 1); !walked) return walked;
  }
  return {};
}

bucket::Sender::Open opener(const io::SafeDirectory& folder) {
  return [&folder](const std::string& name) -> Result<checkpoint::Descriptor, std::error_code> {
    auto file = folder.file(name, O_RDONLY);
    if (!file) return tl::unexpected(file.error());
    return checkpoint::Descriptor(file->release());
  };
}

bool is_whole(const io::SafeDirectory& folder, const bucket::Files::value_type& file) {
  const auto opened = folder.file(file.first, O_RDONLY);
  struct stat status {};
  if (!opened || ::fstat(opened->get(), &status) != 0) return false;
  const std::uint64_t bytes = file.second.bytes;
  if (static_cast<std::uint64_t>(status.st_size) != bytes) return false;
  if (bytes == 0) return true;
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, opened->get(), 0);
  if (data == MAP_FAILED) return false;
  const auto sum = checkpoint::sum_of(std::string_view(static_cast<const char*>(data), bytes));
  ::munmap(data, bytes);
  return sum == file.second.sum;
}

Result<void> make_folders(const io::SafeDirectory& folder, const std::string& path) {
  for (auto slash = path.find('/'); slash != path.npos; slash = path.find('/', slash + 1)) {
    const auto made = folder.make_folder(path.substr(0, slash), 0755);
    if (!made) return failure("cannot make the folder of " + path + ": " + made.error().message());
  }
  return {};
}

Result<checkpoint::Descriptor> make_file(const io::SafeDirectory& folder, const std::string& path) {
  if (auto made = make_folders(folder, path); !made) return tl::unexpected(made.error());
  auto file = folder.file(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (!file) return failure("cannot make " + path + ": " + file.error().message());
  return checkpoint::Descriptor(file->release());
}

Result<Fetched> fetch_files(bucket::Bucket& bucket,
                            const std::vector<const bucket::Files::value_type*>& files,
                            const io::SafeDirectory& folder, const std::string& coming,
                            std::function<void(std::size_t)> received) {
  Fetched fetched;
  bucket::Receiver receiver;
  receiver.make = [&](std::size_t) { return make_file(folder, coming); };
  receiver.received = std::move(received);
  receiver.ended = [&](std::size_t i, const Result<void>& verified) -> Result<void> {
    const auto& [path, file] = *files[i];
    if (!verified) {
      fetched.torn.emplace(path, verified.error().message);
      (void)folder.remove(coming);
      return {};
    }
    if (auto made = make_folders(folder, path); !made) return made;
    if (const auto moved = folder.rename(coming, folder, path); !moved)
      return failure("cannot make " + path + ": " + moved.error().message());
    ++fetched.files;
    fetched.bytes += file.bytes;
    return {};
  };
  if (auto all = bucket::fetch(bucket, files, receiver); !all) return tl::unexpected(all.error());
  return fetched;
}

}  // namespace spotter::tier
