#include "trainer/reference/description.hpp"

#include <nlohmann/json.hpp>

namespace spotter::train {

namespace {

constexpr std::uint64_t kMostPixels = 1 << 24;  // of one image, whoever wrote the file

Result<Shape> read_shape(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  Shape shape;
  const auto read = [&](const char* name, std::uint32_t& into) {
    const auto found = json.is_object() ? json.find(name) : json.end();
    if (found == json.end() || !found->is_number_unsigned()) return false;
    const auto value = found->get<std::uint64_t>();
    if (value == 0 || value > kMostPixels) return false;
    into = static_cast<std::uint32_t>(value);
    return true;
  };
  const bool whole = read("channels", shape.channels) && read("height", shape.height) &&
                     read("width", shape.width);
  if (!whole || std::uint64_t{shape.channels} * shape.height > kMostPixels ||
      shape.pixels() > kMostPixels) {
    return failure("its metadata `input` has no `channels`, `height` and `width` of an image");
  }
  if (json.value("divide_by", nlohmann::json()) != kBrightest) {
    return failure("its metadata `input` does not divide by 255");
  }
  return shape;
}

}  // namespace

Metadata describe(const Description& description) {
  const nlohmann::json input = {{"channels", description.shape.channels},
                                {"height", description.shape.height},
                                {"width", description.shape.width},
                                {"divide_by", kBrightest}};
  return {{"format", "pt"},
          {"input", input.dump()},
          {"parameters", to_json(description.parameters).dump()}};
}

Result<Description> read_description(const Metadata& metadata) {
  const auto parameters = metadata.find("parameters");
  const auto input = metadata.find("input");
  if (parameters == metadata.end() || input == metadata.end()) {
    return failure("it does not say what it is of: spotter-train did not write it");
  }
  Description description;
  if (auto merged = merge(description.parameters, parameters->second); !merged) {
    return failure("its metadata `parameters`: " + merged.error().message);
  }
  auto shape = read_shape(input->second);
  if (!shape) return tl::unexpected(shape.error());
  description.shape = *shape;
  return description;
}

}  // namespace spotter::train
