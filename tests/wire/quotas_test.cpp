#include "agent/aws/formats/services.hpp"

#include <gtest/gtest.h>

namespace spotter::wire {
namespace {

std::string_view code_of(std::string_view type) {
  const InstanceQuota* quota = spot_quota_of(type);
  return quota == nullptr ? "" : quota->code;
}

TEST(InstanceQuota, IsThatOfTheFamily) {
  EXPECT_EQ(code_of("g5.xlarge"), "L-3819A6DF");
  EXPECT_EQ(code_of("g4dn.xlarge"), "L-3819A6DF");
  EXPECT_EQ(code_of("gr6.4xlarge"), "L-3819A6DF");
  EXPECT_EQ(code_of("p3dn.24xlarge"), "L-7212CCBC");
  EXPECT_EQ(code_of("p5en.48xlarge"), "L-C4BD4855");
  EXPECT_EQ(code_of("p6-b200.48xlarge"), "");
  EXPECT_EQ(code_of("im4gn.large"), "L-34B43A08");
  EXPECT_EQ(code_of("inf2.xlarge"), "L-B5D1601B");
  EXPECT_EQ(code_of("trn1.2xlarge"), "L-6B0D517C");
  EXPECT_EQ(code_of("x2idn.16xlarge"), "L-E3A00192");
  EXPECT_EQ(code_of(""), "");
}

// One quota of on-demand instances counts all families of P.
TEST(InstanceQuota, OnDemandIsAnother) {
  const auto of = [](std::string_view type) { return on_demand_quota_of(type)->code; };
  EXPECT_EQ(of("g5.xlarge"), "L-DB2E81BA");
  EXPECT_EQ(of("p3dn.24xlarge"), "L-417A185B");
  EXPECT_EQ(of("p5en.48xlarge"), "L-417A185B");
  EXPECT_EQ(of("m5.large"), "L-1216C47A");
  EXPECT_EQ(on_demand_quota_of("p6-b200.48xlarge"), nullptr);
}

TEST(GetServiceQuota, ItsAnswer) {
  EXPECT_EQ(decode<GetEc2Quota>(R"({"Quota":{"QuotaCode":"L-1","Value":64.0}})"), 64.0);
  for (const char* wrong : {"", "[]", "{}", R"({"Quota":7})", R"({"Quota":{"Value":"64"}})"})
    EXPECT_FALSE(decode<GetEc2Quota>(wrong)) << wrong;
}

}  // namespace
}  // namespace spotter::wire
