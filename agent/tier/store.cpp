#include "agent/tier/store.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <thread>

#include "agent/aws/s3/objects.hpp"
#include "agent/aws/s3/upload.hpp"
#include "agent/guard/record.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::tier {
namespace {

// The files of a folder on their way to S3. Internal to tier.
class Sender {
 public:
  // `to` is a key's beginning. REQUIRES: client and folder outlive this.
  Sender(s3::Client& client, const guard::SafeDirectory& folder, wire::S3Location to)
      : client_(client), folder_(folder), to_(std::move(to)) {}

  // Each file has the recorded size and time before it is sent and after it, and the recorded sum,
  // which is taken meanwhile; else this fails, and no manifest may name what was sent. Large files
  // as multipart uploads, several at once; a file that becomes shorter meanwhile is a SIGBUS.
  Result<void> send(const std::vector<guard::Part>& parts);

 private:
  Result<void> send_together(std::span<const guard::Part> parts);

  s3::Client& client_;
  const guard::SafeDirectory& folder_;
  wire::S3Location to_;
};

// Limits of what is mapped and under way at once; a larger file goes alone.
constexpr std::size_t most_mapped_files = 256;
constexpr std::uint64_t most_mapped_bytes = std::uint64_t{1} << 30;

tl::unexpected<Error> wrong(const guard::Part& part, const std::string& what) {
  return failure(part.name + " in it " + what);
}

// A file as it was recorded, mapped.
class Recorded {
 public:
  static Result<Recorded> open(const guard::SafeDirectory& folder, const guard::Part& part) {
    Recorded recorded(part);
    auto file = folder.file(part.name, O_RDONLY);
    if (!file) return wrong(part, "cannot be read: " + file.error().message());
    recorded.file_ = *std::move(file);
    if (!recorded.is_unchanged()) return wrong(part, "is not what was recorded");
    if (part.bytes > 0) {
      void* data = ::mmap(nullptr, part.bytes, PROT_READ, MAP_SHARED, recorded.file_.get(), 0);
      if (data == MAP_FAILED)
        return wrong(part, std::string("cannot be mapped: ") + std::strerror(errno));
      recorded.data_ = data;
    }
    return recorded;
  }
  Recorded(Recorded&& other) noexcept
      : part_(other.part_),
        file_(std::move(other.file_)),
        data_(std::exchange(other.data_, nullptr)) {}
  Recorded& operator=(Recorded&&) = delete;
  ~Recorded() {
    if (data_ != nullptr) ::munmap(data_, part_.bytes);
  }

  std::string_view bytes() const {
    return data_ == nullptr ? std::string_view()
                            : std::string_view(static_cast<char*>(data_), part_.bytes);
  }
  const guard::Part& part() const { return part_; }
  bool has_its_sum() const { return checkpoint::sum_of(bytes()) == part_.sum; }
  bool is_unchanged() const {
    struct stat status {};
    return ::fstat(file_.get(), &status) == 0 &&
           guard::found(part_.name, status) ==
               guard::Found{part_.name, part_.bytes, part_.mtime_ns};
  }

 private:
  explicit Recorded(const guard::Part& part) : part_(part) {}

