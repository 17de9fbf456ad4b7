// Hyper-parameters by the names of the example, from the command line or JSON.
#include "trainer/reference/parameters.hpp"

#include <gtest/gtest.h>

namespace spotter::train {
namespace {

TEST(HyperParameters, TheExamplesJsonIsUnderstood) {
  Parameters parameters;
  const auto merged =
      merge(parameters, R"({"batch_size": 64, "epochs": 2, "hidden_nodes": [300, 100],
      "dropout_rate": 0.5, "activate_fn": "tanh", "optimizer": "adam"})");
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_EQ(parameters.batch_size, 64U);
  EXPECT_EQ(parameters.hidden_nodes, (std::vector<std::uint32_t>{300, 100}));
  EXPECT_EQ(parameters.activate_fn, Activation::Tanh);
  EXPECT_EQ(parameters.optimizer, Optimizer::Adam);
  EXPECT_DOUBLE_EQ(parameters.dropout_rate, 0.5);
}

TEST(HyperParameters, ValuesMayBeTextsAsSageMakerPassesThem) {
  Parameters parameters;
  ASSERT_TRUE(merge(parameters, R"({"batch_size": "32", "hidden_nodes": "64, 32"})"));
  EXPECT_EQ(parameters.batch_size, 32U);
  EXPECT_EQ(parameters.hidden_nodes, (std::vector<std::uint32_t>{64, 32}));
}

TEST(HyperParameters, EveryMistakeIsReportedAtOnce) {
  Parameters parameters;
  const auto merged = merge(
      parameters, R"({"batchsize": 1, "epochs": 0, "optimizer": "sgdx", "dropout_rate": 1.0})");
  ASSERT_FALSE(merged);
  for (const char* name : {"batchsize: unknown", "epochs:", "optimizer:", "dropout_rate:"}) {
    EXPECT_NE(merged.error().message.find(name), std::string::npos) << merged.error().message;
  }
}

TEST(HyperParameters, NumbersAreReadWhole) {
  Parameters parameters;
  for (const char* value : {"", "-1", "1.5", "12x", "99999999999", "nan"}) {
    EXPECT_FALSE(set(parameters, "epochs", value)) << value;
  }
  EXPECT_FALSE(set(parameters, "dropout_rate", "nan"));
  EXPECT_FALSE(set(parameters, "hidden_nodes", "12,,3"));
  EXPECT_TRUE(set(parameters, "hidden_nodes", "[]"));
}

}  // namespace
}  // namespace spotter::train
