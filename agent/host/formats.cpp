#include "agent/host/formats.hpp"

#include "agent/guard/record.hpp"
#include "agent/host/journal.hpp"
#include "agent/host/layout.hpp"
#include "agent/host/ledger.hpp"
#include "agent/io/beneath.hpp"
#include "agent/wire/curve.hpp"
#include "agent/wire/history.hpp"
#include "trainer/library/names.hpp"
#include "trainer/library/refusal.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_document = 64U << 20;

template <class T>
std::string newer_in(const io::Beneath& folder, const std::string& name,
                     Result<T> (*decode)(std::string_view)) {
  const auto text = folder.read(name, longest_document);
  if (!text) return {};
  const auto document = decode(*text);
  return document || !wire::is_newer(document.error()) ? std::string() : document.error().message;
}

std::string newest_checkpoint(const fs::path& directory) {
  const auto steps = checkpoint::steps_in(directory);
  if (!steps || steps->empty()) return {};
  const auto manifest =
      checkpoint::read_manifest(directory / checkpoint::directory_name(steps->front()));
  const bool newer = !manifest && manifest.error().why == checkpoint::Refusal::Why::Newer;
  return newer ? manifest.error().reason : std::string();
}

Result<void> refuse(const fs::path& path, const std::string& why) {
  if (why.empty()) return {};
  return fail("newer-format", path.string() + ": " + why);
}

// A .spotter that is not ours is its reader's to say, too.
Result<void> check_own(const io::Beneath& own) {
  const auto file = [&own](const char* name) { return own.path() / name; };
  if (auto good = refuse(file("ledger.json"), newer_in(own, "ledger.json", wire::parse_ledger));
      !good)
    return good;
  const char* record = "checkpoints.json";
  if (auto good = refuse(file(record), newer_in(own, record, guard::decode)); !good) return good;
  return refuse(file("history.jsonl"), wire::parse_history(last_lines(own, "history.jsonl")).newer);
}

}  // namespace

Result<void> check_formats(const fs::path& home, const std::vector<std::string>& directories) {
  const auto storage = read_volume_record(home);
  if (!storage && storage.error().kind == "newer-format") {
    return tl::unexpected<Error>(storage.error());
  }
  const auto opened = io::Beneath::open(home);
  if (!opened) return {};
  if (const auto own = open_own(*opened)) {
    if (auto good = check_own(*own); !good) return good;
  }
  const auto curve = wire::parse_curve(last_lines(*opened, "metrics.jsonl")).newer;
  if (auto good = refuse(home / "metrics.jsonl", curve); !good) return good;
  for (const std::string& directory : directories) {
    // By a path, and only read: a link in it leads to what is no newer checkpoint.
    const fs::path path = home / directory;
    if (auto good = refuse(path, newest_checkpoint(path)); !good) return good;
  }
  return {};
}

}  // namespace spotter::act::host
