#include "agent/host/summary.hpp"

#include <chrono>
#include <map>

#include "agent/host/records.hpp"
#include "agent/io/files.hpp"
#include "agent/sweep/claim.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

using sweep::Summary;

// The ledger is written each minute; a clock of another machine may be a little off.
constexpr std::chrono::minutes ledger_is_young{5};

// A damaged ledger says only that something has begun; it is left for its owner to find. A ledger
// that cannot be read, or was written by a newer Spotter, says nothing, not even that nothing is
// there.
struct Reading {
  wire::LedgerFile file;
  bool young = false;
};

Result<std::optional<Reading>> ledger_of(const fs::path& home) {
  const fs::path path = home / ".spotter" / "ledger.json";
  const auto text = io::read_file(path, ledger_limit);
  if (!text && text.error() == std::errc::no_such_file_or_directory) return std::nullopt;
  if (!text) return failure("cannot read " + path.string() + ": " + text.error().message());
  const auto file = wire::parse_ledger(*text);
  if (!file && wire::is_newer(file.error())) {
    return failure(path.string() + ": " + file.error().message);
  }
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  const bool young = !error && fs::file_time_type::clock::now() - written < ledger_is_young;
  return Reading{file.value_or(wire::LedgerFile()), young};
}

bool has_file(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool has_content(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator first(folder, error);
  return !error && first != fs::directory_iterator();
}

// By token, the folder itself as 0.
Result<std::map<std::uint64_t, fs::path>> homes_in(const fs::path& folder) {
  std::map<std::uint64_t, fs::path> homes;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  if (error == std::errc::no_such_file_or_directory) return homes;
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    if (const auto token = sweep::attempt_token(at->path().filename().string()))
      homes[*token] = at->path();
  }
  if (error) return failure("cannot read " + folder.string() + ": " + error.message());
  if (homes.empty()) homes[0] = folder;
  return homes;
}

std::optional<std::uint64_t> published_in(const fs::path& folder) {
  std::error_code error;
  const auto target = fs::read_symlink(folder / "DONE", error);
  if (error) return std::nullopt;
  return sweep::attempt_token(target.parent_path().filename().string());
}

std::string model_in(const fs::path& folder, const fs::path& home) {
  for (const fs::path& path : {folder / "model", home / "model", home / "result"})
    if (has_content(path)) return path.string();
  return {};
}

Summary::State state_of(const std::optional<Reading>& reading, const fs::path& folder,
                        const fs::path& home) {
  if (has_file(folder / "DONE") || has_file(home / "DONE")) return Summary::State::Done;
  if (reading && reading->file.ledger.done) return Summary::State::Done;  // of a volume, a bucket
  if (!reading) return Summary::State::Waiting;
  if (reading->file.ledger.running && reading->young) return Summary::State::Running;
  return reading->file.failures > 0 ? Summary::State::Failed : Summary::State::Stopped;
}

}  // namespace

Result<Summary> summary_of(const fs::path& folder, std::size_t index, sweep::Set parameters,
                           std::optional<std::uint64_t> winner) {
  Summary summary;
  summary.index = index;
  summary.parameters = std::move(parameters);
  const auto homes = homes_in(folder);
  if (!homes) return tl::unexpected(homes.error());
  if (!winner) winner = published_in(folder);
  std::optional<Reading> reading;
  fs::path newest = folder;
  for (const auto& [token, home] : *homes) {
    if (winner && token > *winner) break;
    auto read = ledger_of(home);
    if (!read) return tl::unexpected(read.error());
    reading = *read;
    newest = home;
    summary.attempt = token;
    summary.curve.append(read_metrics(home / "metrics.jsonl"));
    summary.seconds += reading ? reading->file.ledger.seconds : 0;
    summary.attempts += reading ? reading->file.trainers : 0;
  }
  summary.state = state_of(reading, folder, newest);
  if (summary.state == Summary::State::Done && reading)
    summary.stopped_early = reading->file.ledger.stopped_early.str();
  summary.model = model_in(folder, newest);
  summary.curve.thin(Summary::most_points);
  return summary;
}

}  // namespace spotter::act::host
