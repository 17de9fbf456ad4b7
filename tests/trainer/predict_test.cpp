// What a person sees of an image, and images of a person's own.
#include "trainer/reference/predict.hpp"

#include <gtest/gtest.h>

#include "trainer/reference/description.hpp"

namespace spotter::train {
namespace {

constexpr Shape kGrey{1, 3, 2};  // three rows of two

std::string of_image(const std::string& bytes, const Shape& shape = kGrey) {
  const auto read = read_pgm(bytes, shape);
  return read ? "read" : read.error().message.substr(0, read.error().message.find(';'));
}

TEST(Predict, APictureHasTwoRowsOfPixelsALine) {
  const std::array<std::uint8_t, 6> pixels = {255, 0, 0, 255, 128, 127};
  EXPECT_EQ(picture(kGrey, pixels, true), "▀▄\n▀ \n");
}

TEST(Predict, ColoursAreShownWhereTheTerminalHasThem) {
  constexpr Shape colours{3, 2, 1};
  const std::array<std::uint8_t, 6> red_over_blue = {255, 0, 0, 0, 0, 255};
  EXPECT_EQ(picture(colours, red_over_blue, true),
            "\x1b[38;2;255;0;0m\x1b[48;2;0;0;255m▀\x1b[0m\n");
  EXPECT_EQ(picture(colours, red_over_blue, false), " \n") << "both are darker than half";
}

TEST(Predict, AGreyImageIsReadAndScaled) {
  const auto read =
      read_pgm("P5\n# by hand\n2 3\n15\n" + std::string("\x0f\0\x01\x02\x03\x04", 6), kGrey);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->images, (std::vector<std::uint8_t>{255, 0, 17, 34, 51, 68}));
  EXPECT_EQ(read->count, 1U);
}

TEST(Predict, AnImageThatCannotBeShownIsRefused) {
  EXPECT_EQ(of_image("P2 2 3 255 1 2 3 4 5 6"), "this is no binary PGM image");
  EXPECT_EQ(of_image("P5 2 3"), "this is no binary PGM image: its header is cut");
  EXPECT_EQ(of_image("P5 # never ends"), "this is no binary PGM image: its header is cut");
  EXPECT_EQ(of_image("P5 3 2 255\n123456"), "the image has 3x2 pixels, the network takes 2x3");
  EXPECT_EQ(of_image("P5 2 3 65535\n123456123456"), "the image has more than 8 bits");
  EXPECT_EQ(of_image("P5 2 3 255\n12345"), "the image is cut");
  EXPECT_EQ(of_image("P5 2 3 255"), "the image is cut");
  EXPECT_EQ(of_image("P5 2 3 255\n123456", {3, 3, 2}),
            "the network was trained on colours: only test images can be shown to it");
}

TEST(Description, IsReadAsItWasWritten) {
  Parameters parameters = defaults(Architecture::Resnet18);
  parameters.seed = 7;
  const auto read = read_description(describe({parameters, {3, 32, 16}}));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_json(read->parameters), to_json(parameters));
  EXPECT_EQ(read->shape.channels, 3U);
  EXPECT_EQ(read->shape.height, 32U);
  EXPECT_EQ(read->shape.width, 16U);
}

TEST(Description, OfSomebodyElsesFileSaysWhatIsMissing) {
  const auto error = [](Metadata metadata) { return read_description(metadata).error().message; };
  const Metadata good = describe({{}, {1, 28, 28}});
  EXPECT_NE(error({{"format", "pt"}}).find("spotter-train did not write it"), std::string::npos);
  for (const char* input :
       {"", "[]", R"({"channels": 1, "height": 28, "divide_by": 255})",
        R"({"channels": 1, "height": 0, "width": 28, "divide_by": 255})",
        R"({"channels": 1, "height": 16777216, "width": 2, "divide_by": 255})"}) {
    Metadata metadata = good;
    metadata["input"] = input;
    EXPECT_NE(error(metadata).find("`channels`, `height` and `width`"), std::string::npos) << input;
  }
  Metadata scaled = good;
  scaled["input"] = R"({"channels": 1, "height": 28, "width": 28, "divide_by": 1})";
  EXPECT_NE(error(scaled).find("divide by 255"), std::string::npos);
  Metadata wrong = good;
  wrong["parameters"] = R"({"model": "vgg"})";
  EXPECT_NE(error(wrong).find("`parameters`"), std::string::npos);
}

}  // namespace
}  // namespace spotter::train
