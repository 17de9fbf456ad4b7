// Checkpoints in S3; calls block. For the keys see s3_mirror.hpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/aws/s3/client.hpp"
#include "agent/aws/s3/upload.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/refusal.hpp"
#include "trainer/library/retention.hpp"

namespace spotter::checkpoint {

class S3Place {
 public:
  // `prefix` ends with a slash, or is empty.
  S3Place(wire::S3Location prefix, s3::Settings settings)
      : prefix_(std::move(prefix)), client_(std::move(settings)) {}

  // Copies the checkpoint in that directory, then applies the retention. Succeeds if it is there
  // already; fails for a different one of the same step. Gives up when `stop` becomes true.
  Result<void> copy(const std::filesystem::path& checkpoint, std::uint64_t step,
                    const Retention& retention, const std::atomic<bool>& stop);

  // Newest first, complete ones only.
  Result<std::vector<std::uint64_t>> steps();

  Result<Loaded, Refusal> load(std::uint64_t step);

  std::string shown(std::uint64_t step) const;

 private:
  using Keys = std::map<std::uint64_t, std::vector<std::string>>;  // by step
  wire::S3Location key(std::uint64_t step, const std::string& name) const;
  Result<Keys> keys();
  Result<bool> is_there(std::uint64_t step, const std::string& manifest);
  bool may_go(std::uint64_t step);
  void apply_retention(const Retention& retention, std::uint64_t just_written);

  wire::S3Location prefix_;
  s3::Client client_;
};

}  // namespace spotter::checkpoint
