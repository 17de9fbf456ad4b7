// A gang's record: the one object in S3 that says who its members are, and which of them train
// together. Changed only by conditional writes, so that each round has one list of ranks, and one
// leader, whatever the members believe.
//
//   <at>/<job>/gang
#pragma once

#include <map>
#include <optional>

#include "agent/base/names.hpp"
#include "agent/base/result.hpp"

namespace spotter::gang {

// The end of a machine's workers in the last round, by what they and torchrun said.
enum class End : std::uint8_t {
  Other,   // nobody said
  Ended,   // by `spotter gang`: their round was over, or its own lease
  Torn,    // a connection to another machine was lost, or nothing came over it any more
  Failed,  // by themselves
  Hung     // one of them: it did no step for long, and waited for no other
};

// "": of another word, which a later version may use, too.
constexpr std::array<const char*, 5> words_of(End) {
  return {"", "ended", "torn", "failed", "hung"};
}

struct Member {
  static constexpr std::string_view keys =
      "id! name beats! ready! address port! word? ended? apart? missed? trained? faults? replaced? "
      "given_back? left_out? leaves_in_ms -";
  std::string id{};         // of one process on one machine: no two ever have the same
  std::string name{};       // of the machine, for people
  std::uint64_t beats = 0;  // one more with each of its writes: who stands still is dead
  // Its workers have ended, or never began: it waits for a round. The address and port are where
  // the others reach the store that it would keep as the leader.
  bool ready = false;
  std::string address{};
  std::uint16_t port = 0;
  // The secret with which the keys in that store begin; empty: of an older version.
  std::string word{};
  End end = End::Other;  // while it is ready
  bool apart = false;    // it could not reach another machine of the last round, ...
  std::string missed{};  // ... whose id this is; empty: that cannot be said
  bool trained = false;  // it was in a round whose machines reached one another
  // It was the reason that a round ended so often: it alone said that a worker of it hung, or most
  // others did not reach it.
  std::uint32_t faults = 0;
  bool replaced = false;    // its fleet launches another machine in its place
  bool given_back = false;  // its agent ends it: for its faults, or in the place of `left_out`
  // The gang goes on without it, as long as enough are left: since it came the others did not reach
  // one another.
  bool left_out = false;
  // It has a notice. The others may count on it for so long, from this write on; zero: not at all.
  std::optional<Duration> leaves_in{};
  std::string unknown{};  // Record::unknown, of this member

  bool operator==(const Member&) const = default;
};

struct Record {
  static constexpr std::string_view keys =
      "job phase! round! ranks! failures! apart torn given_back sound progress! newest members! "
      "faults? writer -";
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
  std::uint32_t failures = 0;    // rounds in succession that ended by themselves, without progress
  std::uint32_t apart = 0;       // rounds in succession whose machines did not reach one another
  std::uint32_t torn = 0;        // ... that lost one another later, since the newest checkpoint
  std::uint32_t given_back = 0;  // machines, since faults were forgotten
  std::uint32_t sound = 0;       // rounds with a new checkpoint since a machine hung, or was apart
  std::int64_t progress = -1;    // the newest checkpoint's step when `round` began
  std::int64_t newest = -1;  // ... that a member has seen: who begins a round may not have looked
  std::vector<Member> members{};
  // Member::faults of machines whose process has ended, by their names: the next one's are these.
  std::map<std::string, std::uint32_t> faults{};
  std::string writer{};  // of this write: no two writes have the same
  // Fields that a later version has written beside all of this, as one JSON object: each write
  // hands them on, or a gang with two versions on its machines would lose them. Empty: none.
  std::string unknown{};

  const Member* find(std::string_view id) const;
  Member* find(std::string_view id);
  bool operator==(const Record&) const = default;
};

constexpr std::array<const char*, 4> words_of(Record::Phase) {
  return {"forming", "training", "done", "failed"};
}

// Limits of what is read: whoever may write to the bucket may have written the record.
inline constexpr std::size_t most_members = 256;
inline constexpr std::size_t longest_text = 256;         // an id, a name, an address
inline constexpr std::size_t longest_word = 64;          // Member::word
inline constexpr std::size_t longest_record = 1U << 20;  // in bytes
// The limits of `unknown`, in bytes: with all else at its limit, too, what was read can be written
// and read again, or one machine's write would stop all for ever.
inline constexpr std::size_t longest_unknown = 1U << 14;
inline constexpr std::size_t longest_unknown_of_a_member = 512;
inline constexpr std::int64_t most_steps = 1LL << 48;
inline constexpr Duration longest_leave = std::chrono::days(7);

// Numbers beyond these limits become the nearest within: what parse_record() refuses would stop all
// members for ever.
std::string to_json(const Record& record);
// Fails for what is no record, for one beyond these limits or with control characters in it, and
// for a later `version` (absent: 1).
Result<Record> parse_record(std::string_view json);

}  // namespace spotter::gang
