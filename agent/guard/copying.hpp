// A file's content: who writes it, its sum, and a copy of it. Internal to guard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "agent/base/result.hpp"
#include "agent/io/safe_directory.hpp"

namespace spotter::guard {

// A read lease is given only while nobody has the file open for writing (fcntl(2)).
// REQUIRES: has_leases() of its file system.
bool is_being_written(int file);

// Is the file on a file system of one of these kinds (linux/magic.h)? None: it does not say.
std::optional<bool> is_on_any(int file, std::initializer_list<std::uint64_t> kinds);

// Do leases tell here who writes? Asked of a file of ours in `folder`, with a writer and without
// one. NFSv4 and CIFS answer EAGAIN, as if somebody wrote, for any file of which the server has not
// delegated the care to this machine; EFS delegates none (nfs4_setlease() in fs/nfs/nfs4proc.c,
// cifs_setlease() in fs/smb/client/cifsfs.c).
bool has_leases(const io::SafeDirectory& folder);

// Asked between two pieces; true: whoever asked for this wants something else now.
using Stopped = std::function<bool()>;

// The sum of the first `bytes` bytes. Fails when there are fewer, or `stopped`.
Result<std::string> sum_of_file(int file, std::uint64_t bytes, const Stopped& stopped = {});

// Makes `name` in `folder` (replacing it), with owner, permissions and times of `status`, but
// without its set-user-id and set-group-id bits: shares the blocks where the file system can (xfs),
// else copies, and only where as much room is left again. `durable`: fsynced, and there only whole;
// else that is the caller's.
Result<void> copy_file(int from, const struct stat& status, const io::SafeDirectory& folder,
                       const std::string& name, const Stopped& stopped = {}, bool durable = true);

// The same, not durable, where the file system shares the blocks: no byte is copied. False if it
// does not.
bool clone_file(int from, const struct stat& status, const io::SafeDirectory& folder,
                const std::string& name);

// The folder that `name` lies in. Those that are missing are made, and given to whoever owns
// `like`.
Result<io::SafeDirectory, std::error_code> make_above(const io::SafeDirectory& folder,
                                                      const std::string& name,
                                                      const struct stat* like = nullptr);

// Removes what a trainer may have filled. Internal to guard.

inline constexpr std::size_t removals_limit = 200'000;  // some seconds

// A file, or a folder with all that is in it; no link is followed. At most `left` names, from which
// those that were tried are taken: what is not removed now is so the next time.
void remove_any(const io::SafeDirectory& from, const std::string& name, std::size_t& left);

}  // namespace spotter::guard
