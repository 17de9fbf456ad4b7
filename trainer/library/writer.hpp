// Writes one checkpoint. Two writers of one directory do not destroy one another's work (of one
// step, the later commit remains), although writer_lock.hpp normally prevents a second one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"
#include "trainer/library/bulk.hpp"
#include "trainer/library/files.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::checkpoint {

// If destroyed before commit(), or after a failure, it removes what it wrote. Not thread-safe;
// different Writers may work in parallel.
class Writer {
 public:
  // Creates `directory` if needed, removes leftovers of dead writers, opens the temporary
  // directory.
  static Result<Writer> begin(const std::filesystem::path& directory, std::uint64_t step);

  Writer(Writer&&) noexcept = default;
  Writer& operator=(Writer&&) = delete;
  ~Writer();

  // Writes and fsyncs parts. After a failure the writer is void: every further call fails.
  Result<void> add_part(const std::string& name, std::string_view bytes);
  Result<void> add_parts(std::span<const Part> parts);

  // Links a part of `checkpoint` instead of writing it again. REQUIRES: that checkpoint is durable,
  // and its part has the bytes that `entry` says. False: it cannot be linked (another file system,
  // no links there, gone), and nothing has changed: the caller writes it.
  bool link_part(const PartEntry& entry, const std::filesystem::path& checkpoint);

  // Durable when it returns a path. On failure there is no new checkpoint, and older ones are
  // unharmed (one exception: if only the last fsync, that of `directory`, fails, the new one may
  // exist). Replaces a checkpoint of the same step atomically, except one that is unreadable or a
  // newer Spotter's.
  Result<std::filesystem::path> commit(const nlohmann::json& meta,
                                       std::optional<double> metric = std::nullopt);

  // The manifest that commit() wrote.
  const Manifest& manifest() const { return manifest_; }

 private:
  Writer(std::filesystem::path directory, std::filesystem::path temporary, std::uint64_t step,
         Descriptor opened);
  Result<void> check_name(const std::string& name) const;
  static Result<void> may_replace(const std::filesystem::path& target);
  Result<void> publish(const std::filesystem::path& target);
  void abandon();

  std::filesystem::path directory_;
  std::filesystem::path temporary_;
  Descriptor opened_;  // holds the lock of a live writer; empty: committed or void
  Manifest manifest_;
};

}  // namespace spotter::checkpoint
