#include "agent/host/verify.hpp"

#include "agent/guard/keeper.hpp"
#include "agent/host/verb.hpp"
#include "agent/io/safe_directory.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::act::host {

namespace fs = std::filesystem;

namespace {

fs::path checkpoints_of(const verbs::Verify& request) {
  return fs::path(request.mount_point) / request.checkpoints;
}

// None: as who we are. Only a copy, which cannot be changed, is read with its owner's rights.
Result<std::optional<User>> reader_of(const verbs::Verify& request) {
  if (request.user.empty()) return std::optional<User>();
  auto user = find_user(request.user);
  if (!user) return tl::unexpected<Error>(user.error());
  const auto mount = io::SafeDirectory::open(request.mount_point);
  const auto seen =
      mount ? mount->look(request.checkpoints) : tl::unexpected<std::error_code>(mount.error());
  const bool others = seen && S_ISDIR(seen->st_mode) && seen->st_uid != 0;
  if (!request.read_only || !others || seen->st_uid == user->uid) return std::optional(*user);
  return std::optional(User{"", seen->st_uid, seen->st_gid, "", {seen->st_gid}});
}

}  // namespace

Result<Verified> verify_checkpoints(const verbs::Verify& request) {
  const auto reader = reader_of(request);
  if (!reader) return tl::unexpected<Error>(reader.error());
  std::optional<AsUser> as;
  if (*reader) as.emplace(**reader);
  const fs::path directory = checkpoints_of(request);
  std::error_code error;
  if (!fs::exists(directory, error) && !error) return Verified{};
  const auto latest =
      request.read_only ? checkpoint::newest_in(directory) : checkpoint::latest(directory);
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

Result<Verified> verify(const verbs::Verify& request) {
  // Nothing but the reading is left of what was proven, as none is torn.
  const auto by_library = [&] { return request.proven ? Verified{} : verify_checkpoints(request); };
  if (!request.watched) return by_library();
  auto keeper = guard::Keeper::open(
      {request.mount_point, request.checkpoints, request.files, AsUser::active(), request.folders});
  if (!keeper) return fail("verify-failed", keeper.error().message);
  auto settled = request.read_only ? keeper->prove() : keeper->settle(!request.proven);
  if (!settled) return fail("verify-failed", settled.error().message);
  if (settled->left_alone) return by_library();
  const fs::path path =
      settled->name.empty() ? fs::path() : checkpoints_of(request) / settled->name;
  return Verified{settled->newest, path, std::move(settled->torn), std::move(settled->said)};
}

}  // namespace spotter::act::host
