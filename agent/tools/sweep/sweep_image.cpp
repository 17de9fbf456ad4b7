#include "agent/tools/sweep/sweep_image.hpp"

#include <algorithm>
#include <optional>

#include "agent/aws/formats/partition.hpp"

namespace spotter::command {
namespace {

constexpr std::string_view lower = "abcdefghijklmnopqrstuvwxyz0123456789-";

struct EcrImage {
  std::string registry;  // ACCOUNT.dkr.ecr.REGION.amazonaws.com, or its partition's suffix
  std::string region;
  std::string repository;
};

bool consists_of(std::string_view text, std::string_view known) {
  return !text.empty() && text.find_first_not_of(known) == text.npos;
}

std::optional<std::string_view> region_of(std::string_view registry) {
  constexpr std::string_view service = ".dkr.ecr.";
  constexpr std::size_t account = 12;
  if (registry.find(service) != account || !consists_of(registry.substr(0, account), "0123456789"))
    return std::nullopt;
  registry.remove_prefix(account + service.size());
  const auto dot = std::min(registry.find('.'), registry.size());
  const auto region = registry.substr(0, dot);
  const bool known =
      registry.substr(std::min(dot + 1, registry.size())) == wire::partition_of(region).suffix;
  return known && consists_of(region, lower) ? std::optional(region) : std::nullopt;
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
  return EcrImage{std::string(image.substr(0, slash)), std::string(*region),
                  std::string(repository)};
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
