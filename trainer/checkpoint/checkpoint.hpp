// Atomic checkpoints: a directory that is there whole and proven, or not there.
//
//   <directory>/step-000000001234/{model.bin, ..., manifest.json}
//
// A checkpoint is written as `.tmp-step-...-<pid>`: each part fsynced, the manifest last, the
// directory fsynced, renamed, the parent fsynced. What commit() or save() acknowledged survives a
// power cut. One history has one writer; two of them do not destroy one another's work, the later
// commit stands. Not thread-safe per Writer; different Writers may work in parallel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/wire/result.hpp"
#include "trainer/checkpoint/files.hpp"
#include "trainer/checkpoint/manifest.hpp"

namespace spotter::checkpoint {

// How many checkpoints are kept. The one just written is always among them.
struct Retention {
  std::size_t last = 2;  // two: when the newest turns out torn, there is one to fall back to
};

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
  std::optional<Checkpoint> newest;  // none: start from scratch
  std::vector<Torn> torn;            // tell the user of each
};

// One checkpoint being written. Destroyed before commit(), or after any failure, it removes what it
// wrote.
class Writer {
 public:
  // Creates `directory` if needed, removes what dead writers left there, opens the temporary
  // directory.
  static Result<Writer> begin(const std::filesystem::path& directory, std::uint64_t step);

  Writer(Writer&&) noexcept = default;
  Writer& operator=(Writer&&) = delete;
  ~Writer();

  // Writes and fsyncs one part. After a failure the writer is void: every further call fails.
  Result<void> add_part(const std::string& name, std::string_view bytes);

  // Durable when it returns a path; on failure no checkpoint was made and the older ones are
  // untouched (one exception: when only the last fsync, that of `directory`, fails, the new one may
  // be there). A checkpoint of the same step is replaced in one instant.
  Result<std::filesystem::path> commit(const nlohmann::json& meta);

 private:
  Writer(std::filesystem::path directory, std::filesystem::path temporary, std::uint64_t step,
         Descriptor opened);
  Result<void> publish(const std::filesystem::path& target);
  void abandon();

  std::filesystem::path directory_;
  std::filesystem::path temporary_;  // empty: committed, moved from, or void
  Descriptor opened_;                // holds the lock that says "this writer lives"
  Manifest manifest_;
};

struct Part {
  std::string name;
  std::string_view bytes;
};

// A Writer's whole life, then the retention: older checkpoints beyond it are removed, after the new
// one is durable. That removal failing is no failure of the save.
Result<std::filesystem::path> save(const std::filesystem::path& directory, std::uint64_t step,
                                   std::span<const Part> parts, const nlohmann::json& meta,
                                   Retention retention = {});

// The newest checkpoint that verifies. Torn ones are renamed to `torn-step-...` and reported;
// leftovers of dead writers are removed. An error only if the directory or a file cannot be opened
// for lack of permission or resources: then nothing is known, and to start from scratch would be
// wrong.
Result<Latest> latest(const std::filesystem::path& directory);

// Reads every byte. Fails with the reason when it is torn, incomplete or unreadable.
Result<Checkpoint> verify(const std::filesystem::path& path);

// The content of one part, its sum checked again.
Result<std::string> read_part(const Checkpoint& checkpoint, std::string_view name);

// "step-000000001234"
std::string directory_name(std::uint64_t step);

}  // namespace spotter::checkpoint
