#include "trainer/library/transfer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <future>
#include <set>

#include "agent/aws/s3/objects.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::bucket {
namespace {

// Limits of what is under way at once; a larger file goes alone, or as the last of its batch.
constexpr std::size_t most_files_at_once = 256;
constexpr std::size_t most_open_at_once = 64;
constexpr std::uint64_t most_bytes_at_once = std::uint64_t{1} << 30;  // mapped
constexpr std::uint64_t most_bytes_held = 64U << 20;
constexpr std::size_t read_whole = 4U << 20;       // what is larger is mapped
constexpr std::size_t summed_at_once = 64U << 20;  // before it is asked whether to stop

constexpr std::int64_t second = 1'000'000'000;  // in ns

tl::unexpected<Error> wrong(const std::string& path, const std::string& what) {
  return failure(path + " " + what);
}

constexpr std::size_t piece_bytes = 8U << 20;
constexpr std::size_t fetched_at_once = 64U << 20;  // in memory of ours, received or not
constexpr std::size_t pieces_at_once = 256;

using Fetched = std::span<const Files::value_type* const>;

struct Piece {  // a range of a file
  std::size_t file = 0;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
};

struct Asked {
  Piece piece;
  std::string own;         // its bytes, where the receiver has no memory for them
  std::span<char> memory;  // the receiver's
  std::optional<Error> torn;
  s3::Client::CallId call = 0;
  bool is_here = false;

  std::span<char> bytes() { return memory.empty() ? std::span<char>(own) : memory; }
};

// Torn means that the content in S3 is wrong, and not S3 itself.
bool is_torn(const s3::Failure& why) {
  using Kind = s3::Failure::Kind;
  constexpr int range_beyond_the_end = 416;
  return why.kind == Kind::NoSuchKey || why.kind == Kind::Changed || why.kind == Kind::Corrupt ||
         why.status == range_beyond_the_end;
}

// Restores a file's time: the order in which a framework wrote may show in the times alone.
bool date(const checkpoint::Descriptor& opened, std::int64_t mtime_ns) {
  timespec time{mtime_ns / second, mtime_ns % second};
  if (time.tv_nsec < 0) time = {time.tv_sec - 1, time.tv_nsec + second};
  const timespec times[2] = {time, time};
  return ::futimens(opened.get(), times) == 0;
}

// A file that is received, from its beginning to its end.
class Arriving {
 public:
  static Result<Arriving> begin(std::size_t number, const Files::value_type& file,
                                const Receiver& receiver) {
    Arriving arriving(file);
    if (!receiver.make) return arriving;
    arriving.opened_ = TRY(receiver.make(number));
    return arriving;
  }

