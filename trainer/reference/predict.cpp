#include "trainer/reference/predict.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <sstream>

#include "trainer/library/files.hpp"
#include "trainer/reference/description.hpp"
#include "trainer/reference/network.hpp"

namespace spotter::train {

namespace fs = std::filesystem;

namespace {

constexpr int kFailed = 1;
constexpr int kBadUsage = 2;
constexpr std::uint64_t kMostModel = std::uint64_t{4} << 30;  // bytes; a resnet50 has 94 million
constexpr std::uint64_t kMostImage = std::uint64_t{1} << 24;
constexpr std::uint32_t kShown = 5;  // images, where none are named
constexpr std::array<const char*, kClasses> kCifar10Classes = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

struct Request {
  fs::path model;
  fs::path data;
  fs::path image;
  std::vector<std::uint32_t> numbers;
};

Result<std::string> read_whole(const fs::path& path, std::uint64_t most) {
  std::string bytes;
  const auto read = checkpoint::read_pieces(
      path, [&](std::string_view piece) { bytes.append(piece); }, nullptr, most);
  if (!read) return tl::unexpected(read.error());
  return bytes;
}

// How bright a pixel is, 0 .. 255; of colours as people see them (ITU-R BT.601).
unsigned brightness(const Shape& shape, std::span<const std::uint8_t> pixels, std::size_t at) {
  if (shape.channels != 3) return pixels[at];
  const std::size_t plane = std::size_t{shape.height} * shape.width;
  return (299U * pixels[at] + 587U * pixels[plane + at] + 114U * pixels[2 * plane + at]) / 1000U;
}

// The escape sequence of a colour: 38 is the text's, 48 what is behind it.
std::string colour(const Shape& shape, std::span<const std::uint8_t> pixels, std::size_t at,
                   int which) {
  const std::size_t plane = std::size_t{shape.height} * shape.width;
  std::array<char, 40> sequence{};
  std::snprintf(sequence.data(), sequence.size(), "\x1b[%d;2;%u;%u;%um", which, pixels[at],
                pixels[plane + at], pixels[2 * plane + at]);
  return sequence.data();
}

std::string name_of(const Shape& shape, std::size_t number) {
  return shape.channels == 3 ? kCifar10Classes[number] : std::to_string(number);
}

// "7 (99.8 %), then 3 (0.1 %)"
std::string opinion(const Shape& shape, const std::array<float, kClasses>& shares) {
  std::array<std::size_t, kClasses> order{};
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t each) { return shares[each]; });
  std::array<char, 96> line{};
  std::snprintf(line.data(), line.size(), "%s (%.1f %%), then %s (%.1f %%)",
                name_of(shape, order[0]).c_str(), 100.0 * shares[order[0]],
                name_of(shape, order[1]).c_str(), 100.0 * shares[order[1]]);
  return line.data();
}

// Those of the test images that were asked for.
Result<Examples> choose(const Dataset& data, std::vector<std::uint32_t>& numbers) {
  if (numbers.empty()) {
    numbers.resize(std::min(kShown, data.test.count));
    std::iota(numbers.begin(), numbers.end(), 0U);
  }
  Examples chosen;
  for (const std::uint32_t number : numbers) {
    if (number >= data.test.count) {
      return failure("there is no test image " + std::to_string(number) + ": the last one is " +
                     std::to_string(data.test.count - 1));
    }
    const auto begin =
        data.test.images.begin() + static_cast<std::ptrdiff_t>(number * data.shape.pixels());
    chosen.images.insert(chosen.images.end(), begin,
                         begin + static_cast<std::ptrdiff_t>(data.shape.pixels()));
    chosen.labels.push_back(data.test.labels[number]);
    ++chosen.count;
  }
  return chosen;
}

Result<Examples> examples_of(Request& request, const Shape& shape) {
  if (!request.image.empty()) {
    auto bytes = read_whole(request.image, kMostImage);
    if (!bytes) return tl::unexpected(bytes.error());
    auto example = read_pgm(*bytes, shape);
    if (!example) return failure(request.image.string() + ": " + example.error().message);
    return example;
  }
  const auto data = read_dataset(request.data);
  if (!data) return tl::unexpected(data.error());
  if (data->shape.channels != shape.channels || data->shape.height != shape.height ||
      data->shape.width != shape.width) {
    return failure(request.model.string() +
                   " was trained on images of another size than those in " + request.data.string());
  }
  return choose(*data, request.numbers);
}

