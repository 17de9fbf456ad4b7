#include "agent/config/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace spotter::config {
namespace {

Result<SmallFile> read_open(int file, std::size_t limit) {
  struct stat status {};
  if (fstat(file, &status) != 0) return failure(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return failure("not a regular file");
  SmallFile read_file{.content = std::string(limit + 1, '\0'), .mode = status.st_mode};
  std::size_t size = 0;
  while (size < read_file.content.size()) {
    const ssize_t got = read(file, read_file.content.data() + size, limit + 1 - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(std::strerror(errno));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > limit) return failure("larger than " + std::to_string(limit / 1024) + " KiB");
  read_file.content.resize(size);
  return read_file;
}

}  // namespace

Result<SmallFile> read_small_file(const std::string& path, std::size_t limit) {
  // O_NONBLOCK: opening a FIFO by mistake must not wait for its writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return failure(std::strerror(errno));
  auto read_file = read_open(file, limit);
  close(file);
  return read_file;
}

}  // namespace spotter::config
