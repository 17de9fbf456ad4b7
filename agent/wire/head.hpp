// The head of a job's home in a bucket: the one object that is written again and again, each time
// in the place of the version before it (If-Match). It says who may write, and names all that is
// committed; what it names is never overwritten.
//
//   PREFIX/heads/JOB/head.json              {"version":1,"epoch":7,"state":"using", ...}
//   PREFIX/homes/JOB/manifests/7-SUM.json   the files of the home, with their sums (tier/home.hpp)
//   PREFIX/homes/JOB/data/7/SUM-BYTES       their bytes, under the epoch that brought them
//
// The trainer's role may write what is below homes/, and only the agent's the head.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"
#include "agent/decide/epoch.hpp"

namespace spotter::wire {

struct Head {
  decide::Epoch epoch;  // number, state and holder; of a home there is no volume
  std::string job;      // whose home it is
  // 32 hexadecimal digits, drawn with the first epoch: what is here of another home of that name,
  // or of one that was removed, is not taken for its own. Empty: of an agent before there were ids.
  std::string id;
  // One more with each commit: no two versions of a head have the same bytes, so that an old write
  // that arrives late is refused.
  std::uint64_t commits = 0;
  // Of an experiment that machines claim one after the other (sweep/claim.hpp): the token of the
  // claim by which the holder has it. 0: it is not claimed.
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

}  // namespace spotter::wire
