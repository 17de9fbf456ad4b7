// The chapters of a job whose home is in a bucket.
#pragma once

#include <gtest/gtest.h>

#include "tests/decide/story.hpp"

namespace spotter::decide {

struct BucketStory : Story {
  BucketStory() {
    policy.storage = StorageKind::Bucket;
    policy.has_code = false;
  }
  void look(const Epoch& epoch, HolderState holder = HolderState::Alive) {
    if (stage() != "surveying") wake();
    ASSERT_EQ(stage(), "surveying");
    Survey survey;
    survey.epoch = epoch;
    survey.epoch_holder = holder;
    survey.epoch_self = kMe;
    answer(StorageSurveyed{survey});
  }
  // From the free head to a home that is here; its first write is asked for.
  void bring(Ledger ledger = {}) {
    boot();
    look({});
    ASSERT_TRUE(did<WriteEpoch>());
    EXPECT_EQ(did<WriteEpoch>()->epoch.number, 1U);
    EXPECT_EQ(did<WriteEpoch>()->epoch.holder, kMe);
    answer(EpochWritten{});
    EXPECT_EQ(asked(), "prepare-share");
    answer(Mounted{});
    answer(LedgerRead{ledger});
    answer(CheckpointsVerified{});
    ASSERT_EQ(stage(), "counting-attempt");
  }
  // ... and to a running trainer.
  void begin(Ledger ledger = {}) {
    bring(ledger);
    ASSERT_TRUE(did<WriteLedger>());
    EXPECT_EQ(did<WriteLedger>()->epoch, 1U) << "the attempt is committed before it begins";
    answer(LedgerWritten{});
    answer(TrainerStarted{});
    ASSERT_EQ(stage(), "training");
  }
  void checkpoint(std::int64_t step) { sense(CheckpointMade{step, seconds(1)}); }
  void kept(std::int64_t step, Duration took = seconds(1)) {
    sense(HomeKept{HomeKept::Outcome::Committed, step, 1000, took});
  }
};

}  // namespace spotter::decide
