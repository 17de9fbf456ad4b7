#include "agent/data/download.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <vector>

#include "agent/data/fetched.hpp"
#include "agent/data/fifo.hpp"
#include "agent/data/file_name.hpp"
#include "agent/data/partial.hpp"
#include "agent/io/files.hpp"
#include "agent/s3/objects.hpp"
#include "agent/wire/sigv4.hpp"

namespace spotter::data {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// After so much was written, or so long, it is made durable and noted.
constexpr std::uint64_t bytes_at_risk = 64U << 20;
constexpr std::chrono::seconds time_at_risk{1};
constexpr std::chrono::milliseconds turn_at_most{100};

using partial::Chunk;
using partial::Commit;
using partial::File;

std::string gigabytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f GB", static_cast<double>(bytes) / 1e9);
  return text;
}

class Download {
 public:
  Download(const DownloadSettings& settings, Fetched fetched)
      : settings_(settings),
        folder_(settings.directory / settings.channel.name),
        partials_(settings.directory / (".spotter-" + settings.channel.name)),
        fetched_(std::move(fetched)),
        catalogue_(settings.channel, state_file(".listing")),
        client_(client_settings()) {}

  Result<Downloaded> run(const std::function<bool()>& stop);

  static fs::path state_file(const DownloadSettings& settings, const char* suffix) {
    if (settings.state.empty()) return {};
    return settings.state / (settings.channel.name + suffix);
  }

 private:
  fs::path state_file(const char* suffix) const { return state_file(settings_, suffix); }
  s3::Settings client_settings() const {
    s3::Settings settings = settings_.s3;
    settings.anonymous = settings.anonymous || settings_.channel.anonymous;
    return settings;
  }
  bool wait_until(bool (Catalogue::*said)() const, const std::function<bool()>& stop);
  bool choose_files();
  bool enough_room();
  void plan();
  bool open_file(File& file);
  void fetch(File& file, std::size_t size);
  void ask_for_checksum(File& file);
  bool write_front();
  bool digest_block(File& file);
  bool finish(File& file);
  void begin_commit();
  bool end_commit();
  bool commit_all();
  void note();
  void fail(const std::string& what) {
    if (!failed_) failed_ = "channel " + settings_.channel.name + ": " + what;
  }
  bool fail_at(const fs::path& path) {
    fail(path.string() + ": " + std::strerror(errno));
    return false;
  }
  bool fail_at(const File& file, const fs::path& path) {
    fail(url(file) + ": " + path.string() + ": " + std::strerror(errno));
    return false;
  }
  std::string url(const File& file) const { return wire::to_url({bucket(file), file.entry->key}); }
  const std::string& bucket(const File& file) const {
    return bucket_of(*file.entry, settings_.channel);
  }

  const DownloadSettings& settings_;
  fs::path folder_;
  fs::path partials_;
  Fetched fetched_;
  Descriptor disk_;  // the folder, for syncfs()
  Catalogue catalogue_;
  std::deque<File> files_;  // that are to be fetched, in order
  std::size_t next_ = 0;    // of files_, to be planned
  std::deque<Chunk> chunks_;
  std::size_t used_ = 0;       // bytes of memory
  std::vector<File*> risked_;  // whole, but not yet durable
  File* partly_ = nullptr;     // written in part
  std::uint64_t at_risk_ = 0;
  Clock::time_point risked_since_ = Clock::now();
  std::optional<Commit> commit_;
  Downloaded done_;
  std::optional<std::string> failed_;
  s3::Client client_;  // ends before all that its calls write to
};

bool Download::wait_until(bool (Catalogue::*said)() const, const std::function<bool()>& stop) {
  while (!(catalogue_.*said)() && !catalogue_.failed()) {
    if (stop()) return false;
    client_.turn(turn_at_most);
  }
  if (catalogue_.failed()) failed_ = catalogue_.failed();
  return !failed_;
}

