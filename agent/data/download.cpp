#include "agent/data/download.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <set>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/s3/checksum.hpp"
#include "agent/aws/s3/objects.hpp"
#include "agent/base/text.hpp"
#include "agent/data/fetched.hpp"
#include "agent/data/fifo.hpp"
#include "agent/io/files.hpp"

namespace spotter::data {
namespace {

namespace fs = std::filesystem;
struct Wanted;

// A download's unfinished work: files that are not complete yet, ranges of them being fetched, and
// data being made durable.

struct File {
  Wanted* wanted = nullptr;  // its channel
  const Entry* entry = nullptr;
  std::string name;            // relative to the channel's folder
  fs::path partial;            // its path until it is complete
  Descriptor open;             // while it is written
  std::uint64_t begin = 0;     // bytes that an earlier run left
  std::uint64_t digested = 0;  // of `begin`
  std::uint64_t planned = 0;
  std::uint64_t written = 0;
  bool asks = false;                     // for the checksum, by a request of its own
  std::optional<s3::Checksum> checksum;  // known
  std::optional<s3::Digest> digest;
};

struct Chunk {
  File* file = nullptr;
  std::uint64_t offset = 0;
  std::size_t size = 0;
  std::unique_ptr<char[]> bytes;
  bool whole = false;
};

struct Commit {
  std::vector<File*> files;
  File* partly = nullptr;
  std::uint64_t written = 0;  // of it
  std::future<int> synced;    // errno
};

// One channel of a download: its listing, which of its files exist, and which are to be fetched.
struct Wanted {
  // Reads the record of complete files. REQUIRES: `settings` and `client` outlive it; it does not
  // move.
  static Result<std::unique_ptr<Wanted>> open(const DownloadSettings& settings,
                                              const wire::Channel& channel, s3::Client& client) {
    // Without a state the record of files says which are ours, so a changed listing is no error.
    const fs::path ledger = settings.state.empty()
                                ? settings.directory / (".spotter-" + channel.name + ".files")
                                : (settings.ledgers.empty() ? settings.state : settings.ledgers) /
                                      (channel.name + ".files");
    auto fetched = TRY(Fetched::open(ledger));
    return std::make_unique<Wanted>(settings, channel, client, std::move(fetched));
  }

  // To be called once the listing is complete. Appends the files that are missing, and removes
  // those that only an earlier listing had. Fails on names that cannot be files, before it removes
  // any.
  Result<void> choose(std::deque<File>& files) {
    const auto names = TRY(this->names());
    for (const auto& [name, entry] : names) {
      if (fetched.is_whole(folder, name, entry->size, entry->etag)) continue;
      File& file = files.emplace_back();
      file.wanted = this;
      file.entry = entry;
      file.name = name;
      // The name depends on the content alone, whatever listing it was fetched by.
      file.partial = partials / wire::sha256_hex(name + "\n" + entry->etag);
      file.begin = file.planned = file.written =
          fetched.begun(file.partial, name, entry->size, entry->etag);
      ++done.fetched;
    }
    done.files = names.size();
    remove_others(names);
    remove_partials(files);
    return {};
  }

  // Also opens them.
  Result<void> make_folders() {
    for (const auto& each : {folder, partials}) {
      if (each == partials && done.fetched == 0) continue;  // a read-only disk must have all of it
      if (auto made = io::make_directories(each, 0755); !made)
        return failure(wrong(each.string() + ": " + made.error().message()));
    }
    disk = Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat status {};
    if (!disk || ::fstat(disk.get(), &status) != 0)
      return failure(wrong(folder.string() + ": " + std::strerror(errno)));
    device = status.st_dev;
    return {};
  }

  // Renames a complete and durable file to its name. False: see errno, at path `at`.
  bool add_whole(const File& file, fs::path& at) {
    const fs::path path = folder / file.name;
    at = path.parent_path();
    if (auto made = io::make_directories(at, 0755); !made) {
      errno = made.error().value();
      return false;
    }
    at = path;
    return ::rename(file.partial.c_str(), path.c_str()) == 0 &&
           fetched.add_whole(folder, file.name, file.entry->etag);
  }