  Result<void> add(std::string_view bytes) {
    sum_->add(bytes);
    while (opened_ && !bytes.empty()) {
      const ssize_t written = ::write(opened_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return checkpoint::write_failure("cannot write", file_.first, opened_.get());
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
  }
  void tear(Error why) {
    if (!torn_) torn_ = std::move(why);
  }
  Result<void> verified() const {
    if (torn_) return tl::unexpected(*torn_);
    if (sum_->hex() != file_.second.sum)
      return failure(file_.first + " has a wrong sum in the bucket", torn);
    return {};
  }
  Result<void> date() const {
    if (!opened_ || bucket::date(opened_, file_.second.mtime_ns)) return {};
    return checkpoint::system_failure("cannot date", file_.first);
  }

 private:
  explicit Arriving(const Files::value_type& file) : file_(file) {}

  const Files::value_type& file_;
  checkpoint::Descriptor opened_;
  std::unique_ptr<checkpoint::Sum> sum_ = std::make_unique<checkpoint::Sum>();
  std::optional<Error> torn_;
};

// Asks for so many pieces at once as there is memory for. Summing and writing them, in their order,
// takes as long as receiving does, and is done meanwhile.
class Reception {
 public:
  Reception(Bucket& bucket, Fetched files, const Receiver& receiver)
      : bucket_(bucket), files_(files), receiver_(receiver) {}
  ~Reception() {
    for (const Asked& each : asked_)
      if (each.call != 0) bucket_.client().drop(each.call);
    if (writing_.valid()) writing_.wait();
  }
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  Result<void> run() {
    while (next_.file < files_.size() || !asked_.empty() || writing_.valid()) {
      if (failure_) return failed(*failure_);
      while (next_.file < files_.size() && has_room()) ask();
      const bool idle = bucket_.client().under_way() == 0;
      const auto now = std::chrono::seconds(0);
      if (writing_.valid() && (idle || writing_.wait_for(now) != std::future_status::timeout)) {
        TRY(writing_.get());
        for (const Asked& each : here_) bytes_ -= each.own.size();
        here_.clear();
      }
      if (!writing_.valid()) write_what_is_here();
      const bool waits = !asked_.empty() && asked_.front().is_here;  // for what is being written
      if (!idle) bucket_.client().turn(std::chrono::milliseconds(waits ? 5 : 1000));
    }
    return {};
  }

 private:
  std::uint64_t size() const { return files_[next_.file]->second.bytes; }
  std::size_t next_bytes() const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, size() - next_.offset));
  }
  bool has_room() const {
    return bytes_ + next_bytes() <= fetched_at_once &&
           asked_.size() + here_.size() < pieces_at_once;
  }
  void ask() {
    const auto& [path, file] = *files_[next_.file];
    Asked& asked = asked_.emplace_back();
    const bool is_torn_file = torn_.contains(next_.file);  // its rest is one piece, of no bytes
    asked.piece = {next_.file, next_.offset,
                   is_torn_file ? file.bytes - next_.offset : next_bytes()};
    next_.offset += asked.piece.bytes;
    if (next_.offset == file.bytes) next_ = {next_.file + 1, 0, 0};
    asked.is_here = asked.piece.bytes == 0 || is_torn_file;
    if (asked.is_here) return;
    if (receiver_.make)
      asked.own.resize(asked.piece.bytes);
    else
      asked.memory =
          receiver_.memory(asked.piece.file).subspan(asked.piece.offset, asked.piece.bytes);
    bytes_ += asked.own.size();
    const wire::S3Location where = bucket_.where(key_of(*files_[asked.piece.file]));
    s3::Request request{.bucket = where.bucket, .key = where.key};
    request.into = asked.bytes();
    request.offset = asked.piece.offset;
    asked.call = bucket_.client().start(std::move(request), [this, &asked](const auto& answer) {
      asked.call = 0;
      asked.is_here = answer || is_torn(answer.error());
      if (!asked.is_here && !failure_) failure_ = answer.error();
      if (!asked.is_here) return;
      const auto& [path, file] = *files_[asked.piece.file];
      const auto range =
          answer ? wire::parse_content_range(answer->header("content-range")) : std::nullopt;
      if (answer && (!range || range->total == file.bytes)) return;
      asked.torn = answer ? Error{path + " has another size in the bucket", torn}
                          : Error{answer.error().text(), torn};
      torn_.insert(asked.piece.file);
    });
  }

  void write_what_is_here() {
    for (; !asked_.empty() && asked_.front().is_here; asked_.pop_front())
      here_.push_back(std::move(asked_.front()));
    if (here_.empty()) return;
    writing_ = std::async([this]() -> Result<void> {
      for (Asked& each : here_) TRY(write(each));
      return {};
    });
  }

  Result<void> write(Asked& asked) {
    const Piece& piece = asked.piece;
    const Files::value_type& file = *files_[piece.file];
    if (piece.offset == 0) {
      now_.emplace(TRY(Arriving::begin(piece.file, file, receiver_)));
    }
    if (asked.torn) {
      now_->tear(*std::move(asked.torn));
    } else {
      const auto bytes = asked.bytes();
      if (receiver_.received) receiver_.received(bytes.size());
      TRY(now_->add({bytes.data(), bytes.size()}));
    }
    if (piece.offset + piece.bytes < file.second.bytes) return {};
    const auto verified = now_->verified();
    auto dated = verified ? now_->date() : Result<void>();
    now_.reset();
    return dated ? receiver_.ended(piece.file, verified) : dated;
  }