  const guard::Part& part_;
  guard::Descriptor file_;
  void* data_ = nullptr;
};

Result<void> Sender::send(const std::vector<guard::Part>& parts) {
  for (std::size_t first = 0; first < parts.size();) {
    std::size_t count = 0;
    std::uint64_t bytes = 0;
    do {
      bytes += parts[first + count].bytes;
      ++count;
    } while (first + count < parts.size() && count < most_mapped_files &&
             bytes + parts[first + count].bytes <= most_mapped_bytes);
    if (auto sent = send_together(std::span(parts).subspan(first, count)); !sent) return sent;
    first += count;
  }
  return {};
}

Result<void> Sender::send_together(std::span<const guard::Part> parts) {
  std::vector<Recorded> files;
  std::vector<s3::NewObject> objects;
  files.reserve(parts.size());
  for (const guard::Part& part : parts) {
    auto file = Recorded::open(folder_, part);
    if (!file) return tl::unexpected(file.error());
    wire::S3Location location{to_.bucket, to_.key + part.name};
    if (location.key.size() > key_limit) return wrong(part, "has too long a name for S3");
    files.push_back(*std::move(file));
    objects.push_back({std::move(location), files.back().bytes(), {}});
  }
  // A file that is not as it was recorded is found while it is sent: nothing names it before the
  // manifest, which is written last.
  std::atomic<bool> stop = false;
  auto compared = std::async([&]() -> const Recorded* {
    for (const Recorded& file : files) {
      if (stop) return nullptr;
      if (file.has_its_sum()) continue;
      stop = true;
      return &file;
    }
    return nullptr;
  });
  const auto sent = s3::upload(client_, objects, &stop);
  if (!sent) stop = true;
  if (const Recorded* other = compared.get())
    return wrong(other->part(), "is not what was recorded");
  if (!sent) return failure(sent.error().text());
  for (const Recorded& file : files)
    if (!file.is_unchanged()) return wrong(file.part(), "was changed while it was copied");
  return {};
}

// A folder on its way from S3. Internal to tier.
class Download {
 public:
  using Done = Result<void, guard::Refusal>;

  // `from` is a key's beginning. REQUIRES: client and place outlive this.
  Download(s3::Client& client, const guard::Place& place, wire::S3Location from)
      : client_(client), place_(place), from_(std::move(from)) {}

  // Does what Store::fetch() promises.
  Done fetch(const Manifest& manifest);

 private:
  class File;
  class Writer;
  struct Piece {  // a range of a file
    std::size_t file;
    std::uint64_t offset;
    std::size_t bytes;
  };

  Done fetch_files(const Manifest& manifest, const std::filesystem::path& folder);
  Done receive(const std::vector<Piece>& pieces, const Manifest& manifest, Writer& writer);

  s3::Client& client_;
  const guard::Place& place_;
  wire::S3Location from_;
};

namespace fs = std::filesystem;
using guard::Refusal;

constexpr std::size_t piece_bytes = 8U << 20;
constexpr std::size_t bytes_at_once = 64U << 20;  // in memory, received or not
constexpr std::size_t pieces_at_once = 256;

tl::unexpected<Refusal> failed(std::string words) {
  return tl::unexpected(Refusal{Refusal::Why::Failed, std::move(words)});
}

tl::unexpected<Refusal> failed(const std::string& what, const fs::path& path, int code) {
  return failed(what + " " + path.string() + ": " + std::generic_category().message(code));
}

tl::unexpected<Refusal> torn(std::string words) {
  return tl::unexpected(Refusal{Refusal::Why::Torn, std::move(words)});
}

// Torn means that the content in S3 is wrong, and not S3 itself.
tl::unexpected<Refusal> refused(const s3::Failure& why) {
  using Kind = s3::Failure::Kind;
  constexpr int range_beyond_the_end = 416;
  const bool is_torn = why.kind == Kind::NoSuchKey || why.kind == Kind::Changed ||
                       why.kind == Kind::Corrupt || why.status == range_beyond_the_end;
  return is_torn ? torn(why.text()) : failed(why.text());
}

// Written from its beginning to its end.
class Download::File {
 public:
  static Result<File, Refusal> make(const guard::Part& part, const fs::path& path) {
    File file(part, path);
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) return failed("cannot make the folder of", path, error.value());
    constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    file.opened_ = guard::Descriptor(::open(path.c_str(), flags, 0666));
    if (!file.opened_) return failed("cannot make", path, errno);
    return file;
  }