Result<void> show(Request request) {
  const auto bytes = read_whole(request.model, kMostModel);
  if (!bytes) return tl::unexpected(bytes.error());
  const auto of_model = [&](const Error& error) {
    return failure(request.model.string() + ": " + error.message);
  };
  const auto tensors = read_safetensors(*bytes);
  if (!tensors) return of_model(tensors.error());
  const auto description = read_description(tensors->metadata);
  if (!description) return of_model(description.error());
  const Shape& shape = description->shape;
  const auto examples = examples_of(request, shape);
  if (!examples) return tl::unexpected(examples.error());

  Network network(description->parameters, shape, {1, {"cpu"}});
  if (auto set = network.set_weights(*bytes); !set) return of_model(set.error());
  const auto opinions = network.predict(*examples);
  const bool labelled = request.image.empty();
  std::uint32_t right = 0;
  for (std::size_t i = 0; i < opinions.size(); ++i) {
    const std::span pixels(examples->images.data() + i * shape.pixels(), shape.pixels());
    std::cout << picture(shape, pixels, ::isatty(STDOUT_FILENO) == 1);
    const auto best =
        static_cast<std::size_t>(std::ranges::max_element(opinions[i]) - opinions[i].begin());
    const bool is_right = labelled && best == examples->labels[i];
    right += is_right ? 1 : 0;
    std::cout << (labelled ? "test image " + std::to_string(request.numbers[i]) : "the image")
              << ": " << opinion(shape, opinions[i]);
    if (labelled) {
      std::cout << (is_right ? "; right" : "; wrong, it is " + name_of(shape, examples->labels[i]));
    }
    std::cout << "\n\n";
  }
  if (labelled) std::cout << right << " of " << opinions.size() << " are right\n";
  return {};
}

}  // namespace

std::string picture(const Shape& shape, std::span<const std::uint8_t> pixels, bool colours) {
  std::string text;
  for (std::uint32_t row = 0; row < shape.height; row += 2) {
    for (std::uint32_t column = 0; column < shape.width; ++column) {
      const std::size_t upper = std::size_t{row} * shape.width + column;
      const bool has_lower = row + 1 < shape.height;
      const std::size_t lower = has_lower ? upper + shape.width : upper;
      if (colours && shape.channels == 3) {
        text += colour(shape, pixels, upper, 38) + colour(shape, pixels, lower, 48) + "▀";
        continue;
      }
      const bool above = brightness(shape, pixels, upper) > 127;
      const bool below = has_lower && brightness(shape, pixels, lower) > 127;
      text += above ? (below ? "█" : "▀") : (below ? "▄" : " ");
    }
    text += colours && shape.channels == 3 ? "\x1b[0m\n" : "\n";
  }
  return text;
}

Result<Examples> read_pgm(std::string_view bytes, const Shape& shape) {
  const std::string size = std::to_string(shape.width) + "x" + std::to_string(shape.height);
  const std::string how =
      "; ImageMagick makes one, bright on dark as the training images are: "
      "convert FILE -colorspace gray -resize " +
      size + "! -depth 8 out.pgm";
  if (shape.channels != 1) {
    return failure("the network was trained on colours: only test images can be shown to it");
  }
  if (!bytes.starts_with("P5")) return failure("this is no binary PGM image" + how);
  std::size_t at = 2;
  std::array<std::uint64_t, 3> numbers{};  // width, height, the brightest value
  for (std::uint64_t& number : numbers) {
    while (at < bytes.size() &&
           (std::isspace(static_cast<unsigned char>(bytes[at])) != 0 || bytes[at] == '#')) {
      at = bytes[at] == '#' ? std::min(bytes.find('\n', at), bytes.size()) : at + 1;
    }
    std::size_t digits = 0;
    for (; at < bytes.size() && bytes[at] >= '0' && bytes[at] <= '9' && digits < 6;
         ++at, ++digits) {
      number = number * 10 + static_cast<std::uint64_t>(bytes[at] - '0');
    }
    if (digits == 0) return failure("this is no binary PGM image: its header is cut" + how);
  }
  ++at;  // one space ends the header
  if (numbers[0] != shape.width || numbers[1] != shape.height) {
    return failure("the image has " + std::to_string(numbers[0]) + "x" +
                   std::to_string(numbers[1]) + " pixels, the network takes " + size + how);
  }
  if (numbers[2] == 0 || numbers[2] > 255) return failure("the image has more than 8 bits" + how);
  if (bytes.size() < at + shape.pixels()) return failure("the image is cut" + how);
  Examples one{{}, {0}, 1};
  for (std::size_t i = 0; i < shape.pixels(); ++i) {
    const auto value = static_cast<std::uint8_t>(bytes[at + i]);
    one.images.push_back(
        static_cast<std::uint8_t>(std::min<std::uint64_t>(255, value * 255U / numbers[2])));
  }
  return one;
}

int predict(int count, char** arguments) {
  CLI::App app("Shows images to a trained network, and what it takes them for.",
               "spotter-train predict");
  Request request;
  app.add_option("MODEL", request.model, "model.safetensors of a result, or of a checkpoint")
      ->required();
  app.add_option("NUMBER", request.numbers, "of test images, from 0 (the first five)");
  auto* data =
      app.add_option("--data", request.data, "directory of the files of MNIST or CIFAR-10");
  auto* image = app.add_option("--image", request.image, "a grey image (binary PGM) of your own");
  data->excludes(image);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadUsage;
  }
  if (request.data.empty() == request.image.empty() ||
      (!request.image.empty() && !request.numbers.empty())) {
    std::cerr << "spotter-train: which images? Give --data DIR, with numbers of test images or "
                 "without, or --image FILE\n";
    return kBadUsage;
  }
  if (auto shown = show(std::move(request)); !shown) {
    std::cerr << "spotter-train: " << shown.error().message << "\n";
    return kFailed;
  }
  return 0;
}

}  // namespace spotter::train
