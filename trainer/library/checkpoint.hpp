// Atomic checkpoints: a directory that is there whole and proven, or not there.
//
//   <directory>/step-000000001234/{model.bin, ..., manifest.json}
//
// A checkpoint is written as `.tmp-step-...`: each part fsynced, the manifest last, the directory
// fsynced, renamed, the parent fsynced (writer.hpp). What was acknowledged survives a power cut.
// This header is the simple way: save() and latest(). Behind the training's back: saver.hpp; with
// the notice, the deadline and the agent: session.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"
#include "trainer/library/bulk.hpp"
#include "trainer/library/manifest.hpp"
#include "trainer/library/retention.hpp"

namespace spotter::checkpoint {

// A checkpoint whose every byte was read and found right.
struct Checkpoint {
  std::uint64_t step = 0;
  std::filesystem::path path;
  nlohmann::json meta;
  std::vector<PartEntry> parts;
};

// One that did not verify. `moved_to` is empty when it could not be moved aside (read-only volume).
struct Torn {
  std::filesystem::path path;
  std::filesystem::path moved_to;
  std::string reason;
};

struct Latest {
  std::optional<Checkpoint> newest;
  std::vector<Torn> torn;  // tell the user of each
};

// A Writer's whole life, then the retention: older checkpoints beyond it are removed, after the new
// one is durable. That removal failing is no failure of the save. Fails when another writer is at
// work there (writer_lock.hpp).
Result<std::filesystem::path> save(const std::filesystem::path& directory, std::uint64_t step,
                                   std::span<const Part> parts, const nlohmann::json& meta,
                                   Retention retention = {});

// The newest checkpoint that verifies. Torn ones are renamed to `torn-step-...` and reported;
// leftovers of dead writers are removed. An error if the directory or a file cannot be read (no
// permission, no resources, no answer): then nothing is known. An error, too, if one that is passed
// on the way is of a newer Spotter: its progress would be lost. To decide whether a run starts from
// scratch is restore()'s.
Result<Latest> latest(const std::filesystem::path& directory);

// The same, and nothing is changed.
Result<Latest> newest_in(const std::filesystem::path& directory);

struct Loaded {
  Checkpoint checkpoint;
  std::vector<LoadedPart> parts;  // in the order in which they were saved
};

struct Restored {
  std::optional<Loaded> newest;  // none: start from scratch
  std::vector<Torn> torn;
};

// Where a run goes on: latest() over several places of one history, the fastest first, and its
// content in the same pass: each byte is read once, by several threads. The newest that verifies
// wins, wherever it is; of the same step the one in the faster place. A place that does not exist
// has none; one that cannot be read is an error only if it is the last, which counts; a checkpoint
// of a newer Spotter is one wherever it is. An error also where there is none to go on from, but
// torn ones are in the last place, set aside now or earlier: a run is not begun anew unless a
// person wants it.
wire::Decoded<Restored> restore(std::span<const std::filesystem::path> directories);

// Reads every byte. Fails with the reason when it is torn, incomplete or unreadable.
Result<Checkpoint> verify(const std::filesystem::path& path);

// The content of one part, its sum checked again.
Result<std::string> read_part(const Checkpoint& checkpoint, std::string_view name);

}  // namespace spotter::checkpoint