bool Download::choose_files() {
  const auto& entries = catalogue_.entries();
  const Shard shard = settings_.channel.sharded ? settings_.shard : Shard{};
  std::map<std::string, const Entry*> chosen;
  for (std::size_t i = shard.index; i < entries.size(); i += shard.count) {
    const auto name = file_name(catalogue_.prefix(), entries[i].key);
    if (!name) {
      fail(name.error().message);
      return false;
    }
    const auto [at, added] = chosen.emplace(*name, &entries[i]);
    if (!added && at->second->key != entries[i].key) {
      fail(at->second->key + " and " + entries[i].key + " would be the same file, " + *name);
      return false;
    }
    if (!added || fetched_.is_whole(folder_, *name, entries[i].size, entries[i].etag)) continue;
    File& file = files_.emplace_back();
    file.entry = &entries[i];
    file.name = *name;
    // Its name says whose bytes it holds, whatever listing they were fetched by.
    file.partial = partials_ / wire::sha256_hex(*name + "\n" + entries[i].etag);
    file.begin = file.planned = file.written =
        fetched_.begun(file.partial, *name, entries[i].size, entries[i].etag);
  }
  done_.files = chosen.size();
  done_.fetched = files_.size();
  // What an earlier listing had, and this one has no more.
  for (const auto& [name, file] : std::map(fetched_.files())) {
    if (chosen.contains(name)) continue;
    if (fetched_.is_whole(folder_, name, file.size, file.etag)) ::unlink((folder_ / name).c_str());
    fetched_.forget(name);
  }
  return true;
}

bool Download::enough_room() {
  std::uint64_t needed = 0;
  for (const auto& file : files_) needed += file.entry->size - file.begin;
  struct statvfs status {};
  if (::fstatvfs(disk_.get(), &status) != 0) return true;
  const std::uint64_t free = std::uint64_t{status.f_bavail} * status.f_frsize;
  if (needed <= free) return true;
  fail(wire::to_url(settings_.channel.source) + ": " + gigabytes(needed) +
       " are to be fetched, and " + folder_.string() + " has room for " + gigabytes(free));
  return false;
}

bool Download::open_file(File& file) {
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (file.begin == 0 ? O_TRUNC : 0);
  file.open = Descriptor(::open(file.partial.c_str(), flags, 0644));
  return file.open || fail_at(file, file.partial);
}

void Download::ask_for_checksum(File& file) {
  file.asks = true;
  s3::Request request{.method = "HEAD", .bucket = bucket(file), .key = file.entry->key};
  request.headers = {{"x-amz-checksum-mode", "ENABLED"}};
  client_.start(std::move(request), [this, &file](const s3::Outcome<s3::Answer>& answer) {
    if (!answer) return fail(answer.error().text());
    file.checksum = s3::checksum_of(*answer);
  });
}

void Download::fetch(File& file, std::size_t size) {
  Chunk& chunk = chunks_.emplace_back();
  chunk.file = &file;
  chunk.offset = file.planned;
  chunk.size = size;
  chunk.whole = size == 0;
  file.planned += size;
  if (size == 0) return;
  chunk.bytes.reset(new char[size]);  // without zeros in it
  used_ += size;
  s3::Request request{.bucket = bucket(file), .key = file.entry->key};
  request.into = {chunk.bytes.get(), size};
  request.offset = chunk.offset;
  request.etag = file.entry->etag;
  request.whole = size == file.entry->size;
  if (request.whole) request.headers = {{"x-amz-checksum-mode", "ENABLED"}};
  client_.start(std::move(request), [this, &chunk](const s3::Outcome<s3::Answer>& answer) {
    if (!answer) return fail(answer.error().text());
    chunk.whole = true;
    if (chunk.size == chunk.file->entry->size) chunk.file->checksum = s3::checksum_of(*answer);
  });
}

void Download::plan() {
  while (!failed_ && next_ < files_.size() &&
         client_.under_way() < client_.width() + client_.width() / 2 + 4) {
    File& file = files_[next_];
    const auto size = static_cast<std::size_t>(
        std::min<std::uint64_t>(s3::piece_bytes, file.entry->size - file.planned));
    if (used_ > 0 && used_ + size > settings_.budget) return;
    const bool first = file.planned == file.begin;
    if (first && size < file.entry->size && file.entry->checksum) ask_for_checksum(file);
    fetch(file, size);
    if (file.planned == file.entry->size) ++next_;
  }
}