  Done add(std::string_view bytes) {
    sum_->add(bytes);
    while (!bytes.empty()) {
      const ssize_t written = ::write(opened_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return failed("cannot write", path_, errno);
      bytes.remove_prefix(static_cast<std::size_t>(written));
      left_ -= static_cast<std::uint64_t>(written);
    }
    return {};
  }
  bool is_complete() const { return left_ == 0; }

  // With its time, as a framework's order of writing can be seen by the times alone.
  Done finish() {
    if (sum_->hex() != part_.sum) return torn(part_.name + " in it has a wrong sum");
    constexpr std::int64_t second = 1'000'000'000;
    timespec time{part_.mtime_ns / second, part_.mtime_ns % second};
    if (time.tv_nsec < 0) time = {time.tv_sec - 1, time.tv_nsec + second};
    const timespec times[2] = {time, time};
    if (::futimens(opened_.get(), times) != 0) return failed("cannot date", path_, errno);
    return {};
  }

 private:
  File(const guard::Part& part, fs::path path)
      : part_(part), path_(std::move(path)), left_(part.bytes) {}

  const guard::Part& part_;
  fs::path path_;
  guard::Descriptor opened_;
  std::unique_ptr<checkpoint::Sum> sum_ = std::make_unique<checkpoint::Sum>();
  std::uint64_t left_;
};

Download::Done Download::fetch(const Manifest& manifest) {
  const fs::path directory = place_.where().mount / place_.where().directory;
  const fs::path beside = directory / fetching_directory;
  const fs::path whole = directory / manifest.name;
  std::error_code error;
  fs::remove_all(beside, error);  // of a fetch that was interrupted
  if (error) return failed("cannot remove", beside, error.value());
  if (fs::exists(fs::symlink_status(whole, error)))
    return failed(whole.string() + " is there, and is no whole checkpoint: move it away");
  fs::create_directories(beside, error);
  if (error) return failed("cannot make", beside, error.value());
  auto done = fetch_files(manifest, beside / manifest.name);
  if (done) {
    const auto durable = checkpoint::make_durable(beside / manifest.name);
    if (!durable) done = failed(durable.error().message);
  }
  if (done && ::rename((beside / manifest.name).c_str(), whole.c_str()) != 0)
    done = failed("cannot make", whole, errno);
  if (done) {
    const auto opened = checkpoint::open_directory(directory);
    const auto synced = opened ? checkpoint::sync_directory(opened->get(), directory)
                               : tl::unexpected(opened.error());
    if (!synced) done = failed(synced.error().message);
  }
  fs::remove_all(beside, error);
  return done;
}

// Takes pieces in the order in which they are to be written, each once its bytes are here. Summing
// and writing take as long as receiving does: a thread of its own does them meanwhile.
class Download::Writer {
 public:
  Writer(const Manifest& manifest, const fs::path& folder)
      : manifest_(manifest), folder_(folder), files_(manifest.parts.size()) {
    thread_ = std::thread([this] { work(); });
  }
  ~Writer() {
    if (thread_.joinable()) (void)finish();
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void take(const Piece& piece, std::string bytes) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(piece, std::move(bytes));
    tell();
  }
  // The pieces that were taken and are not written yet.
  struct Held {
    std::size_t pieces = 0;
    std::size_t bytes = 0;
    bool failed = false;
  };
  Held held() const {
    const std::lock_guard lock(mutex_);
    return holds();
  }
  // Until something is written, or there is nothing to write.
  void wait() {
    std::unique_lock lock(mutex_);
    const Held before = holds();
    await(lock, [&] { return holds().pieces < before.pieces || before.pieces == 0; });
  }
  // All that was taken is written, unless something failed.
  Done finish() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      tell();
    }
    thread_.join();
    return done_;
  }

 private:
  // A condition variable, whose newest version older distributions lack.
  void tell() {  // REQUIRES: the mutex is held, as of the next two
    ++changes_;
    changes_.notify_all();
  }
  void await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& holds) {
    while (!holds()) {
      const unsigned before = changes_;
      lock.unlock();
      changes_.wait(before);
      lock.lock();
    }
  }
  Held holds() const {
    Held held{.pieces = waiting_.size(), .failed = !done_};
    for (const auto& [piece, bytes] : waiting_) held.bytes += bytes.size();
    return held;
  }
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      await(lock, [this] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      // It stays in the queue, as its bytes stay in memory.
      const auto& [piece, bytes] = waiting_.front();
      const bool goes_on = done_.has_value();
      lock.unlock();
      Done written = goes_on ? write(piece, bytes) : Done();
      lock.lock();
      if (!written) done_ = std::move(written);
      waiting_.pop_front();
      tell();
    }
  }
  Done write(const Piece& piece, std::string_view bytes) {
    const guard::Part& part = manifest_.parts[piece.file];
    std::optional<File>& file = files_[piece.file];
    if (piece.offset == 0) {
      auto made = File::make(part, folder_ / part.name);
      if (!made) return tl::unexpected(made.error());
      file.emplace(*std::move(made));
    }
    if (auto added = file->add(bytes); !added) return added;
    if (!file->is_complete()) return {};
    auto finished = file->finish();
    file.reset();
    return finished;
  }

  const Manifest& manifest_;
  const fs::path& folder_;
  std::vector<std::optional<File>> files_;  // of the thread alone
  mutable std::mutex mutex_;
  std::atomic<unsigned> changes_ = 0;
  std::deque<std::pair<Piece, std::string>> waiting_;
  Done done_;
  bool ends_ = false;
  std::thread thread_;
};

