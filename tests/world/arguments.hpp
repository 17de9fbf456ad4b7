// The arguments of one fault, as text. Reading never fails at once: the last problem is kept.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "agent/base/names.hpp"

namespace spotter::world {

class Arguments {
 public:
  explicit Arguments(const std::map<std::string, std::string>& given) : given_(given) {}

  std::string text(const std::string& name, const std::string& otherwise) const;
  Duration duration(const std::string& name, Duration otherwise);  // "30s", "250ms", "5"
  std::uint64_t number(const std::string& name, std::uint64_t otherwise);
  int count(const std::string& name, int otherwise);
  bool on() const { return text("on", "true") != "false"; }
  const std::string& problem() const { return problem_; }

 private:
  const std::map<std::string, std::string>& given_;
  std::string problem_;
};

}  // namespace spotter::world
