#include "agent/tools/sweep/sweep_image.hpp"

#include <algorithm>
#include <optional>
#include <ranges>
#include <vector>

namespace spotter::command {
namespace {

constexpr std::string_view lower = "abcdefghijklmnopqrstuvwxyz0123456789-";

struct EcrImage {
  std::string registry;  // ACCOUNT.dkr.ecr.REGION.amazonaws.com, or with .cn behind it
  std::string region;
  std::string repository;
};

bool consists_of(std::string_view text, std::string_view known) {
  return !text.empty() && text.find_first_not_of(known) == text.npos;
}

std::optional<std::string> region_of(std::string_view registry) {
  std::vector<std::string> parts;
  for (const auto part : std::views::split(registry, '.'))
    parts.emplace_back(part.begin(), part.end());
  if (parts.size() == 7 && parts.back() == "cn") parts.pop_back();
  const bool fits = parts.size() == 6 && parts[0].size() == 12 &&
                    consists_of(parts[0], "0123456789") && parts[1] == "dkr" && parts[2] == "ecr" &&
                    consists_of(parts[3], lower) && parts[4] == "amazonaws" && parts[5] == "com";
  return fits ? std::optional(parts[3]) : std::nullopt;
}

std::optional<EcrImage> parse(std::string_view image) {
  const auto slash = std::min(image.find('/'), image.size());
  const auto name = image.substr(std::min(slash + 1, image.size()));
  const auto colon = std::min(name.find(':'), name.size());
  const auto repository = name.substr(0, colon);
  const auto tag = colon < name.size() ? name.substr(colon + 1) : "latest";
  const auto region = region_of(image.substr(0, slash));
  if (!region || !consists_of(repository, std::string(lower) + "._/") ||
      !consists_of(tag, std::string(lower) + "._ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    return std::nullopt;
  return EcrImage{std::string(image.substr(0, slash)), *region, std::string(repository)};
}

}  // namespace

Result<std::string> image_commands(std::string_view image) {
  const auto found = parse(image);
  if (!found) {
    return failure(
        "sweep.batch.image: expected ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME:TAG, not " +
        std::string(image) + "; another registry's own manual says how it is pushed");
  }
  const std::string target(image);
  const std::string at = " --region " + found->region;
  return "# In the sources of Spotter, once. On an image of CUDA, with this behind `build`:\n"
         "# --build-arg BASE=nvidia/cuda:12.8.0-runtime-ubuntu22.04\n"
         "docker build -f scripts/Containerfile -t spotter .\n"
         "# In the folder of your trainer, whose Dockerfile begins with FROM spotter.\n"
         "docker build -t " +
         target +
         " .\n"
         "# Once; it is an error when the repository is there.\n"
         "aws ecr create-repository --repository-name " +
         found->repository + at + "\naws ecr get-login-password" + at +
         " | docker login --username AWS --password-stdin " + found->registry + "\ndocker push " +
         target + "\n# And then: spotter sweep submit\n";
}

}  // namespace spotter::command
