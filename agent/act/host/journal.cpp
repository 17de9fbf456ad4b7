#include "agent/act/host/journal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "agent/act/host/own.hpp"
#include "agent/io/write_all.hpp"

namespace spotter::act::host {
namespace {

constexpr off_t file_limit = 8 << 20;

// What cannot be read does not: then there is an empty line.
bool ends_a_line(const io::Beneath& own, const std::string& name, off_t size) {
  const auto file = own.file(name, O_RDONLY);
  char last = 0;
  return file && ::pread(file->get(), &last, 1, size - 1) == 1 && last == '\n';
}

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
