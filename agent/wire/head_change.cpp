#include "agent/wire/head_change.hpp"

#include <utility>

namespace spotter::wire {
namespace {

// One lost renewal more, and the second that Last-Modified cuts off.
constexpr Duration lease_margin{30'000};
constexpr int leases_in_span = 3;

// No two versions have the same bytes.
HeadChange written(Head next, bool again) {
  ++next.commits;
  return {HeadChange::Kind::Write, std::move(next), again};
}

}  // namespace

bool is_lease_over(Duration age) { return age > head_lease * leases_in_span + lease_margin; }

std::optional<bool> is_gone_by_claim(const SeenHead& seen, std::uint64_t attempt) {
  if (seen.head.attempt == 0 || attempt == 0) return std::nullopt;
  return seen.head.attempt < attempt || is_lease_over(seen.age);
}

bool is_of_later_claim(const SeenHead& seen, std::uint64_t attempt) {
  return attempt != 0 && seen.head.attempt > attempt && !is_lease_over(seen.age);
}

bool is_held(const Head& head, const HeadHolder& holder) {
  return head.epoch.number == holder.epoch && head.epoch.holder == holder.name &&
         head.epoch.state == decide::Epoch::State::Using;
}

// A commit of our own may have been late; one of another holder shows that it lives.
HeadChange to_epoch(const SeenHead& seen, const decide::Epoch& next, const HomeNames& names) {
  const decide::Epoch& old = seen.head.epoch;
  if (old.number + 1 != next.number) return {HeadChange::Kind::Lost, {}, false};
  if (next.state == decide::Epoch::State::Using && is_of_later_claim(seen, names.attempt))
    return {HeadChange::Kind::Lost, {}, false};
  Head head = seen.head;
  head.epoch = next;
  head.job = names.job;
  head.attempt = names.attempt;
  head.s3_writes = names.s3_writes;
  head.s3_reads = names.s3_reads;
  if (head.id.empty()) head.id = names.id;
  return written(std::move(head), old.holder == next.holder);
}

// One that nobody waits for any more must not put an older manifest in the place of a newer one: it
// ends when the next one has begun. Which one that is its caller asks after the head was read, so
// that a write of the next one in between makes its own fail.
HeadChange to_content(const SeenHead& seen, const HeadHolder& holder, const Head& content,
                      bool overtaken) {
  if (overtaken) return {HeadChange::Kind::Overtaken, {}, false};
  if (!is_held(seen.head, holder)) return {HeadChange::Kind::Lost, {}, false};
  Head head = seen.head;
  head.manifest = content.manifest;
  head.newest = content.newest;
  head.bytes = content.bytes;
  return written(std::move(head), true);  // no other machine writes in this epoch
}

HeadChange to_renewed(const SeenHead& seen, const HeadHolder& holder) {
  if (!is_held(seen.head, holder)) return {HeadChange::Kind::Lost, {}, false};
  if (seen.age < head_lease / 2) return {HeadChange::Kind::Enough, {}, false};  // a commit came
  return written(seen.head, true);
}

}  // namespace spotter::wire
