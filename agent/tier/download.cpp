#include "agent/tier/download.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "agent/tier/store.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/manifest.hpp"
#include "trainer/library/trees.hpp"

namespace spotter::tier {
namespace {

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

// What S3 has, and not S3 itself, is wrong.
tl::unexpected<Refusal> refused(const s3::Failure& why) {
  using Kind = s3::Failure::Kind;
  constexpr int range_beyond_the_end = 416;
  const bool is_torn = why.kind == Kind::NoSuchKey || why.kind == Kind::Changed ||
                       why.kind == Kind::Corrupt || why.status == range_beyond_the_end;
  return is_torn ? torn(why.text()) : failed(why.text());
}

}  // namespace

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
  // What was taken and is not written yet.
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

}  // namespace spotter::tier
