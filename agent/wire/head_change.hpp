// What a session may make of a home's head as it is there: the next version of it, or none. Who
// writes one does so only in the place of the version that was judged (If-Match), else it looks
// again. Pure: act/home.cpp asks S3, and tests/simulate plays the same judgements.
#pragma once

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
};
HeadChange to_epoch(const SeenHead& seen, const decide::Epoch& next, const HomeNames& names);
// Of `content` its manifest, newest and bytes.
HeadChange to_content(const SeenHead& seen, const HeadHolder& holder, const Head& content,
                      bool overtaken);
HeadChange to_renewed(const SeenHead& seen, const HeadHolder& holder);

}  // namespace spotter::wire
