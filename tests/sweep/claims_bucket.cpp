// The world's network and bucket.
#include <algorithm>

#include "tests/sweep/claims_world.hpp"

namespace spotter::sweep {
namespace {

constexpr Moment timeout = 10'000;  // of a request
constexpr Moment epoch = 1'800'000'000'000;

wire::WallTime date_of(Moment moment) {
  return wire::WallTime(std::chrono::seconds((epoch + moment) / 1000));
}

}  // namespace

void World::carry(Machine& machine, const Request& request) {
  ++figures_.requests;
  const auto& troubles = settings_.troubles;
  const auto answered = [this, &machine, number = request.number](Moment when, Answer answer) {
    at(when, [this, &machine, number, answer = std::move(answer)] {
      hear(machine, Reply{number, answer});
    });
  };
  if (outage() || chance(troubles.lost_requests)) return answered(now_ + timeout, NoAnswer{});
  const bool late = chance(troubles.late_requests);
  const Moment arrives = now_ + (late ? uniform(timeout, longest_trouble) : uniform(10, 100));
  if (late) answered(now_ + timeout, NoAnswer{});
  const bool unanswered = late || chance(troubles.lost_answers);
  if (unanswered && !late) answered(now_ + timeout, NoAnswer{});
  at(arrives, [this, answered, unanswered, ask = request.ask] {
    Answer answer = serve(ask);
    if (!unanswered) answered(now_ + uniform(10, 100), std::move(answer));
  });
}

Answer World::serve(const Ask& ask) {
  if (std::holds_alternative<ListClaims>(ask)) return list();
  if (const auto* pin = std::get_if<FindParent>(&ask))
    return Parent{parent_of(pin->index, pin->token)};
  if (const auto* read = std::get_if<ReadClaim>(&ask)) {
    ReadAnswer answer;
    answer.date = date_of(now_);
    if (const auto& claim = experiments_[read->index].claim)
      answer.found = {parse_claim(claim->body), claim->etag, date_of(claim->written)};
    return answer;
  }
  return write(std::get<WriteClaim>(ask));
}

Listed World::list() const {
  Listed listed;
  listed.date = date_of(now_);
  for (std::size_t index = 0; index < experiments_.size(); ++index) {
    const auto& it = experiments_[index];
    if (it.claim) listed.claims.push_back({index, date_of(it.claim->written)});
    if (it.ended) listed.ended.push_back(index);
    if (it.given) listed.given.push_back(index);
  }
  return listed;
}

Answer World::write(const WriteClaim& write) {
  auto& it = experiments_[write.index];
  if ((it.claim ? it.claim->etag : "") != write.etag) {
    ++figures_.refused;
    return NotWritten{};
  }
  const Claim before = it.claim ? *parse_claim(it.claim->body) : Claim{Claim::State::Given, 0};
  const Claim& after = write.claim;
  const std::string which = "experiment " + std::to_string(write.index);
  if (before.ended()) break_promise(which + " has ended, and its claim was changed");
  if (after.token != before.token && after.token != before.token + 1)
    break_promise(which + ": a token was left out");
  if (after.token == before.token && after.parent != before.parent)
    break_promise(which + ": another parent for the same token");
  if (after.state == Claim::State::Held && after.token == before.token) ++figures_.renewals;
  if (after.ended()) {
    ++ended_;
    ++(after.state == Claim::State::Done ? figures_.done : figures_.given_up);
  }
  const bool done = after.state == Claim::State::Done;
  const bool finished = std::ranges::any_of(it.saved, [&](const Saved& each) {
    return each.token == after.token && each.progress >= settings_.work;
  });
  const bool stopped = it.stopped_by == after.token;
  if (done && !finished && !stopped)
    break_promise(which + " was published without a result of that attempt");
  if (done && finished && stopped) break_promise(which + " was stopped and has finished");
  if (done) it.finished = finished;
  if (done && stopped) ++figures_.stopped;
  it.claim = Object{to_json(after), "e" + std::to_string(++etags_), now_};
  return Written{it.claim->etag};
}

void World::mark(const Mark& mark) {
  auto& it = experiments_[mark.index];
  (mark.hint == Hint::Ended ? it.ended : it.given) = mark.there;
}

// The newest checkpoint before `token`: of the highest token that has one. A claim takes an
// attempt's name alone: its number has the token and the progress.
std::string World::parent_of(std::size_t index, std::uint64_t token) const {
  const Saved* newest = nullptr;
  for (const auto& each : experiments_[index].saved) {
    if (each.token >= token) continue;
    if (newest == nullptr || each.token > newest->token ||
        (each.token == newest->token && each.progress > newest->progress))
      newest = &each;
  }
  if (newest == nullptr) return {};
  return attempt_name((newest->token << progress_bits) |
                      static_cast<std::uint64_t>(newest->progress));
}

}  // namespace spotter::sweep
