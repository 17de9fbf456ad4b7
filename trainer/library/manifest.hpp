// The manifest: what a checkpoint is made of, and the sums that prove it whole. No I/O.
//
// Bytes: one JSON object on one line, its last member `"xxh3_128"` being the sum of all the bytes
// before that member's comma, then a newline. So a reader in any language checks the manifest
// without having to write JSON exactly as this one does, and a flipped bit anywhere in it is found.
//   {"format":1,"meta":{...},"parts":[{"bytes":N,"name":"model.bin","xxh3_128":"hex"}],
//    "step":1234,"xxh3_128":"hex"}     and, where the trainer gave one, "metric":0.97
// Every later format keeps `format`, and the sum as its last member.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/version.hpp"

namespace spotter::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::size_t kManifestLimit = std::size_t{16} << 20;  // bytes; more is not ours

struct PartEntry {
  std::string name;
  std::uint64_t bytes = 0;
  std::string xxh3_128;  // 32 lower-case hexadecimal digits, canonical (big-endian) form
};

struct Manifest {
  std::uint64_t step = 0;
  std::vector<PartEntry> parts;
  nlohmann::json meta = nlohmann::json::object();
  std::optional<double> metric;  // finite; what "the best" is judged by
};

// XXH3, 128 bit (https://github.com/Cyan4973/xxHash): finds accidents, not attackers.
class Sum {
 public:
  Sum();
  ~Sum();
  Sum(const Sum&) = delete;
  Sum& operator=(const Sum&) = delete;
  void add(std::string_view bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
std::string sum_of(std::string_view bytes);

// A part's name is a plain file name: letters, digits, `.`, `_`, `-`; not hidden, not the
// manifest's, <= 100.
bool is_part_name(std::string_view name);

std::string encode(const Manifest& manifest);
// Fails on anything that encode() cannot have written, except for members it does not know.
// `newer`: the sum is right, the format a later one.
wire::Decoded<Manifest> decode(std::string_view bytes);

}  // namespace spotter::checkpoint