  Bucket& bucket_;
  Fetched files_;
  const Receiver& receiver_;
  Piece next_;
  std::deque<Asked> asked_;
  std::vector<Asked> here_;  // being written, as their bytes stay in memory
  std::future<Result<void>> writing_;
  std::optional<Arriving> now_;  // of what writes
  std::size_t bytes_ = 0;        // of both, in memory of ours
  std::set<std::size_t> torn_;   // files: no more is asked of them
  std::optional<s3::Failure> failure_;
};

}  // namespace

// A file's bytes, as they were when it was opened: what is appended later is not of it.
class Sender::Content {
 public:
  Content() = default;
  Content(const Content&) = delete;
  Content& operator=(const Content&) = delete;
  ~Content() {
    if (data_ != nullptr) ::munmap(data_, mapped_);
  }

  Result<void> take(checkpoint::Descriptor file, const Wanted& wanted) {
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return wrong(wanted.path, "cannot be read: " + words());
    mtime_ns_ = mtime_of(status);
    if (wanted.content) {
      text_ = *wanted.content;
      return {};
    }
    file_ = std::move(file);
    const auto bytes = static_cast<std::size_t>(status.st_size);
    return bytes > read_whole ? map(bytes, wanted) : read(bytes, wanted);
  }

  std::string_view bytes() const {
    return data_ == nullptr ? std::string_view(text_)
                            : std::string_view(static_cast<const char*>(data_), mapped_);
  }
  std::size_t held() const { return text_.size(); }
  std::int64_t mtime_ns() const { return mtime_ns_; }
  // A mapped file may have been written to; a log that only grew still has the same bytes.
  bool still_has(const std::string& sum) const {
    if (data_ == nullptr) return true;
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0) return false;
    const auto size = static_cast<std::size_t>(status.st_size);
    if (mtime_of(status) == mtime_ns_ && size == mapped_) return true;
    return size >= mapped_ && checkpoint::sum_of(bytes()) == sum;
  }

 private:
  static std::string words() { return std::strerror(errno); }
  static std::int64_t mtime_of(const struct stat& status) {
#ifdef __APPLE__
    const timespec& at = status.st_mtimespec;
#else
    const timespec& at = status.st_mtim;
#endif
    return at.tv_sec * second + at.tv_nsec;
  }
  Result<void> map(std::size_t bytes, const Wanted& wanted) {
    void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_.get(), 0);
    if (data == MAP_FAILED) return wrong(wanted.path, "cannot be mapped: " + words());
    data_ = data;
    mapped_ = bytes;
    return {};
  }
  Result<void> read(std::size_t bytes, const Wanted& wanted) {
    text_.resize(bytes);
    for (std::size_t got = 0; got < bytes;) {
      const ssize_t more =
          ::pread(file_.get(), text_.data() + got, bytes - got, static_cast<off_t>(got));
      if (more < 0 && errno == EINTR) continue;
      if (more < 0) return wrong(wanted.path, "cannot be read: " + words());
      if (more == 0) return wrong(wanted.path, "became shorter while it was read");
      got += static_cast<std::size_t>(more);
    }
    file_ = {};
    return {};
  }

  checkpoint::Descriptor file_;
  std::string text_;
  void* data_ = nullptr;
  std::size_t mapped_ = 0;
  std::int64_t mtime_ns_ = 0;
};

void Sender::add_known(const Files& files) {
  for (const auto& [path, file] : files) known_.emplace(std::pair(file.sum, file.bytes), file);
}

