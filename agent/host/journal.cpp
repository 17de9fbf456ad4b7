#include "agent/host/journal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "agent/host/own.hpp"
#include "agent/io/write_all.hpp"
#include "agent/wire/history.hpp"

namespace spotter::act::host {
namespace {

constexpr off_t journal_limit = 8 << 20;
constexpr std::uint64_t looked_back = 64U << 10;

// What cannot be read does not: then there is an empty line.
bool ends_a_line(const io::Beneath& own, const std::string& name, off_t size) {
  const auto file = own.file(name, O_RDONLY);
  char last = 0;
  return file && ::pread(file->get(), &last, 1, size - 1) == 1 && last == '\n';
}

}  // namespace

std::string last_lines(const io::Beneath& folder, const std::string& name) {
  const auto file = folder.file(name, O_RDONLY);
  struct stat status {};
  if (!file || ::fstat(file->get(), &status) != 0) return {};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::string bytes(std::min(size, looked_back), '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    const auto got = ::pread(file->get(), bytes.data() + have, bytes.size() - have,
                             static_cast<off_t>(size - bytes.size() + have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

Result<void> keep_lines(const std::filesystem::path& home, std::string_view name,
                        std::string_view lines) {
  const auto own = open_own(home);
  if (!own) return tl::unexpected<Error>(own.error());
  const std::string file_name(name);
  const auto path = own->path() / name;
  if (name == history_name) {
    const std::string newer = wire::parse_history(last_lines(*own, file_name)).newer;
    if (!newer.empty()) return fail("newer-format", path.string() + ": " + newer);
  }
  const auto seen = own->look(file_name);
  if (seen && seen->st_size >= journal_limit) {
    if (const auto moved = own->rename(file_name, *own, file_name + ".1"); !moved)
      return fail_errno(moved.error(), "cannot move " + path.string() + " aside");
  }
  // What the boot said may hold what is nobody else's business.
  const mode_t mode = name == log_name ? 0600 : 0644;
  const auto file = own->file(file_name, O_WRONLY | O_APPEND | O_CREAT, mode);
  if (!file) return fail_errno(file.error(), "cannot open " + path.string());
  const off_t before = ::lseek(file->get(), 0, SEEK_END);
  // A power cut may have left a part of a line there, or zeros.
  const bool begins = before == 0 || ends_a_line(*own, file_name, before);
  const bool good = before >= 0 && (begins || io::write_all(file->get(), "\n")) &&
                    io::write_all(file->get(), lines) && ::fsync(file->get()) == 0;
  if (good) return {};
  const int why = errno;
  // Who tries again says all of them again.
  if (before >= 0) (void)!::ftruncate(file->get(), before);
  return fail_errno(why, "cannot write " + path.string());
}

}  // namespace spotter::act::host
