#include "agent/host/ledger.hpp"

#include <ctime>

#include "agent/host/own.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

constexpr const char* ledger_name = "ledger.json";

Result<LedgerRead> set_aside(const io::Beneath& own) {
  const std::string aside = "ledger.damaged-" + std::to_string(std::time(nullptr));
  const auto path = (own.path() / ledger_name).string();
  const auto moved = own.rename(ledger_name, own, aside);
  if (!moved) return fail_errno(moved.error(), "cannot move the damaged " + path + " aside");
  return LedgerRead{{},
                    path + " was damaged; it was moved to " + (own.path() / aside).string() +
                        " and counting starts again from zero"};
}

Result<LedgerRead> read_in(const io::Beneath& own) {
  const auto text = own.read(ledger_name, ledger_limit);
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

}  // namespace

Result<LedgerRead> read_ledger(const fs::path& mount_point) {
  const auto own = open_own(mount_point);
  if (own) return read_in(*own);
  if (own.error().kind == "not-mounted") return LedgerRead{};
  return tl::unexpected<Error>(own.error());
}

Result<void> write_ledger(const fs::path& mount_point, wire::LedgerFile file) {
  const auto own = open_own(mount_point);
  if (!own) return tl::unexpected<Error>(own.error());
  const auto before = read_in(*own);
  if (!before) return tl::unexpected<Error>(before.error());
  const wire::LedgerFile& old = before->file;
  // Of one that was lost while nobody looked no end was ever written.
  const bool started =
      file.ledger.running && (!old.ledger.running || file.ledger.losses > old.ledger.losses);
  file.trainers = old.trainers + (started ? 1 : 0);
  const auto written = own->write(ledger_name, to_json(file) + "\n", 0644);
  if (!written)
    return fail_errno(written.error(), "cannot write " + (own->path() / ledger_name).string());
  return {};
}

}  // namespace spotter::act::host
