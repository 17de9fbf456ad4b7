// Checkpoints in S3, one call after the other. See s3_mirror.hpp for the keys.
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

  // Copies the checkpoint in that directory, then applies the retention. That it is there already
  // is success; another one of the same step is not. Gives up when `stop` becomes true.
  Result<void> copy(const std::filesystem::path& checkpoint, std::uint64_t step,
                    const Retention& retention, const std::atomic<bool>& stop);

  // Newest first; only whole ones.
  Result<std::vector<std::uint64_t>> steps();

  Verdict<Loaded> load(std::uint64_t step);

  std::string shown(std::uint64_t step) const;

 private:
  using Keys = std::map<std::uint64_t, std::vector<std::string>>;  // of each step
  wire::S3Location key(std::uint64_t step, const std::string& name) const;
  Result<Keys> keys();
  Result<bool> is_there(std::uint64_t step, const std::string& manifest);
  bool may_go(std::uint64_t step);
  void apply_retention(const Retention& retention, std::uint64_t just_written);

  wire::S3Location prefix_;
  s3::Client client_;
};

}  // namespace spotter::checkpoint
