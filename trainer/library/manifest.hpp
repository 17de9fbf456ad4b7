// The manifest: the parts of a checkpoint, and the sums that verify them. No I/O.
//
// Bytes: one JSON object on one line, whose last member `"xxh3_128"` is the sum of all bytes before
// that member's comma, then a newline. So a reader in any language can verify the manifest without
// reproducing this JSON encoder, and any flipped bit is detected.
//   {"format":1,"meta":{...},"parts":[{"bytes":N,"name":"model.bin","xxh3_128":"hex"}],
//    "step":1234,"xxh3_128":"hex"}     and, where the trainer gave one, "metric":0.97
// Every later format has `format`, and the sum as its last member.
#pragma once

#include <memory>
#include <vector>

#include "agent/base/version.hpp"

namespace spotter::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::size_t kManifestLimit = std::size_t{16} << 20;  // bytes; more is not ours

struct PartEntry {
  static constexpr std::string_view keys = "name! bytes! xxh3_128!";
  std::string name;
  std::uint64_t bytes = 0;
  std::string xxh3_128;  // 32 lower-case hexadecimal digits, canonical (big-endian) form
};

struct Manifest {
  std::uint64_t step = 0;
  std::vector<PartEntry> parts;
  nlohmann::json meta = nlohmann::json::object();
  std::optional<double> metric;  // finite; decides which checkpoint is best
};

// XXH3, 128 bit (https://github.com/Cyan4973/xxHash): detects accidents, not attacks.
class Sum : Pinned {
 public:
  Sum();
  ~Sum();
  void add(std::string_view bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
std::string sum_of(std::string_view bytes);
bool is_sum(std::string_view text);
// JSON can hold it as it is: UTF-8, without control characters and quotes.
bool is_plain(std::string_view text);

// The form above for any object that is not empty: the bytes, and the object that they hold. None:
// the sum is not theirs. Bytes with the right sum that are no JSON come back as a value of another
// kind.
inline constexpr std::size_t kSealBytes = 48;  // the last member, the brace and the newline
std::string seal(const nlohmann::json& object);
std::optional<nlohmann::json> unseal(std::string_view bytes);

// A part's name is a plain file name: letters, digits, `.`, `_`, `-`; not hidden, not the
// manifest's, 100 characters at most.
bool is_part_name(std::string_view name);

std::string encode(const Manifest& manifest);
// Fails for bytes that encode() cannot have written, except for unknown members. `newer`: the sum
// is right, the format a later one.
Result<Manifest> decode(std::string_view bytes);

}  // namespace spotter::checkpoint
