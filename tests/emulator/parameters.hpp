// SSM's GetParameter. A parameter is a file: DIR/ssm/NAME, as it stands without its last newline.
// Those of AWS's own images (/aws/service/...) are there without one.
// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html
#pragma once

#include <filesystem>
#include <string>

#include "tests/emulator/http.hpp"
#include "tests/emulator/sigv4.hpp"
#include "tests/world/world.hpp"

namespace spotter::emulator {

class Parameters {
 public:
  explicit Parameters(std::filesystem::path directory) : directory_(std::move(directory)) {}

  static bool owns(const HttpRequest& request);
  world::Reply answer(const HttpRequest& request) const;
  static world::Reply refuse(const Refusal& why);

 private:
  std::filesystem::path directory_;
};

}  // namespace spotter::emulator
