#include "agent/act/host/journal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "agent/act/host/own.hpp"

namespace spotter::act::host {
namespace {

constexpr off_t file_limit = 8 << 20;

}  // namespace

Outcome<void> keep_lines(const std::filesystem::path& home, std::string_view name,
                         std::string_view lines) {
  const auto own = open_own(home);
  if (!own) return tl::unexpected<Failure>(own.error());
  const std::string file_name(name);
  const auto path = own->path() / name;
  const auto seen = own->look(file_name);
  if (seen && seen->st_size >= file_limit) {
    if (const auto moved = own->rename(file_name, *own, file_name + ".1"); !moved)
      return fail_errno(moved.error(), "cannot move " + path.string() + " aside");
  }
  // What the boot said may hold what is nobody else's business.
  const mode_t mode = name == log_name ? 0600 : 0644;
  const auto file = own->file(file_name, O_WRONLY | O_APPEND | O_CREAT, mode);
  if (!file) return fail_errno(file.error(), "cannot open " + path.string());
  while (!lines.empty()) {
    const auto put = ::write(file->get(), lines.data(), lines.size());
    if (put < 0 && errno != EINTR) return fail_errno(errno, "cannot write " + path.string());
    if (put > 0) lines.remove_prefix(static_cast<std::size_t>(put));
  }
  if (::fsync(file->get()) != 0) return fail_errno(errno, "cannot sync " + path.string());
  return {};
}

}  // namespace spotter::act::host