// What was there before is read again: the checksum is of the whole. A block at a time: the network
// and who wants to end this have their turn in between.
bool Download::digest_block(File& file) {
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

// False: the next bytes are not here yet, or it has failed.
bool Download::write_front() {
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
  done_.bytes += chunk.size;
  used_ -= chunk.size;
  partly_ = &file;
  chunks_.pop_front();
  return file.written < file.entry->size || finish(file);
}

bool Download::finish(File& file) {
  partly_ = nullptr;
  if (!file.digest->matches()) {
    const s3::Failure corrupt{
        .kind = s3::Failure::Kind::Corrupt, .bucket = bucket(file), .key = file.entry->key};
    fail(corrupt.text());
    ::unlink(file.partial.c_str());  // the next attempt is not to go on with it
    return false;
  }
  if (::ftruncate(file.open.get(), static_cast<off_t>(file.entry->size)) != 0)
    return fail_at(file, file.partial);
  file.open.reset();
  file.digest.reset();
  risked_.push_back(&file);
  return true;
}

// What was written becomes durable beside the network's work, then gets its name, then is noted.
void Download::begin_commit() {
  commit_.emplace();
  commit_->files = std::exchange(risked_, {});
  commit_->partly = partly_;
  if (partly_ != nullptr) commit_->written = partly_->written;
  at_risk_ = 0;
  risked_since_ = Clock::now();
  commit_->synced = std::async(std::launch::async,
                               [disk = disk_.get()] { return ::syncfs(disk) == 0 ? 0 : errno; });
}

bool Download::end_commit() {
  Commit done = std::move(*std::exchange(commit_, std::nullopt));
  errno = done.synced.get();
  if (errno != 0) return fail_at(folder_);
  for (const File* file : done.files) {
    const fs::path path = folder_ / file->name;
    if (auto made = io::make_directories(path.parent_path(), 0755); !made) {
      errno = made.error().value();
      return fail_at(*file, path.parent_path());
    }
    if (::rename(file->partial.c_str(), path.c_str()) != 0) return fail_at(*file, path);
    if (!fetched_.add_whole(folder_, file->name, file->entry->etag)) return fail_at(*file, path);
  }
  if (done.partly != nullptr) {
    fetched_.add_begun(done.partly->name, done.written, done.partly->entry->etag);
  }
  const auto kept = fetched_.keep();
  if (!kept) fail(kept.error().message);
  return kept.has_value();
}

// Whatever is due of these two.
void Download::note() {
  if (commit_) {
    const auto ready = commit_->synced.wait_for(std::chrono::seconds(0));
    if (ready == std::future_status::ready) (void)end_commit();
  } else if (at_risk_ >= bytes_at_risk ||
             (at_risk_ > 0 && Clock::now() - risked_since_ >= time_at_risk)) {
    begin_commit();
  }
}

bool Download::commit_all() {
  if (commit_ && !end_commit()) return false;
  begin_commit();
  return end_commit();
}

Result<Downloaded> Download::run(const std::function<bool()>& stop) {
  const auto failed = [this] { return failure(failed_.value_or("it was stopped")); };
  catalogue_.begin(client_);
  if (!wait_until(&Catalogue::complete, stop) || !choose_files()) return failed();
  for (const auto& folder : {folder_, partials_}) {
    if (auto made = io::make_directories(folder, 0755); !made) {
      return failure("channel " + settings_.channel.name + ": " + folder.string() + ": " +
                     made.error().message());
    }
  }
  disk_ = Descriptor(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!disk_ && !fail_at(folder_)) return failed();
  if (!enough_room()) return failed();
  while (!failed_ && (next_ < files_.size() || !chunks_.empty())) {
    if (stop()) {
      (void)commit_all();
      return failed();
    }
    plan();
    client_.turn(write_front() ? std::chrono::milliseconds(0) : turn_at_most);
    note();
    if (catalogue_.failed() && !failed_) failed_ = catalogue_.failed();
  }
  if (failed_ || !commit_all()) return failed();
  // What was fetched was listed in an earlier life, perhaps: S3 says whether it is still so.
  if (done_.fetched > 0 && !wait_until(&Catalogue::confirmed, stop)) return failed();
  std::error_code ignored;
  fs::remove_all(partials_, ignored);
  return done_;
}

}  // namespace

Result<Downloaded> download(const DownloadSettings& settings, const std::function<bool()>& stop) {
  if (!settings.state.empty()) {
    if (auto made = io::make_directories(settings.state, 0755); !made) {
      return failure("cannot make " + settings.state.string() + ": " + made.error().message());
    }
  }
  auto fetched = Fetched::open(Download::state_file(settings, ".files"));
  if (!fetched) return tl::unexpected(fetched.error());
  return Download(settings, std::move(*fetched)).run(stop);
}

}  // namespace spotter::data
