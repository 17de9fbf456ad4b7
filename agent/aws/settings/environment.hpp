// The environment's variables as a value, so that a test can state them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace spotter::act {

class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string, std::less<>> values)
      : values_(std::move(values)) {}

  // This process's own, read once: before threads start.
  static Environment of_this_process();

  // Empty when unset: the AWS SDKs make no difference between unset and empty either.
  std::string get(std::string_view name) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace spotter::act
