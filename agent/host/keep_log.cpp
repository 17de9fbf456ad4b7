// The trainer's log on its way from this machine to the storage.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string_view>

#include "agent/host/share.hpp"
#include "agent/io/files.hpp"
#include "agent/io/safe_directory.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

// Synced and forgotten at once: what a process that is killed meanwhile leaves in both files.
constexpr off_t at_once = 4 << 20;

tl::unexpected<std::error_code> last_error() {
  return tl::unexpected<std::error_code>(std::error_code(errno, std::generic_category()));
}

class Log {
 public:
  Log(io::Descriptor local, io::Descriptor kept)
      : local_(std::move(local)), kept_(std::move(kept)) {}

  Result<off_t, std::error_code> size() const { return size_of(local_); }

  // The first byte that was not kept: before it are a hole and zeros. `end` if all were.
  Result<off_t, std::error_code> begin_of_rest(off_t end) const {
    off_t at = ::lseek(local_.get(), 0, SEEK_DATA);
    if (at < 0 && errno == ENXIO) return end;
    if (at < 0 && errno != EINVAL) return last_error();
    at = std::max<off_t>(at, 0);  // EINVAL: a file system that knows no holes
    while (at < end) {
      const auto bytes = read(at, end - at);
      if (!bytes) return tl::unexpected(bytes.error());
      if (bytes->empty()) return end;
      const auto first = bytes->find_first_not_of('\0');
      if (first != std::string_view::npos) return at + static_cast<off_t>(first);
      at += static_cast<off_t>(bytes->size());
    }
    return end;
  }

  // Durable, or, after a failure, not there.
  Result<void, std::error_code> append(off_t begin, off_t end) const {
    const auto before = size_of(kept_);
    if (!before) return tl::unexpected(before.error());
    const auto appended = append_after(*before, begin, end);
    // So the next attempt leaves no line twice.
    if (!appended) (void)!::ftruncate(kept_.get(), *before);
    return appended;
  }

  // The bytes before `end` become zeros, those from `begin` on were none. The file's end stays
  // where it is: a process that appends there at this moment loses nothing.
  Result<void, std::error_code> forget(off_t begin, off_t end) const {
    if (::fallocate(local_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, end) == 0)
      return {};
    if (errno != EOPNOTSUPP && errno != ENOSYS) return last_error();
    buffer_->fill('\0');
    while (begin < end) {
      const auto size = std::min(end - begin, static_cast<off_t>(buffer_->size()));
      const auto put =
          ::pwrite(local_.get(), buffer_->data(), static_cast<std::size_t>(size), begin);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return last_error();
      begin += put;
    }
    return {};
  }

 private:
  using Buffer = std::array<char, 65536>;

  static Result<off_t, std::error_code> size_of(const io::Descriptor& file) {
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return last_error();
    return status.st_size;
  }

  Result<std::string_view, std::error_code> read(off_t at, off_t most) const {
    const auto wanted = static_cast<std::size_t>(std::min<off_t>(most, sizeof(Buffer)));
    ssize_t got = 0;
    do got = ::pread(local_.get(), buffer_->data(), wanted, at);
    while (got < 0 && errno == EINTR);
    if (got < 0) return last_error();
    return std::string_view(buffer_->data(), static_cast<std::size_t>(got));
  }

  // A line without its end, which this log does not go on with: of a machine that lost its power.
  bool is_torn(off_t size, off_t begin) const {
    char last = '\n';
    const bool other = begin == 0 && size > 0;
    return other && ::pread(kept_.get(), &last, 1, size - 1) == 1 && last != '\n';
  }

  Result<void, std::error_code> append_after(off_t before, off_t begin, off_t end) const {
    if (is_torn(before, begin) && !io::write_all(kept_.get(), "\n")) return last_error();
    while (begin < end) {
      const auto bytes = read(begin, end - begin);
      if (!bytes) return tl::unexpected(bytes.error());
      if (bytes->empty()) break;
      if (!io::write_all(kept_.get(), *bytes)) return last_error();
      begin += static_cast<off_t>(bytes->size());
    }
    if (::fsync(kept_.get()) != 0) return last_error();
    return {};
  }

  io::Descriptor local_;
  io::Descriptor kept_;
  std::unique_ptr<Buffer> buffer_ = std::make_unique<Buffer>();
};

Result<io::Descriptor, std::error_code> open_in_folder(const fs::path& path, int flags) {
  const auto folder = io::SafeDirectory::open(path.parent_path());
  if (!folder) return tl::unexpected(folder.error());
  return folder->file(path.filename(), flags, 0644);
}

}  // namespace

Result<void> keep_log(const fs::path& local, const fs::path& kept,
                      std::optional<std::uint64_t> most) {
  auto from = open_in_folder(local, O_RDWR);
  if (!from && from.error() == std::errc::no_such_file_or_directory) return {};
  if (!from) return fail_errno(from.error(), "cannot open " + local.string());
  auto to = open_in_folder(kept, O_RDWR | O_APPEND | O_CREAT);
  if (!to) return fail_errno(to.error(), "cannot open " + kept.string());
  const Log log(*std::move(from), *std::move(to));
  // Bytes written from now on are the next call's: so this one ends.
  auto size = log.size();
  if (size && most) size = std::min(*size, static_cast<off_t>(*most));
  auto begin = size ? log.begin_of_rest(*size) : size;
  if (!begin) return fail_errno(begin.error(), "cannot read " + local.string());
  while (*begin < *size) {
    const off_t end = std::min(*size, *begin + at_once);
    if (const auto appended = log.append(*begin, end); !appended)
      return fail_errno(appended.error(), "cannot keep " + local.string() + " in " + kept.string());
    if (const auto forgotten = log.forget(*begin, end); !forgotten)
      return fail_errno(forgotten.error(), "cannot empty " + local.string());
    *begin = end;
  }
  return {};
}

}  // namespace spotter::act::host
