// A machine of a fleet, for a job that needs eight GPUs.
#pragma once

#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {

// Up to the question whether they are there.
struct Machine : Story {
  explicit Machine(Ledger ledger = {}, Fleet fleet = {FleetKind::Ec2Fleet, "fleet-1"},
                   const HostLooked& looked = {}) {
    policy.gpus = 8;
    sense(Started{});
    answer(looked);
    answer(IdentityRead{kMe, "p4d.24xlarge", "us-west-2a", "us-west-2"});
    answer(FleetRead{fleet, 1.0});
    take_volume(ledger);
    pass(seconds(60));
  }
  // Everything is released, in the usual order.
  void release() {
    EXPECT_EQ(stage(), "closing-ledger");
    answer(LedgerWritten{});
    EXPECT_EQ(stage(), "unmounting");
    answer(Unmounted{});
    EXPECT_EQ(stage(), "detaching");
    answer(CallAccepted{});
  }
};

}  // namespace spotter::decide
