// One checkpoint being written. Two writers of one directory do not destroy one another's work (of
// one step, the later commit stands); that they exist at all is what writer_lock.hpp forbids.
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

// Destroyed before commit(), or after any failure, it removes what it wrote. Not thread-safe;
// different Writers may work in parallel.
class Writer {
 public:
  // Creates `directory` if needed, removes what dead writers left there, opens the temporary
  // directory.
  static Result<Writer> begin(const std::filesystem::path& directory, std::uint64_t step);

  Writer(Writer&&) noexcept = default;
  Writer& operator=(Writer&&) = delete;
  ~Writer();

  // Writes and fsyncs parts. After a failure the writer is void: every further call fails.
  Result<void> add_part(const std::string& name, std::string_view bytes);
  Result<void> add_parts(std::span<const Part> parts);

  // Takes a part over from `checkpoint` as a hard link instead of writing it again. REQUIRES: that
  // checkpoint is durable, and the part has the bytes that `entry` says. False: it cannot be linked
  // (another file system, no links there, gone); nothing has changed, write it.
  bool link_part(const PartEntry& entry, const std::filesystem::path& checkpoint);

  // Durable when it returns a path; on failure no checkpoint was made and the older ones are
  // untouched (one exception: when only the last fsync, that of `directory`, fails, the new one may
  // be there). A checkpoint of the same step is replaced in one instant; one of a newer Spotter, or
  // that cannot be read, is not.
  Result<std::filesystem::path> commit(const nlohmann::json& meta,
                                       std::optional<double> metric = std::nullopt);

  // What commit() made.
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
  Descriptor opened_;  // holds the lock that says "this writer lives"; empty: committed or void
  Manifest manifest_;
};

}  // namespace spotter::checkpoint
