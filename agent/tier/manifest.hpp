// The manifest of a folder in S3 that is one checkpoint: its files, and the sums that verify them.
// It is the object that is written last, and first removed: without it there is no checkpoint.
// Whoever may write to the bucket can have written it, so nothing in it is believed. No I/O.
//
// Bytes: one JSON object, whose last member is the XXH3 sum of all bytes before it, as in
// trainer/library/manifest.hpp:
//   {"format":1,"job":"mine","name":"checkpoint-500","parts":[{"bytes":N,"mtime_ns":N,
//    "name":"model.safetensors","sum":"hex"}],"saved_ms":N,"step":500,"xxh3_128":"hex"}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/base/version.hpp"
#include "agent/guard/record.hpp"

namespace spotter::tier {

inline constexpr std::size_t manifest_limit = 8U << 20;  // what s3::read() takes
inline constexpr std::size_t key_limit = 1024;           // of S3, in bytes
inline constexpr std::size_t parts_limit = 16384;        // a thousand ranks write four files each

struct Manifest {
  std::string job;   // whose it is: its name, and in a sweep the experiment's index
  std::string name;  // of the folder
  std::uint64_t step = 0;
  std::int64_t saved_ms = 0;  // since 1970: of two with one number the later one is newer
  std::vector<guard::Part> parts;
  friend bool operator==(const Manifest&, const Manifest&) = default;

  std::string sum() const { return guard::sum_of_parts(parts); }
  // By the number in the name. Without one the step is the storage's own count, which the next
  // storage begins again.
  std::pair<std::uint64_t, std::int64_t> order() const {
    return {guard::step_in(name).value_or(0), saved_ms};
  }
};

// A folder directly in the directory: neither hidden nor a path.
bool is_folder_name(std::string_view name);

std::string encode(const Manifest& manifest);
// Fails for bytes that encode() cannot have written, and for what must not become files: a name
// that leads out of the folder or is there twice, a file where another one needs a folder, more or
// deeper ones than a checkpoint has. `newer`: the sum is right, the format a later one.
Result<Manifest> decode(std::string_view bytes);

}  // namespace spotter::tier