Result<std::unique_ptr<Sender::Content>> Sender::open(const Wanted& wanted) const {
  auto content = std::make_unique<Content>();
  auto file = open_(wanted.from);
  // A copy beside it that is gone: its own file, then.
  if (!file && wanted.from != wanted.path) file = open_(wanted.path);
  if (!file) return wrong(wanted.path, "cannot be read: " + file.error().message());
  TRY(content->take(*std::move(file), wanted));
  return content;
}

Result<Files> Sender::send(const std::vector<Wanted>& files, const std::atomic<bool>* stop) {
  for (const Wanted& wanted : files)  // before any is sent: their manifest could not be read
    if (!is_path(wanted.path))
      return failure(wanted.path + ": no copy in a bucket can have this name");
  Files done;
  std::vector<OnItsWay> under_way;
  std::uint64_t bytes = 0, held = 0, open = 0;
  const auto flush = [&]() -> Result<void> {
    TRY(send_together(under_way, stop));
    for (OnItsWay& each : under_way) done[each.wanted->path] = std::move(each.file);
    under_way.clear();
    bytes = held = open = 0;
    return {};
  };
  for (const Wanted& wanted : files) {
    auto content = TRY(this->open(wanted));
    const std::string_view all = content->bytes();
    File file{all.size(), content->mtime_ns(),
              wanted.sum.empty() ? checkpoint::sum_of(all) : wanted.sum, group_};
    const auto known = known_.find({file.sum, file.bytes});
    if (known != known_.end() && !group_.empty()) {
      file.group = known->second.group;
      done[wanted.path] = std::move(file);
      continue;
    }
    bytes += file.bytes;
    held += content->held();
    if (content->held() == 0) ++open;
    under_way.push_back({&wanted, std::move(content), std::move(file)});
    const bool full = under_way.size() >= most_files_at_once || bytes >= most_bytes_at_once ||
                      held >= most_bytes_held || open >= most_open_at_once;
    if (!full) continue;
    TRY(flush());
  }
  TRY(flush());
  return done;
}

Result<void> Sender::send_together(const std::vector<OnItsWay>& files,
                                   const std::atomic<bool>* stop) {
  std::vector<s3::NewObject> objects;
  std::set<std::string> keys;  // of files with the same bytes one goes
  for (const OnItsWay& each : files) {
    const std::string key = key_of({each.wanted->path, each.file});
    if ((each.file.bytes > 0 || group_.empty()) && keys.insert(key).second)
      objects.push_back({bucket_.where(key), each.content->bytes()});
  }
  // A file that is not as it was recorded is found while it is sent: nothing names it before the
  // manifest, which is written last.
  std::atomic<bool> ends = false;
  const auto stopped = [&] { return ends || (stop != nullptr && *stop); };
  auto compared = std::async([&]() -> const OnItsWay* {
    for (const OnItsWay& each : files) {
      if (each.wanted->sum.empty()) continue;  // it was taken to name the file
      checkpoint::Sum sum;
      for (auto left = each.content->bytes(); !left.empty();) {
        if (stopped()) return nullptr;
        sum.add(left.substr(0, summed_at_once));
        left.remove_prefix(std::min(left.size(), summed_at_once));
      }
      if (sum.hex() == each.file.sum) continue;
      ends = true;
      return &each;
    }
    return nullptr;
  });
  const auto sent = s3::upload(bucket_.client(), objects, stopped);
  if (!sent) ends = true;
  if (const OnItsWay* other = compared.get())
    return wrong(other->wanted->path, "is not what was recorded");
  if (!sent) return failed(sent.error());
  for (const s3::NewObject& object : objects) sent_ += object.bytes.size();
  for (const OnItsWay& each : files) {
    if (!each.content->still_has(each.file.sum))
      return wrong(each.wanted->path, "was changed while it was copied");
    known_.emplace(std::pair(each.file.sum, each.file.bytes), each.file);
  }
  return {};
}

Result<void> fetch(Bucket& bucket, Fetched files, const Receiver& receiver) {
  return Reception(bucket, files, receiver).run();
}

}  // namespace spotter::bucket
