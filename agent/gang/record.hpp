// A gang's record: the one object in S3 that says who its members are, and which of them train
// together. Changed only by conditional writes, so that each round has one list of ranks, and one
// leader, whatever the members believe.
//
//   <at>/<job>/gang
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/names.hpp"
#include "agent/base/result.hpp"

namespace spotter::gang {

struct Member {
  std::string id{};         // of one process on one machine: no two ever have the same
  std::string name{};       // of the machine, for people
  std::uint64_t beats = 0;  // one more with each of its writes: who stands still is dead
  // Its workers have ended, or never began: it waits for a round. Where the others reach the store
  // that it would keep as the leader.
  bool ready = false;
  std::string address{};
  std::uint16_t port = 0;
  bool apart = false;    // it could not reach another machine of the last round
  bool trained = false;  // it was in a round whose machines reached one another
  // The gang goes on without it, for good: since it came the others did not reach one another.
  bool left_out = false;
  // It has a notice. How long the others may count on it, from this write on; zero: not at all.
  std::optional<Duration> leaves_in{};

  bool operator==(const Member&) const = default;
};

struct Record {
  enum class Phase : std::uint8_t {
    Forming,   // of the next round: `round` is over, or is 0
    Training,  // `round`
    Done,      // the result is durable
    Failed  // again and again, its trainer or its network; the next member that comes starts over
  };
  std::string job{};  // whose it is: the id in the gang's home. Two jobs of one name differ in it
  Phase phase = Phase::Forming;
  std::uint64_t round = 0;
  std::vector<std::string> ranks{};  // of `round`: ids, the leader first
  std::uint32_t failures = 0;  // rounds in succession that ended by themselves, without progress
  std::uint32_t apart = 0;     // rounds in succession whose machines did not reach one another
  std::int64_t progress = -1;  // the newest checkpoint's step when `round` began
  std::vector<Member> members{};
  std::string writer{};  // of this write: no two writes have the same

  const Member* find(std::string_view id) const;
  Member* find(std::string_view id);
  bool operator==(const Record&) const = default;
};

// Limits of what is read: whoever may write to the bucket may have written the record.
inline constexpr std::size_t most_members = 256;
inline constexpr std::size_t longest_text = 256;         // an id, a name, an address
inline constexpr std::size_t longest_record = 1U << 20;  // in bytes
inline constexpr std::int64_t most_steps = 1LL << 48;
inline constexpr Duration longest_leave = std::chrono::days(7);

// Numbers beyond these limits become the nearest within: what parse_record() refuses would stop all
// members for ever.
std::string to_json(const Record& record);
// Fails for what is no record, for one beyond these limits or with control characters in it, and
// for a later `version` (absent: 1).
Result<Record> parse_record(std::string_view json);

}  // namespace spotter::gang
