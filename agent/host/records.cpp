#include "agent/host/records.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>

#include "agent/host/share.hpp"
#include "agent/io/kernel.hpp"
#include "agent/sweep/summary.hpp"
#include "agent/wire/history.hpp"

namespace spotter::act::host {

bool is_ours(const struct stat& status) {
  return status.st_uid == 0 || ::geteuid() != 0 || AsUser::active();
}

Result<io::SafeDirectory> open_own(const io::SafeDirectory& home) {
  const auto path = (home.path() / own_directory).string();
  auto opened = home.folder(own_directory);
  if (!opened) {
    const auto error = opened.error();
    if (error == std::errc::no_such_file_or_directory)
      return fail("not-mounted", "there is no " + path + "; mount the job's storage first");
    if (error == std::errc::not_a_directory || error.value() == ELOOP)
      return fail("layout-unusable", path + " is not a directory; move it away");
    return fail_errno(error, "cannot open " + path);
  }
  const auto status = TRY(or_fail(opened->status(), "cannot look at " + path));
  if (!is_ours(status)) {
    return fail("layout-unusable", path + " belongs to the user " + std::to_string(status.st_uid) +
                                       ", not to root: what it says is not believed. If you know "
                                       "that Spotter made it, give it to root (chown -R 0:0), else "
                                       "move it away");
  }
  return *std::move(opened);
}

Result<io::SafeDirectory> open_own(const fs::path& home) {
  auto opened = io::SafeDirectory::open(home);
  if (!opened && opened.error() == std::errc::no_such_file_or_directory)
    return fail("not-mounted", "there is no " + home.string() + "; mount the job's storage first");
  return open_own(TRY(or_fail(std::move(opened), "cannot open " + home.string())));
}

namespace {

constexpr const char* folder_name = "id";
constexpr std::size_t digits = 32;

bool is_id(const std::string& name) {
  return name.size() == digits && name.find_first_not_of("0123456789abcdefABCDEF") == name.npos;
}

// Empty: there is none yet.
Result<std::string> id_in(const io::SafeDirectory& own) {
  const std::string path = (own.path() / folder_name).string();
  const auto folder = own.folder(folder_name);
  if (!folder && folder.error() == std::errc::no_such_file_or_directory) return std::string();
  const auto names =
      TRY(or_fail(folder.and_then(&io::SafeDirectory::names), "cannot read " + path));
  if (names.empty()) return std::string();  // never ours, and no obstacle
  if (names.size() == 1 && is_id(names.front())) return names.front();
  return fail("layout-unusable", path + " does not hold one id, as Spotter makes it: move it away");
}

Result<void, std::error_code> put_id(const io::SafeDirectory& own, const std::string& beside,
                                     const std::string& id) {
  const auto made = TRY(own.make_folder(beside, 0755));
  TRY(made.make_folder(id, 0755));
  auto put = own.rename(beside, own, folder_name);
  if (!put) (void)made.remove_folder(id);
  return put;
}

constexpr off_t journal_limit = 8 << 20;
constexpr std::uint64_t looked_back = 64U << 10;

// A file that cannot be read does not: then there is an empty line.
bool ends_a_line(const io::SafeDirectory& own, const std::string& name, off_t size) {
  const auto file = own.file(name, O_RDONLY);
  return file && io::read_at(file->get(), static_cast<std::uint64_t>(size - 1), 1) == "\n";
}

constexpr const char* ledger_name = "ledger.json";

Result<LedgerRead> set_aside(const io::SafeDirectory& own) {
  const std::string aside = "ledger.damaged-" + std::to_string(std::time(nullptr));
  const auto path = (own.path() / ledger_name).string();
  TRY(or_fail(own.rename(ledger_name, own, aside), "cannot move the damaged " + path + " aside"));
  return LedgerRead{{},
                    path + " was damaged; it was moved to " + (own.path() / aside).string() +
                        " and counting starts again from zero"};
}

Result<LedgerRead> read_in(const io::SafeDirectory& own) {
  const auto text = own.read(ledger_name, sweep::ledger_limit);
  if (!text) {
    if (text.error() == std::errc::no_such_file_or_directory) return LedgerRead{};
    if (text.error() == std::errc::file_too_large) return set_aside(own);
    return fail_errno(text.error(), "cannot read " + (own.path() / ledger_name).string());
  }
  const auto file = wire::parse_ledger(*text);
  if (file) return LedgerRead{*file, {}};
  if (wire::is_newer(file.error()))
    return fail("newer-format", (own.path() / ledger_name).string() + ": " + file.error().message);
  return set_aside(own);
}

constexpr std::size_t most_points = 4096;

// Nothing of it is lost, nor is what was moved aside before.
Result<std::string> move_aside(const io::SafeDirectory& home, const std::string& name) {
  const auto path = (home.path() / name).string();
  const std::string aside = name + ".before";
  const auto taken = home.look(aside);
  if (taken)
    return fail("layout-unusable", path + " is not Spotter's, and " + aside +
                                       " is there already: move one of them away, and let the "
                                       "trainer write its own under another name");
  if (taken.error() != std::errc::no_such_file_or_directory)
    return fail_errno(taken.error(), "cannot look at " + path + ".before");
  TRY(or_fail(home.rename(name, home, aside), "cannot move " + path + " aside"));
  return path + " was not Spotter's, which keeps the learning curve there: it is " + aside +
         " now, and nothing of it is lost. Let the trainer write its own under another name";
}

// Synced and forgotten at once: what a process that is killed meanwhile leaves in both files.
constexpr off_t at_once = 4 << 20;

using io::last_error;

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
      const auto bytes = TRY(read(at, end - at));
      if (bytes.empty()) return end;
      const auto first = bytes.find_first_not_of('\0');
      if (first != std::string_view::npos) return at + static_cast<off_t>(first);
      at += static_cast<off_t>(bytes.size());
    }
    return end;
  }

  // Durable, or, after a failure, not there.
  Result<void, std::error_code> append(off_t begin, off_t end) const {
    const auto before = TRY(size_of(kept_));
    const auto appended = append_after(before, begin, end);
    // So the next attempt leaves no line twice.
    if (!appended) (void)!::ftruncate(kept_.get(), before);
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
    if (begin != 0 || size <= 0) return false;
    const auto last = io::read_at(kept_.get(), static_cast<std::uint64_t>(size - 1), 1);
    return !last.empty() && last != "\n";
  }

  Result<void, std::error_code> append_after(off_t before, off_t begin, off_t end) const {
    if (is_torn(before, begin) && !io::write_all(kept_.get(), "\n")) return last_error();
    while (begin < end) {
      const auto bytes = TRY(read(begin, end - begin));
      if (bytes.empty()) break;
      if (!io::write_all(kept_.get(), bytes)) return last_error();
      begin += static_cast<off_t>(bytes.size());
    }
    if (::fsync(kept_.get()) != 0) return last_error();
    return {};
  }

  io::Descriptor local_;
  io::Descriptor kept_;
  std::unique_ptr<Buffer> buffer_ = std::make_unique<Buffer>();
};

