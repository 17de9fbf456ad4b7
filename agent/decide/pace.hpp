// Computes from the job's ledger (ledger.hpp) how often to write a checkpoint, and what is worth
// its price. Pure; tests/decide/pace_test.cpp.
#pragma once

#include "agent/decide/ledger.hpp"
#include "agent/decide/policy.hpp"

namespace spotter::decide {

// The interval between checkpoints that wastes least, when each holds training up for `stall` and
// work is lost once in `between_losses` on the average. First order: J. W. Young, "A first order
// approximation to the optimum checkpoint interval", CACM 17(9), 1974: sqrt(2 stall between). Here
// with the higher-order terms of J. T. Daly, "A higher order estimate of the optimum checkpoint
// interval for restart dumps", Future Generation Computer Systems 22(3), 2006.
// REQUIRES: both > 0.
Duration daly_interval(Duration stall, Duration between_losses);

// The advice to this job: Daly's interval of what is known, within the policy's bounds.
Duration checkpoint_every(const Ledger& ledger, const Policy& policy);

// The time for the next upload to the bucket: a quarter more than the last one took, as the network
// is not always as fast.
Duration next_upload(Duration last);

// The average of what the trainer reports, the newest weighing most; and the sum.
void learn_stall(Ledger& ledger, Duration stall);

// A rebalance recommendation is a bet: the price is one stall; the gain is the work `at_risk` since
// the newest checkpoint, if an interruption follows and comes without a notice.
bool hint_pays(const Ledger& ledger, Duration at_risk, const Policy& policy);

// Do snapshots ahead of a move pay? The price is their storage; the gain is the time for which an
// instance that costs `dollars_per_hour` would else wait for the copy after an interruption. Both
// grow with the volume's size alike, so it does not matter. 0 dollars (not known): they pay.
bool snapshots_pay(const Ledger& ledger, double dollars_per_hour, const Policy& policy);

// The rate in MiB/s at which EBS should load a copy that is made of a snapshot: what saves most,
// 100 to 300. The price is EBS's, the gain the time for which the instance would else wait. 0: none
// pays, or what it costs is not known.
std::uint32_t initialization_rate(double dollars_per_hour, std::uint64_t gibibytes,
                                  const Policy& policy);
// The price, in dollars.
double price_of_rate(std::uint32_t rate, std::uint64_t gibibytes, const Policy& policy);

}  // namespace spotter::decide
