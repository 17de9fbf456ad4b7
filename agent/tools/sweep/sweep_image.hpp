// The image of a sweep on AWS Batch: what puts it into ECR.
#pragma once

#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::command {

// The commands of docker (podman takes the same words) and `aws` that make an image and put it
// where `sweep.batch.image` says, a line each, with comments; whoever runs them does so in two
// folders. Fails unless that is a name with a tag at a registry of ECR.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/docker-push-ecr-image.html
Result<std::string> image_commands(std::string_view image);

}  // namespace spotter::command
