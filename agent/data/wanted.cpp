#include "agent/data/wanted.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/data/file_name.hpp"
#include "agent/io/files.hpp"

namespace spotter::data {

namespace fs = std::filesystem;
using partial::File;

Result<std::unique_ptr<Wanted>> Wanted::open(const DownloadSettings& settings,
                                             const wire::Channel& channel, s3::Client& client) {
  // Without a state the record of files says which are ours, so a changed listing is no error.
  const fs::path ledger = settings.state.empty()
                              ? settings.directory / (".spotter-" + channel.name + ".files")
                              : (settings.ledgers.empty() ? settings.state : settings.ledgers) /
                                    (channel.name + ".files");
  auto fetched = Fetched::open(ledger);
  if (!fetched) return tl::unexpected(fetched.error());
  return std::unique_ptr<Wanted>(new Wanted(settings, channel, client, std::move(*fetched)));
}

Wanted::Wanted(const DownloadSettings& settings, const wire::Channel& channel, s3::Client& client,
               Fetched fetched)
    : channel_(channel),
      shard_(channel.sharded ? settings.shard : Shard{}),
      client_(client),
      folder_(settings.directory / channel.name),
      partials_(settings.directory / (".spotter-" + channel.name)),
      fetched_(std::move(fetched)),
      catalogue_(channel, settings.state.empty() ? fs::path()
                                                 : settings.state / (channel.name + ".listing")) {
  done_.channel = channel.name;
}

Result<std::map<std::string, const Entry*>> Wanted::names() const {
  const auto& entries = catalogue_.entries();
  std::map<std::string, const Entry*> names;
  for (std::size_t i = shard_.index; i < entries.size(); i += shard_.count) {
    const auto name = file_name(catalogue_.prefix(), entries[i].key);
    if (!name) return failure(wrong(name.error().message));
    const auto [at, added] = names.emplace(*name, &entries[i]);
    if (!added && at->second->key != entries[i].key) {
      return failure(
          wrong(at->second->key + " and " + entries[i].key + " would be the same file, " + *name));
    }
  }
  for (const auto& [name, entry] : names) {
    for (auto slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1)) {
      const auto file = names.find(name.substr(0, slash));
      if (file == names.end()) continue;
      return failure(wrong(file->second->key + " and " + entry->key + " cannot both be files: " +
                           file->first + " would be the folder of the other"));
    }
  }
  return names;
}

void Wanted::remove_others(const std::map<std::string, const Entry*>& names) {
  for (const auto& [name, file] : std::map(fetched_.files())) {
    if (names.contains(name)) continue;
    if (fetched_.is_whole(folder_, name, file.size, file.etag)) {
      const fs::path path = folder_ / name;
      ::unlink(path.c_str());
      // Removes folders that have become empty, which may be in the way of a file.
      for (fs::path above = path.parent_path(); above != folder_; above = above.parent_path())
        if (::rmdir(above.c_str()) != 0) break;
    }
    fetched_.forget(name);
  }
}

// Partial files that cannot be continued, of this listing or an earlier one, only take space.
void Wanted::remove_partials(const std::deque<File>& files) const {
  std::set<fs::path> begun;
  for (const auto& file : files)
    if (file.begin > 0) begun.insert(file.partial);
  std::error_code ignored;
  for (const auto& each : fs::directory_iterator(partials_, ignored)) {
    std::error_code stays;
    if (!begun.contains(each.path())) fs::remove(each.path(), stays);
  }
}

Result<void> Wanted::choose(std::deque<File>& files) {
  const auto names = this->names();
  if (!names) return tl::unexpected(names.error());
  for (const auto& [name, entry] : *names) {
    if (fetched_.is_whole(folder_, name, entry->size, entry->etag)) continue;
    File& file = files.emplace_back();
    file.wanted = this;
    file.entry = entry;
    file.name = name;
    // The name depends on the content alone, whatever listing it was fetched by.
    file.partial = partials_ / wire::sha256_hex(name + "\n" + entry->etag);
    file.begin = file.planned = file.written =
        fetched_.begun(file.partial, name, entry->size, entry->etag);
    ++done_.fetched;
  }
  done_.files = names->size();
  remove_others(*names);
  remove_partials(files);
  return {};
}

Result<void> Wanted::make_folders() {
  for (const auto& folder : {folder_, partials_}) {
    if (folder == partials_ && !has_fetched()) continue;  // a read-only disk must have all of it
    if (auto made = io::make_directories(folder, 0755); !made)
      return failure(wrong(folder.string() + ": " + made.error().message()));
  }
  disk_ = Descriptor(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!disk_ || ::fstat(disk_.get(), &status) != 0)
    return failure(wrong(folder_.string() + ": " + std::strerror(errno)));
  device_ = status.st_dev;
  return {};
}

bool Wanted::add_whole(const File& file, fs::path& at) {
  const fs::path path = folder_ / file.name;
  at = path.parent_path();
  if (auto made = io::make_directories(at, 0755); !made) {
    errno = made.error().value();
    return false;
  }
  at = path;
  return ::rename(file.partial.c_str(), path.c_str()) == 0 &&
         fetched_.add_whole(folder_, file.name, file.entry->etag);
}

void Wanted::add_begun(const File& file, std::uint64_t bytes) {
  fetched_.add_begun(file.name, bytes, file.entry->etag);
}

Downloaded Wanted::finish() const {
  std::error_code ignored;
  fs::remove_all(partials_, ignored);
  return done_;
}

}  // namespace spotter::data
