// What a session may make of a home's head as it is there: the next version of it, or none. Who
// writes one does so only in the place of the version that was judged (If-Match), else it looks
// again. Pure: act/home.cpp asks S3, and tests/simulate plays the same judgements.
#pragma once

#include <optional>

#include "agent/base/names.hpp"
#include "agent/wire/head.hpp"

namespace spotter::wire {

struct SeenHead {
  Head head;         // number 0: there is none
  std::string etag;  // empty: there is none
  Duration age{0};   // since S3 received it, by S3's clock
};

// A holder writes the head at least this often.
inline constexpr Duration head_lease{60'000};
// Of a holder that is no instance, or that EC2 does not know: it is gone.
bool is_lease_over(Duration age);
// Whether the holder of a head that is in use is gone, as the claims by which it and this session
// (`attempt`) have the experiment say. Of two attempts only the later has the claim: it waits for
// no end of the earlier one's machine, whose trainer the lease of the claim has ended. Of another
// one the head's own lease says it, as a machine lives on when its experiment has ended. None: one
// of the two has no claim.
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
    Enough,     // nothing is to be written
    Lost,       // the head is of another epoch
    Overtaken,  // by a later commit of the same session
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
// Of `content` its manifest, newest and bytes.
HeadChange to_content(const SeenHead& seen, const HeadHolder& holder, const Head& content,
                      bool overtaken);
HeadChange to_renewed(const SeenHead& seen, const HeadHolder& holder);

}  // namespace spotter::wire