Download::Done Download::fetch_files(const Manifest& manifest, const fs::path& folder) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < manifest.parts.size(); ++i) {
    const std::uint64_t size = manifest.parts[i].bytes;
    std::uint64_t offset = 0;
    do {
      const auto next =
          static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, size - offset));
      pieces.push_back({i, offset, next});
      offset += next;
    } while (offset < size);
  }
  Writer writer(manifest, folder);
  auto received = receive(pieces, manifest, writer);
  auto written = writer.finish();
  return written ? received : written;
}

// Asks for so many pieces at once as there is memory for, and hands them on in their order.
Download::Done Download::receive(const std::vector<Piece>& pieces, const Manifest& manifest,
                                 Writer& writer) {
  struct Asked {
    std::string bytes;
    s3::Client::CallId call = 0;
    bool is_here = false;
  };
  std::deque<Asked> asked;  // the first is of pieces[given]
  std::optional<s3::Failure> failure;
  std::size_t given = 0, bytes_asked = 0;
  const auto ask = [&](const Piece& piece) {
    Asked& next = asked.emplace_back(Asked{.bytes = std::string(piece.bytes, '\0')});
    next.is_here = piece.bytes == 0;
    if (next.is_here) return;
    bytes_asked += piece.bytes;
    s3::Request request{.bucket = from_.bucket, .key = from_.key + manifest.parts[piece.file].name};
    request.into = std::span(next.bytes);
    request.offset = piece.offset;
    next.call = client_.start(std::move(request), [&failure, &next](const auto& answer) {
      next.is_here = answer.has_value();
      next.call = 0;
      if (!answer && !failure) failure = answer.error();
    });
  };
  while (given < pieces.size() && !failure) {
    const Writer::Held held = writer.held();
    if (held.failed) break;  // finish() says why
    while (given + asked.size() < pieces.size()) {
      const Piece& next = pieces[given + asked.size()];
      const bool is_full = bytes_asked + held.bytes + next.bytes > bytes_at_once ||
                           asked.size() + held.pieces >= pieces_at_once;
      if (is_full) break;
      ask(next);
    }
    if (asked.empty()) {
      writer.wait();
      continue;
    }
    if (!asked.front().is_here) client_.turn(std::chrono::seconds(1));
    for (; !asked.empty() && asked.front().is_here; asked.pop_front(), ++given) {
      bytes_asked -= pieces[given].bytes;
      writer.take(pieces[given], std::move(asked.front().bytes));
    }
  }
  for (const Asked& each : asked)
    if (each.call != 0) client_.drop(each.call);
  return failure ? Done(refused(*failure)) : Done();
}

constexpr const char* manifest_name = "manifest.json";
constexpr const char* files_folder = "files/";

tl::unexpected<Error> failed(const s3::Failure& why) { return failure(why.text()); }

}  // namespace

std::string Store::key_of(const Group& group, const std::string& name) const {
  return prefix_.key + group.first + "/" + group.second + "/" + name;
}

std::string Store::shown(const Manifest& manifest) const {
  return wire::to_url(at(prefix_.key + manifest.name));
}

Result<Store::Groups> Store::groups() {
  const auto all = s3::list(client_, prefix_);
  if (!all) return failed(all.error());
  Groups groups;
  for (const auto& object : *all) {
    const std::string path = object.key.substr(prefix_.key.size());
    const auto slash = path.find('/');
    const auto second = slash == path.npos ? slash : path.find('/', slash + 1);
    if (second == path.npos) continue;
    const Group group{path.substr(0, slash), path.substr(slash + 1, second - slash - 1)};
    if (is_folder_name(group.first) && checkpoint::is_sum(group.second))
      groups[group].push_back(object.key);
  }
  return groups;
}

