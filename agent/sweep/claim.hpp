// What one object in a bucket says about one experiment: who has it, and since which token.
//
//   <prefix>/job             whose claims these are (Owner); made once, and never changed
//   <prefix>/<index>.claim   the truth; changed only by conditional writes
//   <prefix>/<index>.ended   a hint for listings: nothing is left to do here
//   <prefix>/<index>.given   a hint for listings: its holder has given it back
//   <prefix>/<index>.result  what became of it (summary.hpp), for `spotter sweep results`
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/names.hpp"
#include "agent/base/result.hpp"

namespace spotter::sweep {

struct Claim {
  enum class State : std::uint8_t {
    Held,    // until `span` after its last write
    Given,   // back, for whoever comes
    Done,    // attempt `token` has the result
    Failed,  // too often without progress
  };
  State state = State::Held;
  std::uint64_t token = 1;     // one more with each holder
  std::string holder;          // for people
  std::string nonce;           // of this very write: no two have the same
  Duration span{};             // of validity
  std::uint32_t failures = 0;  // attempts without progress, one after the other
  std::string parent;          // what this token starts from; empty: from nothing

  bool ended() const { return state == State::Done || state == State::Failed; }
  bool operator==(const Claim&) const = default;
};

std::string to_json(const Claim& claim);
// Fails on what is no claim, and for a later `version` (absent: 1): nobody may then take it.
Result<Claim> parse_claim(std::string_view json);

// Two jobs of one name below one prefix would take each other's claims for their own.
struct Owner {
  // What no other job of that name has: the id of its folder on the share (host/home_id.hpp),
  // or the tag of its volumes.
  std::string id;
  std::string storage;  // config::storage_name(), for people
  bool operator==(const Owner&) const = default;
};
inline constexpr std::string_view owner_name = "job";
std::string to_json(const Owner& owner);
// Fails on what is none, and for a later `version`.
Result<Owner> parse_owner(std::string_view json);

enum class Hint : std::uint8_t { Ended, Given };

// "00042.claim": so that keys are listed in the order of the indices.
std::string claim_name(std::size_t index);
std::string result_name(std::size_t index);
std::string hint_name(std::size_t index, Hint hint);

// "00042.claim" -> 42 and "claim"; nothing for what is not ours.
struct ObjectName {
  std::size_t index;
  std::string_view kind;  // a part of the name
};
std::optional<ObjectName> parse_object_name(std::string_view name);

// "attempt-3": the folder of the claim's third holder, on the storage (host/attempt.hpp).
std::string attempt_name(std::uint64_t token);
std::optional<std::uint64_t> attempt_token(std::string_view name);

}  // namespace spotter::sweep
