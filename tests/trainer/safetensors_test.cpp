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

// The error's text, or "read" where there is none.
std::string outcome(const std::string& bytes) {
  const auto read = read_safetensors(bytes);
  return read ? "read" : read.error().message;
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

  const auto read = read_safetensors(bytes);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->metadata, (Metadata{{"format", "pt"}}));
  ASSERT_EQ(read->tensors.size(), 2U);
  EXPECT_EQ(read->tensors[0].name, "z.weight");
  EXPECT_EQ(read->tensors[0].shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(read->tensors[0].bytes, matrix);
  EXPECT_EQ(read->tensors[1].bytes, number);
}

TEST(Safetensors, AnEmptyTensorAndNoTensorAreRead) {
  const std::array tensors = {NamedTensor{"empty", {0, 3}, ""}, NamedTensor{"more", {0}, ""}};
  const auto read = read_safetensors(write_safetensors(tensors, {}));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tensors.size(), 2U);
  EXPECT_EQ(outcome(write_safetensors({}, {})), "read");
}

TEST(Safetensors, AFileThatBreaksTheFormatIsRefused) {
  const std::string four = floats({1});
  EXPECT_EQ(outcome(""), "this is no safetensors file: it is too short");
  EXPECT_EQ(outcome(file("{}", "").substr(0, 9)),
            "this is no safetensors file: its header ends behind the file's end");
  EXPECT_EQ(outcome(std::string(16, '\xff')),
            "this is no safetensors file: its header ends behind the file's end");
  EXPECT_EQ(outcome(file("[1]", "")), "this is no safetensors file: its header is no JSON object");
  EXPECT_EQ(outcome(file("{\"a\":", "")),
            "this is no safetensors file: its header is no JSON object");
  EXPECT_EQ(outcome(file("{}", "x")), "there are bytes behind the last tensor");
  EXPECT_EQ(outcome(file(R"({"__metadata__": {"a": 1}})", "")), "its metadata `a` is no text");
  EXPECT_EQ(outcome(file(R"({"a": 1})", four)), "tensor `a`: its entry is no object");
  EXPECT_EQ(
      outcome(file(R"({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}})", four)),
      "tensor `a`: only dtype F32 is read");
  for (const char* wrong :
       {R"("shape": [-1], "data_offsets": [0, 4])", R"("shape": [1.5], "data_offsets": [0, 4])",
        R"("shape": 1, "data_offsets": [0, 4])", R"("shape": [1], "data_offsets": [0, 2, 4])",
        R"("shape": [1])"}) {
    EXPECT_EQ(outcome(file(R"({"a": {"dtype": "F32", )" + std::string(wrong) + "}}", four)),
              "tensor `a`: `shape` and `data_offsets` are lists of whole numbers")
        << wrong;
  }
  const auto placed = [&](const std::string& shape, const std::string& offsets) {
    return outcome(file(
        R"({"a": {"dtype": "F32", "shape": )" + shape + R"(, "data_offsets": )" + offsets + "}}",
        four));
  };
  EXPECT_EQ(placed("[2]", "[0, 8]"), "tensor `a`: it ends behind the file's end");
  EXPECT_EQ(placed("[1]", "[4, 0]"), "tensor `a`: it ends behind the file's end");
  EXPECT_EQ(placed("[2]", "[0, 4]"), "tensor `a`: its shape and its bytes do not agree");
  // 2^62 x 4 bytes are 2^64: the product must not wrap around to what fits.
  EXPECT_EQ(placed("[4611686018427387904, 4]", "[0, 0]"),
            "tensor `a`: its shape and its bytes do not agree");
  EXPECT_EQ(outcome(file(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                             "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
                         four)),
            "tensor `b` overlaps or leaves a gap");
}

}  // namespace
}  // namespace spotter::train
