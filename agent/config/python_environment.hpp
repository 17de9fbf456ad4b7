// `trainer.environment`: which Python environment the command runs in.
#pragma once

#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::config {

struct PythonEnvironment {
  enum class Kind : std::uint8_t { None, Conda, Venv };
  Kind kind = Kind::None;
  std::string name;  // conda: a name or an absolute path; venv: a path (relative: to the checkout)

  friend bool operator==(const PythonEnvironment&, const PythonEnvironment&) = default;
};

// `none`, `conda NAME`, `venv PATH`; to_text() is the inverse.
Result<PythonEnvironment> parse_python_environment(std::string_view text);
std::string to_text(const PythonEnvironment& environment);

}  // namespace spotter::config
