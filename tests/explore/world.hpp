// The abstract world's answers to requests, each in one piece.
#pragma once

#include "tests/explore/model.hpp"

namespace spotter::explore {

inline decide::EffectFailed failed(decide::Failure kind) {
  decide::EffectFailed result;
  result.failure = kind;
  return result;
}

// Carries out one call to EC2 and says what EC2 answers. `caller`: the place of the instance that
// asked (1, 2), kNobody: it is dead by now. `unseen`: what changes is shown only after the
// consistency bound.
decide::Happening call_ec2(Node& node, std::uint8_t caller, const decide::Command& command,
                           bool unseen);
bool changes_ec2(const decide::Command& command);
// `stale`: with all that a late look may still show.
decide::Survey survey(const Node& node, bool stale);
bool is_stale(const Node& node);
// Does one piece of work on the host.
decide::Happening work(Node& node, Host& host, const decide::Command& command);

void write_checkpoint(Node& node, Host& host);
void end_trainer(Node& node, Host& host, bool success, bool as_asked);
void count_vain(Node& node);  // an attempt that came to nothing
// The end of an instance. Its attachments stay with its remains for a while.
void die(Node& node, std::uint8_t place, std::uint8_t remains, bool torn);

// --- bucket.cpp: a home in a bucket; all of it is nothing without one ---
bool in_bucket();
bool is_lease_over(const Node& node);  // as it may seem to others
bool is_held(const Node& node, std::uint8_t place, std::uint32_t epoch);
decide::Happening bring(Node& node, Host& host);
// A commit of the whole working copy; LedgerWritten, or Failure::Conflict: another epoch is there.
decide::Happening keep(Node& node, Host& host, const decide::WriteLedger& it);
void overtake(Node& node, std::uint8_t place);  // an older commit of its without an answer
void write_locally(Host& host, const decide::Ledger& ledger);
// `place`: kNobody: in flight from one that is dead. False: refused.
bool commit(Node& node, std::uint8_t place, std::uint32_t epoch, const Contents& copy);
decide::Happening write_epoch(Node& node, std::uint8_t place, const decide::Epoch& epoch);
void judge_start_in_bucket(Node& node, const Host& host);

// --- judge.cpp: what must hold; else broken() ---
void judge_start(Node& node, const Host& host);
void judge_write(Node& node, const Host& host, std::uint8_t volume);
void judge_removal(Node& node, const Volume& gone, std::uint8_t caller);
void judge_cancel(Node& node, std::uint8_t caller);
void judge_surrender(Node& node);
void judge_give_back(Node& node, const Host& host);
void judge_end(Node& node);  // nothing can happen any more

}  // namespace spotter::explore