Result<io::Descriptor, std::error_code> open_in_folder(const fs::path& path, int flags) {
  const auto folder = TRY(io::SafeDirectory::open(path.parent_path()));
  return folder.file(path.filename(), flags, 0644);
}

}  // namespace

Result<std::string> home_id(const io::SafeDirectory& home) {
  const auto own = TRY(open_own(home));
  auto there = id_in(own);
  if (!there || !there->empty()) return there;
  const std::string id = io::random_hex(digits);
  if (id.empty()) return fail_errno(errno, "the kernel gives no random bytes");
  const std::string beside = ".id-" + id;
  const auto put = put_id(own, beside, id);
  if (!put) (void)own.remove_folder(beside);
  // Somebody else may have been faster: EEXIST or ENOTEMPTY; a server may say less (SFTP: EIO).
  there = id_in(own);
  if (!there || !there->empty()) return there;
  const auto error = put ? std::make_error_code(std::errc::no_such_file_or_directory) : put.error();
  return fail_errno(error, "cannot make " + (own.path() / folder_name).string());
}

std::string last_lines(const io::SafeDirectory& folder, const std::string& name) {
  const auto file = folder.file(name, O_RDONLY);
  struct stat status {};
  if (!file || ::fstat(file->get(), &status) != 0) return {};
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const auto most = std::min(size, looked_back);
  return io::read_at(file->get(), size - most, most);
}

Result<void> keep_lines(const fs::path& home, std::string_view name, std::string_view lines) {
  const auto own = TRY(open_own(home));
  const std::string file_name(name);
  const auto path = own.path() / name;
  if (name == history_name) {
    const std::string newer = wire::parse_history(last_lines(own, file_name)).newer;
    if (!newer.empty()) return fail("newer-format", path.string() + ": " + newer);
  }
  const auto seen = own.look(file_name);
  if (seen && seen->st_size >= journal_limit) {
    TRY(or_fail(own.rename(file_name, own, file_name + ".1"),
                "cannot move " + path.string() + " aside"));
  }
  // The words of the boot may hold what is nobody else's business.
  const mode_t mode = name == log_name ? 0600 : 0644;
  const auto file = TRY(or_fail(own.file(file_name, O_WRONLY | O_APPEND | O_CREAT, mode),
                                "cannot open " + path.string()));
  const off_t before = ::lseek(file.get(), 0, SEEK_END);
  // A power cut may have left a part of a line there, or zeros.
  const bool begins = before == 0 || ends_a_line(own, file_name, before);
  const bool good = before >= 0 && (begins || io::write_all(file.get(), "\n")) &&
                    io::write_all(file.get(), lines) && ::fsync(file.get()) == 0;
  if (good) return {};
  const int why = errno;
  // The caller's next try writes all of them again.
  if (before >= 0) (void)!::ftruncate(file.get(), before);
  return fail_errno(why, "cannot write " + path.string());
}

