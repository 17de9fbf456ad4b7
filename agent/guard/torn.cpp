// What was set aside, until it need not stay.
#include <sys/statvfs.h>

#include "agent/guard/keeper.hpp"
#include "agent/guard/removal.hpp"

namespace spotter::guard {
namespace {

constexpr std::int64_t spared_seconds = 3600;  // for a person to notice

bool has_room_for(const Beneath& where, std::uint64_t bytes) {
  struct statvfs volume {};
  if (::fstatvfs(where.descriptor(), &volume) != 0) return true;
  return std::uint64_t{volume.f_bavail} * volume.f_frsize >= bytes;
}

}  // namespace

// The time of its last change of state is that of its move. Folders are as large as a checkpoint:
// where there is no room left for two more, the oldest go earlier; neither the newest nor one that
// was moved just now.
void Keeper::forget_torn(std::int64_t now, std::vector<std::string>& said) const {
  const auto torn = place_.own(torn_directory);
  const auto listed = torn ? torn->names() : tl::unexpected(torn.error());  // the oldest first
  if (!listed) return;
  const Entry* newest = record_.newest();
  const std::uint64_t needed = newest != nullptr && newest->folder ? 2 * newest->bytes : 0;
  std::size_t left = removals_limit;
  for (std::size_t i = 0; i < listed->size(); ++i) {
    const std::string& name = (*listed)[i];
    const auto status = torn->look(name);
    if (!status) continue;
    const bool beyond = i + torn_limit < listed->size();
    const bool old = now - status->st_ctime >= torn_seconds;
    const bool spared = i + 1 == listed->size() || now - status->st_ctime < spared_seconds;
    const bool in_the_way = S_ISDIR(status->st_mode) && !spared && !has_room_for(*torn, needed);
    if (!(beyond && old) && !in_the_way) continue;
    remove_any(*torn, name, left);
    if (in_the_way)
      said.push_back((torn->path() / name).string() + " is removed: there is no room for two more");
  }
}

}  // namespace spotter::guard
