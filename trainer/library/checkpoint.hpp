// Names in a directory of checkpoints.
#pragma once

#include <set>

#include "trainer/library/bulk.hpp"

namespace spotter::checkpoint {

inline constexpr std::string_view kTemporary = ".tmp-";  // being made, or being removed
inline constexpr std::string_view kTorn = "torn-";       // set aside; a prefix of the name

inline constexpr std::string_view kPrefix = "step-";

inline constexpr const char* kLockName = ".writer";  // the writer's (writer.hpp)
inline constexpr std::string_view kClaimName = ".writer-of-gang";

// "step-000000001234"
std::string directory_name(std::uint64_t step);
std::optional<std::uint64_t> step_of(std::string_view name);  // none: another name

// The steps of its checkpoints, complete or torn, newest first. Empty if the directory does not
// exist.
Result<std::vector<std::uint64_t>> steps_in(const std::filesystem::path& directory);

// Removes leftovers of dead writers. Failures are ignored until the next call.
void remove_leftovers(const std::filesystem::path& directory);

// Why a checkpoint cannot be used. Only a torn one may be moved, replaced or removed: an unreadable
// one may be undamaged, and a newer Spotter's is.

struct Refusal {
  enum class Why : std::uint8_t {
    Torn,    // its files differ from what was written
    Unread,  // unknown: no permission, no resources, no answer of the disk or server
    Newer,   // of a later format
  };
  Why why = Why::Torn;
  std::string reason;
};

// The refusal for a read that failed with `code`; 0: the content is not what it should be.
Refusal refusal(int code, std::string reason);

// The manifest in the directory of a checkpoint.
Result<Manifest, Refusal> read_manifest(const std::filesystem::path& checkpoint);

// Decides which checkpoints are kept. The one just written always is, as it is known to be good. A
// checkpoint that is unreadable now, or a newer Spotter's, is not removed, and does not count: the
// others are kept or removed as if it did not exist.

struct Retention {
  std::size_t last = 2;  // two, so that there is another one if the newest is torn
  std::uint64_t every =
      0;                 // steps; of each so many, the first checkpoint is kept for good. 0: none
  std::size_t best = 0;  // so many with the best metric
  bool higher_is_better = true;
};

struct Kept {
  std::uint64_t step = 0;
  std::optional<double> metric;  // none: not compared with the others
};

// The steps to keep of `all`. Pure.
std::set<std::uint64_t> kept(std::vector<Kept> all, std::uint64_t just_written,
                             const Retention& retention);

// Removes all others that are known to be ours, complete or torn. Failures are ignored until the
// next call.
void apply(const Retention& retention, const std::filesystem::path& directory,
           std::uint64_t just_written);

// Atomic checkpoints: a directory is either complete and verified, or it does not exist.
//
//   <directory>/step-000000001234/{model.bin, ..., manifest.json}
//
// A checkpoint is written as `.tmp-step-...`: each part is fsynced, the manifest last, the
// directory fsynced, renamed, its parent fsynced (writer.hpp). An acknowledged checkpoint survives
// a power failure. This header has the simple interface: save() and latest(). In the background:
// saver.hpp; with notice, deadline and agent: session.hpp.

// A checkpoint of which every byte was read and verified.
struct Checkpoint {
  std::uint64_t step = 0;
  std::filesystem::path path;
  nlohmann::json meta;
  std::vector<PartEntry> parts;
};

// A checkpoint that failed verification. `moved_to` is empty when it could not be moved (read-only
// volume).
struct Torn {
  std::filesystem::path path;
  std::filesystem::path moved_to;
  std::string reason;
};

struct Latest {
  std::optional<Checkpoint> newest;
  std::vector<Torn> torn;  // report each to the user
};

// Writes a checkpoint (see Writer), then, once it is durable, removes older ones by `retention`. A
// failed removal does not fail the save. Fails when another writer uses the directory
// (writer.hpp).
Result<std::filesystem::path> save(const std::filesystem::path& directory, std::uint64_t step,
                                   std::span<const Part> parts, const nlohmann::json& meta,
                                   Retention retention = {});

// The newest checkpoint that verifies. Renames torn ones to `torn-step-...` and reports them;
// removes leftovers of dead writers. Fails if the directory or a file cannot be read (no
// permission, no resources, no answer), as then nothing is known; also if a newer Spotter's
// checkpoint had to be skipped, as its progress would be lost. To decide whether a run starts from
// scratch, use restore().
Result<Latest> latest(const std::filesystem::path& directory);

// The same, but changes nothing.
Result<Latest> newest_in(const std::filesystem::path& directory);

struct Loaded {
  Checkpoint checkpoint;
  std::vector<LoadedPart> parts;  // in the order in which they were saved
};

struct Restored {
  std::optional<Loaded> newest;  // none: start from scratch
  std::vector<Torn> torn;
};

// Finds where a run resumes: latest() over several places of one history, the fastest first,
// reading each byte once, with several threads, for sum and content. The newest that verifies wins;
// of the same step the one in the faster place. A place that does not exist has none. Fails if the
// last place, the authoritative one, cannot be read (another is skipped), or if any place has a
// newer Spotter's checkpoint. Also fails if no checkpoint verifies but the last place has torn
// ones, moved now or earlier: a run starts from scratch only if a person wants it.
Result<Restored> restore(std::span<const std::filesystem::path> directories);

// Reads every byte. Fails with the reason when it is torn, incomplete or unreadable.
Result<Checkpoint> verify(const std::filesystem::path& path);

}  // namespace spotter::checkpoint