Result<Stored> Store::stored() {
  const auto all = groups();
  return all ? stored(*all) : tl::unexpected(all.error());
}

Result<Stored> Store::stored(const Groups& groups) {
  Stored stored;
  for (const auto& [group, keys] : groups) {
    const auto where = at(key_of(group, manifest_name));
    if (std::ranges::find(keys, where.key) == keys.end()) continue;
    const auto bytes = s3::read(client_, where);
    if (!bytes && bytes.error().kind == s3::Failure::Kind::NoSuchKey) continue;
    if (!bytes) return failed(bytes.error());
    auto manifest = decode(bytes->bytes);
    const std::string shown = wire::to_url(where);
    if (!manifest && wire::is_newer(manifest.error()))
      return failure(shown + ": " + manifest.error().message, wire::newer_format);
    const bool fits = manifest && manifest->name == group.first && manifest->sum() == group.second;
    if (!fits) {
      stored.torn.push_back(shown + ": " +
                            (manifest ? "it is of another folder" : manifest.error().message));
    } else if (manifest->job != job_) {
      return failure(shown + " is a checkpoint of the job '" + manifest->job +
                     "': give this one a place of its own in checkpoints.s3");
    } else {
      stored.whole.push_back(*std::move(manifest));
    }
  }
  std::ranges::sort(stored.whole, std::greater(), &Manifest::order);
  return stored;
}

Result<void> Store::copy(const guard::Place& place, const Manifest& manifest) {
  const Group group{manifest.name, manifest.sum()};
  const std::string text = encode(manifest);
  if (!decode(text)) return failure("its names or sizes are such as the tier does not take");
  const auto before = stored();
  if (!before) return tl::unexpected(before.error());
  const bool there = std::ranges::any_of(before->whole, [&group](const Manifest& other) {
    return other.name == group.first && other.sum() == group.second;
  });
  if (there) return {};
  const auto folder = place.folder(manifest.name);
  if (!folder) return failure("it cannot be read: " + folder.error().message());
  Sender sender(client_, *folder, at(key_of(group, files_folder)));
  if (auto sent = sender.send(manifest.parts); !sent) return sent;
  const auto committed = s3::put(client_, at(key_of(group, manifest_name)), text, {.absent = true});
  if (!committed && committed.error().kind != s3::Failure::Kind::Exists)
    return failed(committed.error());
  remove_older(manifest);
  return {};
}

// Failures are ignored until the next copy. A folder without a manifest is what is left of an
// interrupted copy: the one of a later step may be under way.
void Store::remove_older(const Manifest& written) {
  const auto all = groups();
  const auto kept = all ? stored(*all) : tl::unexpected(all.error());
  if (!kept) return;
  std::set<Group> spared, whole;
  for (const Manifest& manifest : kept->whole) {
    const Group group{manifest.name, manifest.sum()};
    whole.insert(group);
    if (spared.size() < kept_in_s3) spared.insert(group);
  }
  spared.insert({written.name, written.sum()});  // also where newer ones are there
  for (const auto& [group, keys] : *all) {
    if (spared.contains(group)) continue;
    const bool has_manifest = std::ranges::find(keys, key_of(group, manifest_name)) != keys.end();
    if (has_manifest && !whole.contains(group)) continue;  // a damaged one: a person's to remove
    const auto step = guard::step_in(group.first);
    if (has_manifest || !step || *step <= written.step) remove(group, keys);
  }
}

// The manifest first, as it was written last.
void Store::remove(const Group& group, const std::vector<std::string>& keys) {
  if (!s3::remove(client_, at(key_of(group, manifest_name)))) return;
  for (const std::string& key : keys) (void)s3::remove(client_, at(key));
}

Result<void, guard::Refusal> Store::fetch(const guard::Place& place, const Manifest& manifest) {
  const Group group{manifest.name, manifest.sum()};
  Download download(client_, place, at(key_of(group, files_folder)));
  return download.fetch(manifest);
}

}  // namespace spotter::tier
