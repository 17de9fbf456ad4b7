// One object in a bucket for each experiment: which machine has it, and since which token.
//
//   <prefix>/job             whose claims these are (Owner); made once, and never changed
//   <prefix>/<index>.claim   the truth; changed only by conditional writes
//   <prefix>/<index>.ended   a hint for listings: the experiment has ended
//   <prefix>/<index>.given   a hint for listings: its holder has given it back
//   <prefix>/<index>.result  its outcome (summary.hpp), for `spotter sweep results`
//   <prefix>/rungs/          what early stopping compares (asha.hpp)
#pragma once

#include <optional>

#include "agent/base/names.hpp"
#include "agent/base/result.hpp"

namespace spotter::sweep {

struct Claim {
  static constexpr std::string_view keys = "state! token! holder nonce span_ms! failures! parent";
  enum class State : std::uint8_t {
    Held,    // until `span` after its last write
    Given,   // given back, for any machine
    Done,    // attempt `token` has the result
    Failed,  // too many attempts without progress
  };
  State state = State::Held;
  std::uint64_t token = 1;     // one more with each holder
  std::string holder;          // for people
  std::string nonce;           // of this write: no two writes have the same
  Duration span{};             // how long it is valid
  std::uint32_t failures = 0;  // consecutive attempts without progress
  std::string parent;          // the attempt that this token goes on from; empty: none

  bool ended() const { return state == State::Done || state == State::Failed; }
  bool operator==(const Claim&) const = default;
};

constexpr std::array<const char*, 4> words_of(Claim::State) {
  return {"held", "given", "done", "failed"};
}

std::string to_json(const Claim& claim);
// Fails for what is no claim, and for a later `version` (absent: 1): then nobody may take it.
Result<Claim> parse_claim(std::string_view json);

// The owner of the claims below a prefix: two jobs of one name would take each other's for their
// own.
struct Owner {
  static constexpr std::string_view keys = "id! storage";
  // Unique among jobs of that name: the id of the job's folder on the share (host/records.hpp), or
  // the tag of its volumes.
  std::string id;
  std::string storage;  // config::storage_name(), for people
  bool operator==(const Owner&) const = default;
};
inline constexpr std::string_view owner_name = "job";
std::string to_json(const Owner& owner);
// Fails for what is no owner, and for a later `version`.
Result<Owner> parse_owner(std::string_view json);

enum class Hint : std::uint8_t { Ended, Given };

// "00042.claim": so that keys are listed in the order of the indices.
std::string claim_name(std::size_t index);
std::string result_name(std::size_t index);
std::string hint_name(std::size_t index, Hint hint);

// "00042.claim" -> 42 and "claim"; none: the name is not ours.
struct ObjectName {
  std::size_t index;
  std::string_view kind;  // a view of the name
};
std::optional<ObjectName> parse_object_name(std::string_view name);

// "attempt-3": the folder on the storage of the claim's third holder (host/attempt.hpp).
std::string attempt_name(std::uint64_t token);
std::optional<std::uint64_t> attempt_token(std::string_view name);

}  // namespace spotter::sweep
