#include "agent/tier/download.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <system_error>

#include "agent/tier/store.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::tier {
namespace {

namespace fs = std::filesystem;
using guard::Refusal;

constexpr std::size_t piece_bytes = 8U << 20;
constexpr std::size_t bytes_at_once = 64U << 20;  // in memory
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

Download::Done Download::fetch_files(const Manifest& manifest, const fs::path& folder) {
  std::vector<std::optional<File>> files(manifest.parts.size());
  std::vector<Piece> pieces;
  std::size_t bytes = 0;
  const auto flush = [&] {
    auto done = fetch_pieces(pieces, files, manifest, folder);
    pieces.clear();
    bytes = 0;
    return done;
  };
  for (std::size_t i = 0; i < manifest.parts.size(); ++i) {
    const std::uint64_t size = manifest.parts[i].bytes;
    std::uint64_t offset = 0;
    do {
      const auto next =
          static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, size - offset));
      pieces.push_back({i, offset, next});
      offset += next;
      bytes += next;
      const bool full = bytes + piece_bytes > bytes_at_once || pieces.size() >= pieces_at_once;
      if (!full) continue;
      if (auto done = flush(); !done) return done;
    } while (offset < size);
  }
  return flush();
}

Download::Done Download::fetch_pieces(const std::vector<Piece>& pieces,
                                      std::vector<std::optional<File>>& files,
                                      const Manifest& manifest, const fs::path& folder) {
  std::string buffer;
  if (auto asked = ask(pieces, manifest, buffer); !asked) return asked;
  std::string_view rest = buffer;
  for (const Piece& piece : pieces) {
    const guard::Part& part = manifest.parts[piece.file];
    std::optional<File>& file = files[piece.file];
    if (piece.offset == 0) {
      auto made = File::make(part, folder / part.name);
      if (!made) return tl::unexpected(made.error());
      file.emplace(*std::move(made));
    }
    if (auto added = file->add(rest.substr(0, piece.bytes)); !added) return added;
    rest.remove_prefix(piece.bytes);
    if (!file->is_complete()) continue;
    if (auto finished = file->finish(); !finished) return finished;
    file.reset();
  }
  return {};
}

Download::Done Download::ask(const std::vector<Piece>& pieces, const Manifest& manifest,
                             std::string& buffer) {
  std::size_t all = 0;
  for (const Piece& piece : pieces) all += piece.bytes;
  buffer.resize(all);
  std::optional<s3::Failure> failure;
  std::vector<s3::Client::CallId> calls;
  std::size_t open = 0;
  std::size_t at = 0;
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0) continue;
    s3::Request request{.bucket = from_.bucket, .key = from_.key + manifest.parts[piece.file].name};
    request.into = std::span(buffer).subspan(at, piece.bytes);
    request.offset = piece.offset;
    at += piece.bytes;
    ++open;
    calls.push_back(client_.start(std::move(request), [&](const auto& answer) {
      --open;
      if (!answer && !failure) failure = answer.error();
    }));
  }
  while (open > 0 && !failure) client_.turn(std::chrono::seconds(1));
  for (const auto call : calls) client_.drop(call);
  return failure ? Done(refused(*failure)) : Done();
}

}  // namespace spotter::tier
