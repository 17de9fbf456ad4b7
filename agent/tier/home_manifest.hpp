// The manifest of a home in a bucket: its files. Whoever may write to the bucket can have written
// it, so nothing in it is believed. No I/O. One JSON object, whose last member is the XXH3 sum of
// all bytes before it, as in trainer/library/manifest.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::tier {

struct KeptFile {
  std::uint64_t bytes = 0;
  std::int64_t mtime_ns = 0;
  std::string sum;          // XXH3, 128 bit
  std::uint32_t epoch = 0;  // that brought its bytes
  friend bool operator==(const KeptFile&, const KeptFile&) = default;

  std::string key() const;  // "data/7/SUM-BYTES", relative to the home in the bucket
};

struct HomeManifest {
  std::string job;
  std::int64_t newest = -1;               // the step of the newest checkpoint; -1: none
  std::map<std::string, KeptFile> files;  // by their path, relative to the home
  friend bool operator==(const HomeManifest&, const HomeManifest&) = default;
};

inline constexpr std::size_t most_kept_files = 20'000;
inline constexpr std::size_t home_manifest_limit = 8U << 20;  // what s3::read() takes

// Relative, without empty, "." or ".." components, of no hidden name but ours.
bool is_kept_path(std::string_view path);

std::string encode(const HomeManifest& manifest);
// Fails for bytes that encode() cannot have written. `newer`: the sum is right, the format a later.
Result<HomeManifest> decode_home(std::string_view bytes);

}  // namespace spotter::tier
