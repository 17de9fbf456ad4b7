// Spotter's own files with a job, in its home: `.spotter`, and the curve beside the result.
#pragma once

#include "agent/host/verb.hpp"
#include "agent/wire/curve.hpp"
#include "agent/wire/ledger.hpp"

namespace spotter::act::host {

inline constexpr const char* own_directory = ".spotter";

// Opens it in an opened home, or in one by its path. On a volume it is root's, and what it holds is
// believed: one that somebody else put there is refused. With the rights of the trainer's user
// (AsUser: on a share) or without root's, its owner proves nothing, and nothing is at risk. Kinds:
// "not-mounted" (there is none), "layout-unusable" (a link, no folder, not ours).
Result<io::SafeDirectory> open_own(const io::SafeDirectory& home);
Result<io::SafeDirectory> open_own(const fs::path& home);

// Does it belong to whom it must? `status` is of a folder or a file of ours.
bool is_ours(const struct stat& status);

// The id of a job's folder on a share: what of the job lies elsewhere (its claims in a bucket) says
// by it to which of all jobs of that name it belongs.

// 32 hexadecimal digits, drawn by the first who asks; from then on all who see the folder read
// the same, whatever happens at once or breaks off. It is the only name in .spotter/id: of the
// file systems' calls only rename(2), of one directory onto another, makes something with its
// content, and only where there is none, on NFS and sshfs too.
// REQUIRES: the folder is laid out, and the rights of the trainer's user (AsUser).
Result<std::string> home_id(const io::SafeDirectory& home);

// The agent's own account, beside the job's ledger, in `.spotter` of the job's home: its words
// (agent.log) and what happened (history.jsonl). Instances come and go, and their journals with
// them.

inline constexpr std::string_view log_name = "agent.log";
inline constexpr std::string_view history_name = "history.jsonl";

// Appends `lines` to the file of that name, durably. A file of some MiB becomes `<name>.1`, in the
// place of the one before. A history whose last lines a newer Spotter wrote stays as it is.
Result<void> keep_lines(const fs::path& home, std::string_view name, std::string_view lines);

// The last lines of a file that grows: whoever wrote there last says which version it is of. Empty:
// there is none, or it cannot be read.
std::string last_lines(const io::SafeDirectory& folder, const std::string& name);

// The job's costs and its failures: kept on the volume, since no instance keeps state.

struct LedgerRead {
  wire::LedgerFile file;
  std::string warning;  // not empty: the file was damaged, and where it was moved
  decide::Spent others{};
};
// The homes beside this one, as far as they can be read.
decide::Spent spent_by_others(const fs::path& home);

// `<mount>/.spotter/ledger.json`. Missing reads as zeros; a damaged one is moved aside to
// `ledger.damaged-<seconds since 1970>` and reads as zeros with a warning.
Result<LedgerRead> read_ledger(const fs::path& mount_point);

// Atomic and durable. `trainers` is what the file says, and one more when the ledger says that one
// was started since it was written. A file that is there and cannot be read is not overwritten.
Result<void> write_ledger(const fs::path& mount_point, wire::LedgerFile file);

// The learning curve beside the result: `metrics.jsonl` in the job's or the experiment's home.

// New lines (wire/curve.hpp) join those of `path`, a few thousand at most: a long job's are thinned
// evenly. Steps in the file after `resumed`, or after the first new one, are left out: they were
// trained in vain. The file is replaced as a whole and durable, with this mode. A file that is not
// just as Spotter writes it (a trainer's own, a larger one than any of ours) is first moved aside
// to `path`.before, unless one lies there already; the answer says so, and is empty else.
Result<std::string> keep_metrics(const fs::path& path, std::string_view lines,
                                 std::optional<std::uint64_t> resumed, mode_t mode = 0644);

}  // namespace spotter::act::host