Result<LedgerRead> read_ledger(const fs::path& mount_point) {
  const auto own = open_own(mount_point);
  if (own) return read_in(*own);
  if (own.error().kind == "not-mounted") return LedgerRead{};
  return tl::unexpected<Error>(own.error());
}

decide::Spent spent_by_others(const fs::path& home) {
  decide::Spent spent;
  const auto members = io::SafeDirectory::open(home.parent_path());
  const auto names = members.and_then(&io::SafeDirectory::names);
  if (!names) return spent;
  for (const std::string& name : *names) {
    const auto other = members->folder(name);
    const auto own =
        other && name != home.filename().string() ? open_own(*other) : fail("none", "");
    const auto text = own ? own->read(ledger_name, sweep::ledger_limit) : std::string();
    const auto file = wire::parse_ledger(text.value_or(""));
    if (!file) continue;
    spent.seconds += file->ledger.seconds;
    spent.dollars += file->ledger.dollars;
  }
  return spent;
}

Result<void> write_ledger(const fs::path& mount_point, wire::LedgerFile file) {
  const auto own = TRY(open_own(mount_point));
  const auto before = TRY(read_in(own));
  const wire::LedgerFile& old = before.file;
  // A trainer that was lost while nobody looked has no end on record.
  const bool started =
      file.ledger.running && (!old.ledger.running || file.ledger.losses > old.ledger.losses);
  file.trainers = old.trainers + (started ? 1 : 0);
  if (file.command.empty()) file.command = old.command;
  return or_fail(own.write(ledger_name, to_json(file) + "\n", 0644),
                 "cannot write " + (own.path() / ledger_name).string());
}

Result<std::string> keep_metrics(const fs::path& path, std::string_view lines,
                                 std::optional<std::uint64_t> resumed, mode_t mode) {
  const auto home = TRY(open_directory(path.parent_path()));
  const std::string name = path.filename();
  const auto text = home.read(name, sweep::metrics_limit);
  const bool absent = !text && text.error() == std::errc::no_such_file_or_directory;
  if (!text && !absent && text.error() != std::errc::file_too_large)
    return fail_errno(text.error(), "cannot read " + path.string());
  auto kept = wire::parse_curve(text.value_or(std::string()));
  if (!kept.newer.empty()) return fail("newer-format", path.string() + ": " + kept.newer);
  wire::Curve curve = std::move(kept.curve);
  std::string said;
  if (!absent && (!text || to_lines(curve) != *text)) {
    said = TRY(move_aside(home, name));
  }
  if (resumed) curve.resume(*resumed);
  curve.append(wire::parse_curve(lines).curve);
  if (curve.points().size() > most_points) curve.thin(most_points / 2);
  TRY(or_fail(home.write(name, to_lines(curve), mode), "cannot write " + path.string()));
  return said;
}

// The trainer's log on its way from this machine to the storage.

Result<void> keep_log(const fs::path& local, const fs::path& kept,
                      std::optional<std::uint64_t> most) {
  auto from = open_in_folder(local, O_RDWR);
  if (!from && from.error() == std::errc::no_such_file_or_directory) return {};
  if (!from) return fail_errno(from.error(), "cannot open " + local.string());
  auto to = TRY(
      or_fail(open_in_folder(kept, O_RDWR | O_APPEND | O_CREAT), "cannot open " + kept.string()));
  const Log log(*std::move(from), std::move(to));
  // Bytes written from now on are the next call's: so this one ends.
  auto size = log.size();
  if (size && most) size = std::min(*size, static_cast<off_t>(*most));
  auto begin = size ? log.begin_of_rest(*size) : size;
  if (!begin) return fail_errno(begin.error(), "cannot read " + local.string());
  while (*begin < *size) {
    const off_t end = std::min(*size, *begin + at_once);
    TRY(or_fail(log.append(*begin, end), "cannot keep " + local.string() + " in " + kept.string()));
    TRY(or_fail(log.forget(*begin, end), "cannot empty " + local.string()));
    *begin = end;
  }
  return {};
}

}  // namespace spotter::act::host
