#include "agent/follow/growing_file.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace spotter::follow {
namespace {

// By these at both ends of what was read a file is known that was written over meanwhile.
constexpr std::size_t compared_bytes = 4096;

std::string read_at(const io::Descriptor& file, std::uint64_t at, std::size_t most) {
  std::string bytes(most, '\0');
  std::size_t size = 0;
  while (size < most) {
    const ssize_t got =
        ::pread(file.get(), bytes.data() + size, most - size, static_cast<off_t>(at + size));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    size += static_cast<std::size_t>(got);
  }
  bytes.resize(size);
  return bytes;
}

bool is_pattern(const std::string& path) { return path.find_first_of("*?[") != path.npos; }

}  // namespace

std::string GrowingFile::newest() const {
  if (!is_pattern(pattern_)) return pattern_;
  glob_t found{};
  std::string newest;
  timespec changed{};
  if (::glob(pattern_.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      struct stat status {};
      if (::stat(found.gl_pathv[i], &status) != 0 || !S_ISREG(status.st_mode)) continue;
      const auto later = std::pair(status.st_mtim.tv_sec, status.st_mtim.tv_nsec) >=
                         std::pair(changed.tv_sec, changed.tv_nsec);
      if (!newest.empty() && !later) continue;
      newest = found.gl_pathv[i];
      changed = status.st_mtim;
    }
  }
  ::globfree(&found);
  return newest;
}

// Nothing is kept open between two looks: a server of files shows others' changes to who opens.
io::Descriptor GrowingFile::open(Identity& identity, std::uint64_t& bytes) const {
  const std::string path = newest();
  if (path.empty()) return io::Descriptor();
  io::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return io::Descriptor();
  identity = {status.st_dev, status.st_ino};
  bytes = static_cast<std::uint64_t>(status.st_size);
  return file;
}

bool GrowingFile::is_same(const io::Descriptor& file) const {
  return read_at(file, 0, head_.size()) == head_ &&
         read_at(file, at_ - tail_.size(), tail_.size()) == tail_;
}

GrowingFile::News GrowingFile::look() {
  News news;
  Identity identity;
  std::uint64_t bytes = 0;
  const io::Descriptor file = open(identity, bytes);
  if (!file) return news;
  news.there = true;
  if (!begun_ || identity != identity_ || bytes < at_ || !is_same(file)) {
    news.begins = true;
    begun_ = true;
    identity_ = identity;
    at_ = 0;
    dropped_ = false;
    for (std::string* each : {&head_, &tail_, &partial_}) each->clear();
  }
  const std::string piece = read_at(file, at_, most_bytes_a_look);
  news.more = piece.size() == most_bytes_a_look;
  head_ += piece.substr(0, compared_bytes - std::min(head_.size(), compared_bytes));
  tail_ += piece;
  if (tail_.size() > compared_bytes) tail_.erase(0, tail_.size() - compared_bytes);
  // When the machine is lost the rows before a checkpoint must not be: the trainer does not write
  // these again. (Where there is a guard it syncs them, too, before it records one.) On failure
  // they are only as durable as they were.
  if (!piece.empty()) (void)::fdatasync(file.get());
  take(piece, news);
  return news;
}

void GrowingFile::take(std::string_view piece, News& news) {
  at_ += piece.size();
  while (!piece.empty()) {
    const auto newline = piece.find('\n');
    const auto part = piece.substr(0, newline);
    dropped_ = dropped_ || partial_.size() + part.size() > longest_;
    if (dropped_)
      partial_.clear();
    else
      partial_ += part;
    if (newline == piece.npos) return;
    piece.remove_prefix(newline + 1);
    if (!dropped_) news.lines.push_back(std::move(partial_));
    partial_.clear();
    dropped_ = false;
  }
}

}  // namespace spotter::follow
