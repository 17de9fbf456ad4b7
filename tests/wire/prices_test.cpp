#include "agent/aws/formats/services.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace spotter::wire {
namespace {

// The form of AWS's answer: each product is a text that is a document.
std::string price_answer(const std::string& dimensions) {
  const std::string product =
      R"({"product":{"attributes":{"instanceType":"g5.xlarge"},"sku":"A"},"serviceCode":"AmazonEC2",
          "terms":{"Reserved":{"A.R":{"priceDimensions":{"A.R.X":{"unit":"Hrs",
                     "pricePerUnit":{"USD":"0.1000000000"}}}}},
                   "OnDemand":{"A.J":{"priceDimensions":{)" +
      dimensions + R"(},"sku":"A","offerTermCode":"J"}}}})";
  return nlohmann::json{{"FormatVersion", "aws_v1"}, {"PriceList", {product}}}.dump();
}

std::string rate(const char* unit, const char* prices, const char* code = "A.J.1") {
  return "\"" + std::string(code) + R"(":{"unit":")" + unit + R"(","pricePerUnit":)" + prices + "}";
}

TEST(Prices, NameThePlainMachine) {
  const HttpCall call = encode(GetProducts{"g5.xlarge", "cn-north-1"});
  EXPECT_EQ(call.region, Region("cn-northwest-1")) << "where the partition's list is";
  EXPECT_EQ(encode(GetProducts{"g5.xlarge", "ap-northeast-2"}).region, Region("us-east-1"));
  const auto asked = nlohmann::json::parse(call.body);
  EXPECT_EQ(asked["ServiceCode"], "AmazonEC2");
  EXPECT_EQ(asked["Filters"].size(), 6U);
  EXPECT_EQ(asked["Filters"][0]["Type"], "TERM_MATCH");
  EXPECT_EQ(asked["Filters"][0]["Field"], "instanceType");
  EXPECT_EQ(asked["Filters"][0]["Value"], "g5.xlarge");
  EXPECT_EQ(asked["Filters"][1]["Value"], "cn-north-1");
}

TEST(Prices, OnDemandByTheHour) {
  EXPECT_EQ(decode<GetProducts>(price_answer(rate("Hrs", R"({"USD":"1.0060000000"})"))), 1.006);
  EXPECT_EQ(decode<GetProducts>(price_answer(rate("Hrs", R"({"USD":"0.0000000000"})") + "," +
                                             rate("Hrs", R"({"USD":"2.5"})", "A.J.2"))),
            2.5)
      << "nothing is to be paid for a part of it";
}

TEST(Prices, WhatIsNoPriceIsSaid) {
  for (const std::string& wrong :
       {price_answer(""), price_answer(rate("Quantity", R"({"USD":"3.0"})")),
        price_answer(rate("Hrs", R"({"CNY":"3.0"})")),
        price_answer(rate("Hrs", R"({"USD":"3.0x"})")), price_answer(rate("Hrs", "7")),
        std::string(R"({"PriceList":["{","[]",7]})"), std::string(R"({"PriceList":[]})"),
        std::string(R"({"PriceList":{}})"), std::string("{}"), std::string("nothing")})
    EXPECT_FALSE(decode<GetProducts>(wrong)) << wrong;
}

}  // namespace
}  // namespace spotter::wire
