#include <gtest/gtest.h>

#include "agent/wire/events.hpp"

namespace spotter::wire {
namespace {

TEST(Catalog, ExplainsEachKindOfEvent) {
  const auto all = explanations();
  ASSERT_EQ(all.size(), std::size(event_kinds));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].name, event_kinds[i].name);
    EXPECT_FALSE(all[i].subject.empty()) << all[i].name;
    EXPECT_GT(all[i].text.size(), 10U) << all[i].name;
    EXPECT_EQ(all[i].text.find('@'), std::string::npos) << all[i].name;
    EXPECT_EQ((all[i].subject + all[i].text).find("Defined-By"), std::string::npos);
  }
}

TEST(Catalog, WhatItReads) {
  const auto all = read_catalog(
      "# A remark: no entry.\n\n# interruption-notice\n"
      "-- e3a785e8c86e490b88decebde48a2afc\nSubject: EC2 takes @INSTANCE_ID@\n"
      "Defined-By: Spotter\n\nFirst\nparagraph.\n\nSecond.\n\n"
      "# another\n-- 00000000000000000000000000000000\nSubject: another's\n\nUnknown.\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].name, "another");
  EXPECT_EQ(all[0].name, "interruption-notice");
  EXPECT_EQ(all[0].subject, "EC2 takes INSTANCE_ID");
  EXPECT_EQ(all[0].text, "First\nparagraph.\n\nSecond.");
  EXPECT_TRUE(read_catalog("").empty());
}

}  // namespace
}  // namespace spotter::wire
