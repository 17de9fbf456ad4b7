#include "agent/sweep/claimant.hpp"

#include <algorithm>

namespace spotter::sweep {
namespace {

constexpr int retries_in_a_lease = 8;
// Less than a service manager waits before it kills.
constexpr Duration most_patience{60'000};
constexpr int most_misses = 3;  // then a listing is too old

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace

Claimant::Orders Claimant::on(Time now, const News& news) {
  now_ = now;
  orders_.clear();
  const bool done = std::holds_alternative<TrainerDone>(news);  // then the clock does not matter
  if (training_ && !done && now_ >= usable_until_)
    end_trainer("the lease could not be renewed in time");
  std::visit(Overloaded{[&](const Reply& answer) { reply(answer); },
                        [&](const TrainerDone&) {
                          if (!training_) return;
                          training_ = false;
                          last_ = claim_;
                          last_->state = Claim::State::Done;
                        },
                        [&](const TrainerFailed& failed) { trainer_ended(failed); },
                        [&](const TrainerGone& gone) { trainer_gone(gone); },
                        [&](const Leave&) { leave(); }, [](const Tick&) {}},
             news);
  if (last_ && phase_ == Phase::Holding) {
    write(Purpose::Finish, *last_);
    last_.reset();
  }
  if (!awaited_ && phase_ != Phase::Gone && now_ >= again_) act();
  return std::move(orders_);
}

Time Claimant::wake_at() const {
  Time wake = awaited_ || phase_ == Phase::Gone ? Time::max() : again_;
  if (training_) wake = std::min(wake, usable_until_);
  return wake;
}

void Claimant::act() {
  switch (phase_) {
    case Phase::Listing:
      return ask(ListClaims{});
    case Phase::Looking:
    case Phase::Settling:
      return ask(ReadClaim{index_});
    case Phase::Pinning:
      return ask(FindParent{index_, writing_.token});
    case Phase::Holding:
      write(Purpose::Renew, claim_);
      [[fallthrough]];
    case Phase::Writing:
      return ask(WriteClaim{index_, writing_, etag_});
    case Phase::Gone:
      return;
  }
}

void Claimant::ask(Ask what) {
  awaited_ = true;
  orders_.emplace_back(Request{++number_, std::move(what)});
}

// Agents must not all come at the same moment: up to a quarter more or less.
void Claimant::later(Phase phase, Duration pause) {
  phase_ = phase;
  const auto quarter = static_cast<std::uint64_t>(pause.count()) / 4;
  again_ = now_ + pause - Duration(quarter) + Duration(random() % (2 * quarter + 1));
}

void Claimant::at_once(Phase phase) {
  phase_ = phase;
  again_ = now_;
}

void Claimant::reply(const Reply& reply) {
  if (!awaited_ || reply.number != number_) return;
  awaited_ = false;
  const Duration soon = settings_.lease / retries_in_a_lease;
  const bool writes = phase_ == Phase::Writing;
  std::visit(Overloaded{[&](const Listed& listing) { listed(listing); },
                        [&](const ReadAnswer& answer) {
                          phase_ == Phase::Settling ? settled(answer) : looked(answer);
                        },
                        [&](const Parent& parent) {
                          writing_.parent = parent.checkpoint;
                          write(Purpose::Take, writing_);
                        },
                        [&](const Written& answer) { written(answer.etag); },
                        [&](const NotWritten&) { at_once(Phase::Settling); },
                        [&](const NoAnswer&) {
                          if (leaving_ && now_ >= leave_by_) return gone();
                          later(writes ? Phase::Settling : phase_, soon);
                        }},
             reply.answer);
}

// --- finding one

void Claimant::listed(const Listed& listing) {
  for (const auto index : listing.ended)
    if (index < ended_.size()) ended_[index] = true;
  listed_at_ = now_;
  misses_ = 0;
  unclaimed_.clear();
  given_.clear();
  unfinished_ = 0;
  auto claim = listing.claims.begin();
  for (std::size_t index = 0; index < ended_.size(); ++index) {
    while (claim != listing.claims.end() && claim->index < index) ++claim;
    const bool claimed = claim != listing.claims.end() && claim->index == index;
    if (ended_[index]) {
      if (!claimed) complain(hint_name(index, Hint::Ended) + ": there is no claim beside it");
      continue;
    }
    ++unfinished_;
    if (!claimed) {
      unclaimed_.push_back(index);
    } else if (std::ranges::binary_search(listing.given, index) ||
               listing.date - claim->modified > settings_.span() + settings_.margin) {
      given_.push_back(index);
    }
  }
  const auto fails = [this](std::size_t index) { return failed_here_[index]; };
  const bool others = !unclaimed_.empty() || !std::ranges::all_of(given_, fails);
  if (others) std::erase_if(given_, fails);
  next_candidate();
}

// A listing of ten thousand experiments costs some twenty requests, so it serves several claims.
bool Claimant::listing_is_good() const {
  return !unclaimed_.empty() && misses_ < most_misses && now_ - listed_at_ < settings_.lease;
}

// Begun experiments come first; a random one of them, so that agents do not all try the same.
void Claimant::next_candidate() {
  auto& from = given_.empty() ? unclaimed_ : given_;
  if (from.empty()) {
    orders_.emplace_back(Idle{unfinished_});
    return later(Phase::Listing, settings_.lease);
  }
  const bool claimed = !given_.empty();
  auto first = from.begin();
  if (!settings_.near.empty()) {
    const auto far = [this](std::size_t index) { return !settings_.near[index]; };
    first = std::partition(from.begin(), from.end(), far);
    if (first == from.end()) first = from.begin();
  }
  const auto choices = static_cast<std::uint64_t>(from.end() - first);
  std::iter_swap(first + static_cast<std::ptrdiff_t>(random() % choices), from.end() - 1);
  index_ = from.back();
  from.pop_back();
  etag_.clear();
  claim_ = {};
  claimed ? at_once(Phase::Looking) : write(Purpose::Take, Claim{});
}

bool Claimant::may_be_taken(const ReadAnswer::Found& found, wire::WallTime date) const {
  if (found.claim->state == Claim::State::Given) return true;
  return date - found.modified > found.claim->span + settings_.margin;
}

void Claimant::looked(const ReadAnswer& answer) {
  if (!answer.found) return write(Purpose::Take, Claim{});
  const auto& found = *answer.found;
  if (!found.claim) {
    complain(claim_name(index_) + ": " + found.claim.error().message);
    return next_candidate();
  }
  if (found.claim->ended()) {
    ended_[index_] = true;
    orders_.emplace_back(
        Published{index_, found.claim->token, found.claim->state == Claim::State::Done});
    --unfinished_;
    return next_candidate();
  }
  if (!may_be_taken(found, answer.date)) {
    // Another agent has just taken it; without the hint others need not read it.
    if (found.claim->state == Claim::State::Held)
      orders_.emplace_back(Mark{index_, Hint::Given, false});
    return next_candidate();
  }
  claim_ = *found.claim;
  etag_ = found.etag;
  writing_ = claim_;
  writing_.token = claim_.token + 1;
  at_once(Phase::Pinning);
}

// --- writing

void Claimant::write(Purpose purpose, Claim claim) {
  writing_ = std::move(claim);
  if (purpose != Purpose::Finish) writing_.state = Claim::State::Held;
  writing_.holder = settings_.holder;
  writing_.span = settings_.span();
  writing_.nonce = settings_.nonce + "-" + std::to_string(++writes_);
  purpose_ = purpose;
  sent_ = now_;
  at_once(Phase::Writing);
}

bool Claimant::is_mine(const Claim& claim) const {
  return claim.nonce.starts_with(settings_.nonce + "-") && claim.token == writing_.token;
}

// The object shows whether the write was done. If it was not, it may still be: so the same write is
// sent again, and S3 accepts at most one of the two.
void Claimant::settled(const ReadAnswer& answer) {
  const auto& found = answer.found;
  if (found && found->claim && found->claim->nonce == writing_.nonce) return written(found->etag);
  const bool unchanged = found ? found->etag == etag_ : etag_.empty();
  if (unchanged) return later(Phase::Writing, settings_.lease / retries_in_a_lease);
  if (found && found->claim && is_mine(*found->claim)) {  // an earlier write, done late
    etag_ = found->etag;
    claim_ = *found->claim;
    return at_once(Phase::Writing);
  }
  overtaken(found && found->claim ? found->claim->holder : "somebody");
}

void Claimant::written(const std::string& etag) {
  etag_ = etag;
  const bool was_given = claim_.state == Claim::State::Given;
  claim_ = writing_;
  if (purpose_ == Purpose::Finish) return finished();
  if (purpose_ == Purpose::Take) {
    if (was_given) orders_.emplace_back(Mark{index_, Hint::Given, false});
    return took();
  }
  if (training_) {
    usable_until_ = sent_ + settings_.span();
    orders_.emplace_back(Extend{usable_until_});
  }
  hold();
}

void Claimant::took() {
  // If S3 took long to answer, little of the span is left: renews before anything begins.
  if (now_ - sent_ > settings_.lease) return write(Purpose::Take, claim_);
  hold();
  if (leaving_) return give_back();
  training_ = true;
  usable_until_ = sent_ + settings_.span();
  orders_.emplace_back(Begin{index_, claim_.token, claim_.parent, usable_until_});
}

void Claimant::hold() {
  phase_ = Phase::Holding;
  again_ = sent_ + settings_.lease;
}

void Claimant::overtaken(const std::string& by) {
  if (training_) orders_.emplace_back(End{"taken over by " + by});
  training_ = ending_ = false;
  last_.reset();
  if (leaving_) return gone();
  if (purpose_ == Purpose::Take) ++misses_;
  listing_is_good() ? next_candidate() : at_once(Phase::Listing);
}

// --- releasing

void Claimant::trainer_ended(const TrainerFailed& how) {
  if (!training_) return;
  training_ = false;
  failed_here_[index_] = true;
  last_ = claim_;
  last_->failures = how.progress ? 0 : claim_.failures + 1;
  last_->state =
      last_->failures >= settings_.most_failures ? Claim::State::Failed : Claim::State::Given;
}

void Claimant::end_trainer(const std::string& why) {
  orders_.emplace_back(End{why});
  training_ = false;
  ending_ = true;
}

void Claimant::trainer_gone(const TrainerGone& gone) {
  if (ending_ && gone.index == index_ && gone.token == claim_.token) give_back();
}

void Claimant::give_back() {
  training_ = ending_ = false;
  last_ = claim_;
  last_->state = Claim::State::Given;
}

void Claimant::finished() {
  if (claim_.ended()) {
    ended_[index_] = true;
    orders_.emplace_back(Published{index_, claim_.token, claim_.state == Claim::State::Done});
  } else {
    orders_.emplace_back(Mark{index_, Hint::Given, true});
  }
  if (leaving_) return gone();
  listing_is_good() ? next_candidate() : at_once(Phase::Listing);
}

void Claimant::leave() {
  if (leaving_) return;
  leaving_ = true;
  leave_by_ = now_ + std::min(settings_.lease, most_patience);
  if (phase_ == Phase::Listing || phase_ == Phase::Looking || phase_ == Phase::Pinning) {
    awaited_ = false;
    return gone();
  }
  if (training_) give_back();
}

void Claimant::gone() {
  phase_ = Phase::Gone;
  orders_.emplace_back(Left{});
}

std::uint64_t Claimant::random() {  // SplitMix64
  chance_ += 0x9e3779b97f4a7c15U;
  std::uint64_t mixed = chance_;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

}  // namespace spotter::sweep
