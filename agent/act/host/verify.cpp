#include "agent/act/host/verify.hpp"

#include <algorithm>
#include <cctype>

#include "agent/guard/keeper.hpp"
#include "trainer/checkpoint/checkpoint.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

// "step-000000001234"; whatever else lies there is the user's own.
bool is_checkpoint_name(const std::string& name) {
  constexpr std::string_view prefix = "step-";
  return name.rfind(prefix, 0) == 0 && name.size() > prefix.size() &&
         std::all_of(name.begin() + prefix.size(), name.end(),
                     [](unsigned char c) { return std::isdigit(c); });
}

Outcome<Verified> passing_over_torn(const fs::path& directory) {
  std::vector<fs::path> candidates;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (is_checkpoint_name(at->path().filename().string())) candidates.push_back(at->path());
  }
  if (error)
    return fail("verify-failed", "cannot list " + directory.string() + ": " + error.message());
  std::sort(candidates.rbegin(), candidates.rend());  // zero-padded, so newest first
  Verified verified;
  for (const auto& candidate : candidates) {
    const auto whole = checkpoint::verify(candidate);
    if (whole) {
      verified.newest = whole->step;
      verified.path = candidate;
      break;
    }
    verified.torn.push_back(candidate.string() + ": " + whole.error().message);
  }
  return verified;
}

}  // namespace

Outcome<Verified> verify_checkpoints(const fs::path& directory, bool read_only) {
  std::error_code error;
  if (!fs::exists(directory, error) && !error) return Verified{};
  if (read_only) return passing_over_torn(directory);
  const auto latest = checkpoint::latest(directory);
  if (!latest) return fail("verify-failed", latest.error().message);
  Verified verified;
  if (latest->newest) {
    verified.newest = latest->newest->step;
    verified.path = latest->newest->path;
  }
  for (const auto& torn : latest->torn) {
    const auto& place = torn.moved_to.empty() ? torn.path : torn.moved_to;
    verified.torn.push_back(place.string() + ": " + torn.reason);
  }
  return verified;
}

Outcome<Verified> verify_files(const fs::path& mount, const std::string& directory,
                               const std::string& files, bool read_only) {
  auto keeper = guard::Keeper::open({mount, directory, files});
  if (!keeper) return fail("verify-failed", keeper.error().message);
  auto settled = read_only ? keeper->prove() : keeper->settle(true);
  if (!settled) return fail("verify-failed", settled.error().message);
  const fs::path path = settled->name.empty() ? fs::path() : mount / directory / settled->name;
  return Verified{settled->newest, path, std::move(settled->torn), std::move(settled->said)};
}

}  // namespace spotter::act::host
