#include "agent/act/host/formats.hpp"

#include <fstream>

#include "agent/act/host/layout.hpp"
#include "agent/act/host/ledger.hpp"
#include "agent/guard/record.hpp"
#include "agent/io/files.hpp"
#include "agent/wire/curve.hpp"
#include "agent/wire/history.hpp"
#include "trainer/checkpoint/names.hpp"
#include "trainer/checkpoint/refusal.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_document = 64U << 20;
constexpr std::streamoff looked_back = 64 << 10;

// The last lines of a file that grows: whoever wrote there last says which version it is of.
std::string last_lines(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  const std::streamoff from = std::max<std::streamoff>(0, size - looked_back);
  file.seekg(from);
  std::string bytes(static_cast<std::size_t>(size - from), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return bytes;
}

template <class T>
std::string newer_in(const fs::path& path, wire::Decoded<T> (*decode)(std::string_view)) {
  const auto text = io::read_file(path, longest_document);
  if (!text) return {};
  const auto document = decode(*text);
  return document || !document.error().newer ? std::string() : document.error().message;
}

std::string newest_checkpoint(const fs::path& directory) {
  const auto steps = checkpoint::steps_in(directory);
  if (!steps || steps->empty()) return {};
  const auto manifest =
      checkpoint::read_manifest(directory / checkpoint::directory_name(steps->front()));
  const bool newer = !manifest && manifest.error().why == checkpoint::Refusal::Why::Newer;
  return newer ? manifest.error().reason : std::string();
}

Outcome<void> refuse(const fs::path& path, const std::string& why) {
  if (why.empty()) return {};
  return fail("newer-format", path.string() + ": " + why);
}

}  // namespace

Outcome<void> check_formats(const fs::path& home, const std::vector<std::string>& directories) {
  const fs::path own = home / ".spotter";
  const auto storage = read_volume_record(home);
  if (!storage && storage.error().kind == "newer-format") {
    return tl::unexpected<Failure>(storage.error());
  }
  const fs::path account = own / "ledger.json";
  if (auto good = refuse(account, newer_in(account, parse_ledger)); !good) return good;
  const fs::path record = own / "checkpoints.json";
  if (auto good = refuse(record, newer_in(record, guard::decode)); !good) return good;
  const fs::path history = own / "history.jsonl";
  if (auto good = refuse(history, wire::parse_history(last_lines(history)).newer); !good) {
    return good;
  }
  const fs::path curve = home / "metrics.jsonl";
  if (auto good = refuse(curve, wire::parse_curve(last_lines(curve)).newer); !good) return good;
  for (const std::string& directory : directories) {
    const fs::path path = home / directory;
    if (auto good = refuse(path, newest_checkpoint(path)); !good) return good;
  }
  return {};
}

}  // namespace spotter::act::host
