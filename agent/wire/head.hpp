// Two objects in S3 that say who may write: a fence's epoch, and the head of a home in a bucket.
//
// The fence's: `<fence>/<job>/<the job's first volume>.epoch`, changed only by
// conditional writes (spotter-storage(7), "A fence").
#pragma once

#include <optional>

#include "agent/base/result.hpp"
#include "agent/decide/survey.hpp"

namespace spotter::wire {

std::string to_json(const decide::Epoch& epoch);
// Fails for what is no epoch, and for a later `version` (absent: 1): then nobody may write over it.
Result<decide::Epoch> parse_epoch(std::string_view json);

// The head of a job's home in a bucket: the one object that is written again and again, each time
// in the place of the version before it (If-Match). It says who may write, and names all that is
// committed; what it names is never overwritten.
//
//   PREFIX/heads/JOB/head.json              {"version":1,"epoch":7,"state":"using", ...}
//   PREFIX/homes/JOB/manifests/7-SUM.json   the files of the home, with their sums (tier/home.hpp)
//   PREFIX/homes/JOB/data/7/SUM-BYTES       their bytes, under the epoch that kept them
//
// The trainer's role may write what is below homes/, and only the agent's the head.

struct Head {
  static constexpr std::string_view keys =
      "- job id? commits! attempt? manifest newest? bytes! s3_writes? s3_reads?";
  decide::Epoch epoch;  // number, state and holder; of a home there is no volume
  std::string job;      // whose home it is
  // 32 hexadecimal digits, drawn with the first epoch: what is here of another home of that name,
  // or of one that was removed, is not taken for its own. Empty: of an agent before there were ids.
  std::string id;
  // One more with each commit: no two versions of a head have the same bytes, so that an old write
  // that arrives late is refused.
  std::uint64_t commits = 0;
  // The token of the claim by which the holder has an experiment that machines claim one after the
  // other (sweep/claim.hpp). 0: it is not claimed.
  std::uint64_t attempt = 0;
  std::string manifest;      // "manifests/7-SUM.json"; empty: nothing is committed
  std::int64_t newest = -1;  // the step of the newest checkpoint in it; -1: none
  std::uint64_t bytes = 0;   // of all its files
  // Requests to S3 of the session that released it, which its ledger has not: those of the last
  // commit, and what followed. The next session counts them.
  std::uint64_t s3_writes = 0, s3_reads = 0;
  friend bool operator==(const Head&, const Head&);
};

inline constexpr std::string_view head_name = "head.json";

std::string to_json(const Head& head);
// Fails for what to_json() cannot have written, but for unknown members. `newer`: a later version.
Result<Head> parse_head(std::string_view text);

bool is_home_id(std::string_view id);

// "manifests/7-" and 32 hexadecimal digits and ".json": it never leads out of the home.
bool is_manifest_name(std::string_view name);

// Judges what a session may make of a home's head: its next version, or none. A writer only
// replaces the version that was judged (If-Match), else it looks again. Pure: act/home.cpp asks S3,
// and tests/simulate plays the same judgements.

struct SeenHead {
  Head head;         // number 0: there is none
  std::string etag;  // empty: there is none
  Duration age{0};   // since S3 received it, by S3's clock
};

// A holder writes the head at least this often.
inline constexpr Duration head_lease{60'000};
// True means that a holder is gone that is no instance, or that EC2 does not know.
bool is_lease_over(Duration age);
// Whether the holder of a head in use is gone, by its claim on the experiment and this session's
// (`attempt`). A holder with an earlier claim is: its machine's end is not awaited, as the lease of
// the claim has ended its trainer. Any other holder is gone by the head's own lease, as a machine
// lives on when its experiment has ended. None: one of the two has no claim.
std::optional<bool> is_gone_by_claim(const SeenHead& seen, std::uint64_t attempt);
// Whether a later claim than this session's (`attempt`) was at the home within a lease: the session
// woke up after its own claim was over, and takes nothing, not even what is released. After that
// time it may: claims that a person removed are counted from 1 again.
bool is_of_later_claim(const SeenHead& seen, std::uint64_t attempt);

struct HeadHolder {
  std::uint32_t epoch = 0;
  InstanceId name;
};
// Its number, holder and state say so: else nothing that this holder does counts any more.
bool is_held(const Head& head, const HeadHolder& holder);

struct HeadChange {
  enum class Kind : std::uint8_t {
    Write,
    Enough,  // nothing is to be written
    Lost,    // the head is of another epoch
  } kind = Kind::Lost;
  Head next;           // of Write
  bool again = false;  // of Write: what was written meanwhile may be ours, and is worth a look
};

struct HomeNames {
  std::string job;
  std::string id;  // where the head has none yet
  std::uint64_t attempt = 0;
  std::uint64_t s3_writes = 0, s3_reads = 0;  // of a release
};
HeadChange to_epoch(const SeenHead& seen, const decide::Epoch& next, const HomeNames& names);
// Takes the manifest, newest and bytes of `content`.
HeadChange to_content(const SeenHead& seen, const HeadHolder& holder, const Head& content);
HeadChange to_renewed(const SeenHead& seen, const HeadHolder& holder);

}  // namespace spotter::wire
