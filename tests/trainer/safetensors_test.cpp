// Files are written as Hugging Face's format says; files to be read may be anything.
#include "trainer/reference/parameters.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace spotter::train {
namespace {

std::string floats(std::initializer_list<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

std::string file(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  std::string bytes(sizeof size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes + header + data;
}

TEST(Safetensors, IsWrittenAsTheFormatSays) {
  const std::string matrix = floats({1, 2, 3, 4, 5, 6});
  const std::string number = floats({7});
  const std::array tensors = {NamedTensor{"z.weight", {2, 3}, matrix},
                              NamedTensor{"a", {}, number}};
  const std::string bytes = write_safetensors(tensors, {{"format", "pt"}});
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  EXPECT_EQ(size % 8, 0U);
  const auto header = nlohmann::json::parse(bytes.substr(8, size));
  EXPECT_EQ(header, nlohmann::json::parse(R"({"__metadata__": {"format": "pt"},
      "z.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
      "a": {"dtype": "F32", "shape": [], "data_offsets": [24, 28]}})"));
  EXPECT_EQ(bytes.substr(8 + size), matrix + number);

  // By name, in whichever order.
  std::array wanted = {NamedTensor{"a", {}, {}}, NamedTensor{"z.weight", {2, 3}, {}}};
  ASSERT_TRUE(fill(wanted, bytes));
  EXPECT_EQ(wanted[0].bytes, number);
  EXPECT_EQ(wanted[1].bytes, matrix);
}

TEST(Safetensors, AnEmptyTensorAndNoTensorAreRead) {
  std::array tensors = {NamedTensor{"empty", {0, 3}, ""}, NamedTensor{"more", {0}, ""}};
  EXPECT_TRUE(fill(tensors, write_safetensors(tensors, {})));
  EXPECT_TRUE(fill({}, write_safetensors({}, {})));
}

TEST(Safetensors, AFileOfOtherTensorsOrNoneIsRefused) {
  const std::string two = floats({1, 2});
  const auto read = [](const std::string& bytes) {
    std::array wanted = {NamedTensor{"a", {2}, {}}};
    return fill(wanted, bytes).has_value();
  };
  const auto entry = [](const std::string& name, const std::string& shape,
                        const std::string& offsets, const std::string& kind = "F32") {
    return "\"" + name + R"(": {"dtype": ")" + kind + R"(", "shape": )" + shape +
           R"(, "data_offsets": )" + offsets + "}";
  };
  const std::string good = entry("a", "[2]", "[0, 8]");
  EXPECT_TRUE(read(file("{" + good + "}", two)));
  EXPECT_TRUE(read(file("{" + entry("a", "[2]", "[4, 12]") + "}", floats({0, 1, 2}))));
  EXPECT_FALSE(read(""));
  EXPECT_FALSE(read(file("{" + good + "}", "").substr(0, 9)));
  EXPECT_FALSE(read(std::string(16, '\xff')));
  for (const std::string& header :
       {std::string("[1]"), std::string("{\"a\":"), std::string("{}"), std::string(R"({"a": 1})"),
        "{" + good + "," + entry("b", "[0]", "[0, 0]") + "}",
        "{" + entry("b", "[2]", "[0, 8]") + "}", "{" + entry("a", "[2]", "[0, 8]", "BF16") + "}",
        std::string(R"({"a": {"shape": [2]}})")})
    EXPECT_FALSE(read(file(header, two))) << header;
  for (const char* offsets : {"[0, 4]", "[4, 12]", "[8, 0]", "[-1, 7]", "[0.5, 8]", "[0, 4, 8]",
                              "8", "[]", "[18446744073709551615, 7]"})
    EXPECT_FALSE(read(file("{" + entry("a", "[2]", offsets) + "}", two))) << offsets;
  for (const char* shape : {"[-2]", "[1.5]", "2", "[1]", "[1, 2]", "[2, 1]", "[]"})
    EXPECT_FALSE(read(file("{" + entry("a", shape, "[0, 8]") + "}", two))) << shape;
}

}  // namespace
}  // namespace spotter::train
