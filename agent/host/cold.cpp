#include "agent/host/cold.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <span>

#include "trainer/library/bulk.hpp"

namespace spotter::act::host {
namespace {

constexpr std::uint64_t piece = 256U << 10;  // the largest request that EBS counts as one
constexpr std::size_t opened_at_once = 256;  // well below the limit of a process

struct Opened {
  io::Descriptor file{};
  std::uint64_t pieces = 0;
};

Opened open_cold(const io::SafeDirectory& folder, const std::string& name) {
  auto file = folder.file(name, O_RDONLY);
  struct stat status {};
  if (!file || ::fstat(file->get(), &status) != 0) return {};
  // Nothing is read ahead that another request asks for.
  ::posix_fadvise(file->get(), 0, 0, POSIX_FADV_RANDOM);
  const auto there = std::min<std::int64_t>(status.st_size, status.st_blocks * 512);
  return {*std::move(file), (static_cast<std::uint64_t>(there) + piece - 1) / piece};
}

std::uint64_t read_piece(const io::Descriptor& file, std::uint64_t index) {
  thread_local std::vector<char> memory(piece);
  const ssize_t got = ::pread(file.get(), memory.data(), piece, static_cast<off_t>(index * piece));
  return got > 0 ? static_cast<std::uint64_t>(got) : 0;
}

std::uint64_t read_together(const io::SafeDirectory& folder, std::span<const std::string> names) {
  std::vector<Opened> opened(names.size());
  const auto open = [&](std::size_t i) {
    opened[i] = open_cold(folder, names[i]);
    return Result<void>();
  };
  (void)checkpoint::run_parallel(names.size(), reads_at_once, open);
  std::vector<std::uint64_t> ends;  // of each file's pieces, in one row
  for (const Opened& it : opened) ends.push_back((ends.empty() ? 0 : ends.back()) + it.pieces);
  std::atomic<std::uint64_t> bytes{0};
  const auto read = [&](std::size_t i) {
    const Opened& it = opened[std::ranges::upper_bound(ends, i) - ends.begin()];
    bytes += read_piece(it.file, i - (ends[&it - opened.data()] - it.pieces));
    return Result<void>();
  };
  (void)checkpoint::run_parallel(ends.back(), reads_at_once, read);
  return bytes;
}

}  // namespace

std::uint64_t read_cold(const io::SafeDirectory& folder, const std::vector<std::string>& names) {
  std::uint64_t bytes = 0;
  for (auto left = std::span(names); !left.empty();) {
    const std::size_t some = std::min(opened_at_once, left.size());
    bytes += read_together(folder, left.first(some));
    left = left.subspan(some);
  }
  return bytes;
}

}  // namespace spotter::act::host
