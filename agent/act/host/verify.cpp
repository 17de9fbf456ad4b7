#include "agent/act/host/verify.hpp"

#include "agent/guard/keeper.hpp"
#include "trainer/checkpoint/checkpoint.hpp"

namespace spotter::act::host {

namespace fs = std::filesystem;

Outcome<Verified> verify_checkpoints(const fs::path& directory, bool read_only) {
  std::error_code error;
  if (!fs::exists(directory, error) && !error) return Verified{};
  const auto latest = read_only ? checkpoint::newest_in(directory) : checkpoint::latest(directory);
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