  void add_begun(const File& file, std::uint64_t bytes) {
    fetched.add_begun(file.name, bytes, file.entry->etag);
  }

  // To be called when all of it is there.
  Downloaded finish() const {
    std::error_code ignored;
    fs::remove_all(partials, ignored);
    return done;
  }

  const std::string& bucket(const File& file) const { return bucket_of(*file.entry, channel); }
  std::string url(const File& file) const { return wire::to_url({bucket(file), file.entry->key}); }
  std::string wrong(const std::string& what) const {
    return "channel " + channel.name + ": " + what;
  }

  Wanted(const DownloadSettings& settings, const wire::Channel& its, s3::Client& s3, Fetched record)
      : channel(its),
        shard(its.sharded ? settings.shard : Shard{}),
        client(s3),
        folder(settings.directory / its.name),
        partials(settings.directory / (".spotter-" + its.name)),
        fetched(std::move(record)),
        catalogue(its,
                  settings.state.empty() ? fs::path() : settings.state / (its.name + ".listing")) {
    done.channel = its.name;
  }

  Result<std::map<std::string, const Entry*>> names() const {
    const auto& entries = catalogue.entries();
    std::map<std::string, const Entry*> names;
    for (std::size_t i = shard.index; i < entries.size(); i += shard.count) {
      const auto name = file_name(catalogue.prefix(), entries[i].key);
      if (!name) return failure(wrong(name.error().message));
      const auto [at, added] = names.emplace(*name, &entries[i]);
      if (!added && at->second->key != entries[i].key) {
        return failure(wrong(at->second->key + " and " + entries[i].key +
                             " would be the same file, " + *name));
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

  void remove_others(const std::map<std::string, const Entry*>& names) {
    for (const auto& [name, file] : std::map(fetched.files())) {
      if (names.contains(name)) continue;
      if (fetched.is_whole(folder, name, file.size, file.etag)) {
        const fs::path path = folder / name;
        ::unlink(path.c_str());
        // Removes folders that have become empty, which may be in the way of a file.
        for (fs::path above = path.parent_path(); above != folder; above = above.parent_path())
          if (::rmdir(above.c_str()) != 0) break;
      }
      fetched.forget(name);
    }
  }

  // Partial files that cannot be continued, of this listing or an earlier one, only take space.
  void remove_partials(const std::deque<File>& files) const {
    std::set<fs::path> begun;
    for (const auto& file : files)
      if (file.begin > 0) begun.insert(file.partial);
    std::error_code ignored;
    for (const auto& each : fs::directory_iterator(partials, ignored)) {
      std::error_code stays;
      if (!begun.contains(each.path())) fs::remove(each.path(), stays);
    }
  }

  const wire::Channel& channel;
  Shard shard;
  s3::Client& client;
  fs::path folder, partials;
  Descriptor disk;
  dev_t device = 0;
  Fetched fetched;  // the record
  Catalogue catalogue;
  Downloaded done;
};

using Clock = std::chrono::steady_clock;

// Makes data durable and records it after so many bytes, or so much time.
constexpr std::chrono::seconds time_at_risk{1};
constexpr std::chrono::milliseconds turn_at_most{100};

std::string gigabytes(std::uint64_t bytes) {
  return printed("%.3f GB", static_cast<double>(bytes) / 1e9);
}

class Download {
 public:
  explicit Download(const DownloadSettings& settings)
      : settings_(settings), clients_(settings.s3) {}

  Result<std::vector<Downloaded>> run(const std::function<bool()>& stop) {
    const auto failed = [this] { return failure(failed_.value_or("it was stopped")); };
    TRY(begin());
    const auto listed = [](const Wanted& each) { return each.catalogue.complete(); };
    if (!wait_until(listed, stop) || !choose_files()) return failed();
    while (!failed_ && (next_ < files_.size() || !chunks_.empty())) {
      if (stop()) {
        (void)commit_all();
        return failed();
      }
      plan();
      turn(write_front() ? std::chrono::milliseconds(0) : turn_at_most);
      note();
      look_at_listings();
    }
    if (failed_ || !commit_all()) return failed();
    // The objects may have been listed in an earlier run: S3 must confirm that they are unchanged.
    const auto sure = [](const Wanted& each) {
      return each.done.fetched == 0 || each.catalogue.confirmed();
    };
    if (!wait_until(sure, stop)) return failed();
    std::vector<Downloaded> done;
    for (const auto& each : channels_) done.push_back(each->finish());
    return done;
  }

 private:
  Result<void> begin() {
    for (const auto& folder : {settings_.directory, settings_.state, settings_.ledgers}) {
      if (folder.empty()) continue;
      TRY(behind("cannot make " + folder.string(), io::make_directories(folder, 0755)));
    }
    for (const auto& channel : settings_.channels) {
      channels_.push_back(TRY(Wanted::open(settings_, channel, clients_.of(channel))));
      channels_.back()->catalogue.begin(channels_.back()->client);
    }
    return {};
  }

  void turn(std::chrono::milliseconds at_most) {
    std::vector<pollfd> files;
    for (const auto& client : clients_.all()) {
      if (!client) continue;
      files.push_back({client->descriptor(), POLLIN, 0});
      at_most = std::min(at_most, client->next());
    }
    if (at_most.count() > 0) ::poll(files.data(), files.size(), static_cast<int>(at_most.count()));
    for (const auto& client : clients_.all())
      if (client) client->turn(std::chrono::milliseconds(0));
  }

  bool wait_until(const std::function<bool(const Wanted&)>& done,
                  const std::function<bool()>& stop) {
    const auto all_done = [&] {
      return std::ranges::all_of(channels_, [&](const auto& each) { return done(*each); });
    };
    for (look_at_listings(); !failed_ && !all_done(); look_at_listings()) {
      if (stop()) return false;
      turn(turn_at_most);
    }
    return !failed_;
  }

  bool choose_files() {
    for (const auto& each : channels_) {
      auto chosen = each->choose(files_);
      if (chosen) chosen = each->make_folders();
      if (!chosen) fail(chosen.error().message);
      if (failed_) return false;
      disks_[each->device] = each->disk.get();
    }
    return std::ranges::all_of(disks_,
                               [this](const auto& disk) { return enough_room(disk.first); });
  }

  bool enough_room(dev_t device) {
    std::uint64_t needed = 0;
    const Wanted* last = nullptr;
    for (const auto& file : files_) {
      if (file.wanted->device != device) continue;
      needed += file.entry->size - file.begin;
      last = file.wanted;
    }
    struct statvfs status {};
    if (last == nullptr || ::fstatvfs(disks_.at(device), &status) != 0) return true;
    const std::uint64_t free = std::uint64_t{status.f_bavail} * status.f_frsize;
    if (needed <= free) return true;
    fail(last->wrong("up to and with it " + gigabytes(needed) + " are to be fetched, and " +
                     last->folder.string() + " has room for " + gigabytes(free)));
    return false;
  }

  void plan() {
    while (!failed_ && next_ < files_.size()) {
      File& file = files_[next_];
      const auto& client = file.wanted->client;
      if (client.under_way() >= client.width() + client.width() / 2 + 4) return;
      const auto size = static_cast<std::size_t>(
          std::min<std::uint64_t>(s3::piece_bytes, file.entry->size - file.planned));
      if (used_ > 0 && used_ + size > settings_.budget) return;
      const bool first = file.planned == file.begin;
      if (first && size < file.entry->size && file.entry->checksum) ask_for_checksum(file);
      fetch(file, size);
      if (file.planned == file.entry->size) ++next_;
    }
  }

  bool open_file(File& file) {
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (file.begin == 0 ? O_TRUNC : 0);
    file.open = Descriptor(::open(file.partial.c_str(), flags, 0644));
    return file.open || fail_at(file, file.partial);
  }

  void fetch(File& file, std::size_t size) {
    Chunk& chunk = chunks_.emplace_back();
    chunk.file = &file;
    chunk.offset = file.planned;
    chunk.size = size;
    chunk.whole = size == 0;
    file.planned += size;
    if (size == 0) return;
    chunk.bytes.reset(new char[size]);  // not zeroed
    used_ += size;
    s3::Request request{.bucket = file.wanted->bucket(file), .key = file.entry->key};
    request.into = {chunk.bytes.get(), size};
    request.offset = chunk.offset;
    request.etag = file.entry->etag;
    request.whole = size == file.entry->size;
    if (request.whole) request.headers = {{"x-amz-checksum-mode", "ENABLED"}};
    auto& client = file.wanted->client;
    client.start(std::move(request), [this, &chunk](const Result<s3::Answer, s3::Failure>& answer) {
      if (!answer) return fail(*chunk.file, answer.error());
      chunk.whole = true;
      File& its = *chunk.file;
      if (chunk.size != its.entry->size) return;
      s3::Checksum checksum = s3::checksum_of(*answer);
      if (checksum.lacks_borders())
        ask_for_checksum(its);
      else
        its.checksum = std::move(checksum);
    });
  }

  void ask_for_checksum(File& file) {
    file.asks = true;
    s3::ask_for_checksum(
        file.wanted->client,
        {file.wanted->bucket(file), file.entry->key, file.entry->size, file.entry->etag, {}},
        [](s3::Client::CallId) {},  // all calls end with this
        [this, &file](Result<s3::Checksum, s3::Failure> checksum) {
          if (!checksum) return fail(file, checksum.error());
          file.checksum = std::move(*checksum);
        });
  }

  // False: the next bytes have not arrived, or the download has failed.
  bool write_front() {
    if (failed_ || chunks_.empty() || !chunks_.front().whole) return false;
    Chunk& chunk = chunks_.front();
    File& file = *chunk.file;
    if (file.asks && !file.checksum) return false;
    if (!file.open && !open_file(file)) return false;
    if (!file.digest) file.digest.emplace(file.checksum.value_or(s3::Checksum{}));
    if (file.digested < file.begin) return digest_block(file);
    file.digest->add({chunk.bytes.get(), chunk.size});
    for (std::size_t done = 0; done < chunk.size;) {
      const ssize_t put = ::pwrite(file.open.get(), chunk.bytes.get() + done, chunk.size - done,
                                   static_cast<off_t>(chunk.offset + done));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return fail_at(file, file.partial);
      done += static_cast<std::size_t>(put);
    }
    file.written += chunk.size;
    at_risk_ += chunk.size;
    file.wanted->done.bytes += chunk.size;
    used_ -= chunk.size;
    partly_ = &file;
    chunks_.pop_front();
    return file.written < file.entry->size || finish(file);
  }

  // Reads the bytes of an earlier run again, as the checksum is of the whole file. One block at a
  // time, so that network requests and `stop` are handled in between.
  bool digest_block(File& file) {
    std::string block(std::min<std::uint64_t>(4U << 20, file.begin - file.digested), '\0');
    const ssize_t got =
        ::pread(file.open.get(), block.data(), block.size(), static_cast<off_t>(file.digested));
    if (got < 0 && errno == EINTR) return true;
    if (got <= 0) return fail_at(file, file.partial);
    block.resize(static_cast<std::size_t>(got));
    file.digest->add(block);
    file.digested += block.size();
    return true;
  }

  bool finish(File& file) {
    partly_ = nullptr;
    if (!file.digest->matches()) {
      const s3::Failure corrupt{.kind = s3::Failure::Kind::Corrupt,
                                .bucket = file.wanted->bucket(file),
                                .key = file.entry->key};
      fail(file, corrupt);
      ::unlink(file.partial.c_str());  // so that the next attempt does not continue it
      return false;
    }
    if (::ftruncate(file.open.get(), static_cast<off_t>(file.entry->size)) != 0)
      return fail_at(file, file.partial);
    file.open.close();
    file.digest.reset();
    risked_.push_back(&file);
    return true;
  }

  // Makes files durable while the network works on, then renames them, then records them.
  void begin_commit() {
    commit_.emplace();
    commit_->files = std::exchange(risked_, {});
    commit_->partly = partly_;
    if (partly_ != nullptr) commit_->written = partly_->written;
    at_risk_ = 0;
    risked_since_ = Clock::now();
    commit_->synced = std::async(std::launch::async, [disks = disks_] {
      for (const auto& [device, disk] : disks)
        if (::syncfs(disk) != 0) return errno;
      return 0;
    });
  }

  bool end_commit() {
    Commit done = std::move(*std::exchange(commit_, std::nullopt));
    errno = done.synced.get();
    if (errno != 0) {
      const File* one = done.files.empty() ? done.partly : done.files.front();
      return one == nullptr ? fail_at(settings_.directory) : fail_at(*one, one->wanted->folder);
    }
    for (const File* file : done.files) {
      fs::path at;
      if (!file->wanted->add_whole(*file, at)) return fail_at(*file, at);
    }
    if (done.partly != nullptr) done.partly->wanted->add_begun(*done.partly, done.written);
    for (const auto& each : channels_)
      if (auto kept = each->fetched.keep(); !kept) fail(each->wrong(kept.error().message));
    return !failed_;
  }

  bool commit_all() {
    if (commit_ && !end_commit()) return false;
    begin_commit();
    return end_commit();
  }

  // Does whatever is due of these two.
  void note() {
    if (commit_) {
      const auto ready = commit_->synced.wait_for(std::chrono::seconds(0));
      if (ready == std::future_status::ready) (void)end_commit();
    } else if (at_risk_ >= bytes_at_risk ||
               (at_risk_ > 0 && Clock::now() - risked_since_ >= time_at_risk)) {
      begin_commit();
    }
  }

  void look_at_listings() {
    for (const auto& each : channels_)
      if (each->catalogue.failed()) fail(*each->catalogue.failed());
  }

  void fail(std::string what) {
    if (!failed_) failed_ = std::move(what);
  }
  void fail(const File& file, const s3::Failure& failure) {
    fail(file.wanted->wrong(failure.text()));
  }
  bool fail_at(const fs::path& path) {
    fail(path.string() + ": " + std::strerror(errno));
    return false;
  }
  bool fail_at(const File& file, const fs::path& path) {
    const std::string reason = std::strerror(errno);
    fail(file.wanted->wrong(file.wanted->url(file) + ": " + path.string() + ": " + reason));
    return false;
  }

  const DownloadSettings& settings_;
  std::vector<std::unique_ptr<Wanted>> channels_;
  std::map<dev_t, int> disks_;  // devices of the channels' folders; a file on each, for syncfs()
  std::deque<File> files_;      // to be fetched, in order
  std::size_t next_ = 0;        // of files_, to be planned
  std::deque<Chunk> chunks_;
  std::size_t used_ = 0;       // bytes of memory
  std::vector<File*> risked_;  // complete, but not yet durable
  File* partly_ = nullptr;     // written in part
  std::uint64_t at_risk_ = 0;
  Clock::time_point risked_since_ = Clock::now();
  std::optional<Commit> commit_;
  std::optional<std::string> failed_;
  Clients clients_;  // end before the objects that their calls write to
};

}  // namespace

Result<std::vector<Downloaded>> download(const DownloadSettings& settings,
                                         const std::function<bool()>& stop) {
  return Download(settings).run(stop);
}

}  // namespace spotter::data
