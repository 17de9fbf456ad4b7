#include "agent/config/python_environment.hpp"

namespace spotter::config {

Result<PythonEnvironment> parse_python_environment(std::string_view text) {
  if (text == "none") return PythonEnvironment{};
  const auto space = text.find(' ');
  const auto kind = text.substr(0, space);
  const auto start = text.find_first_not_of(' ', space);
  const auto name = start == text.npos ? std::string_view{} : text.substr(start);
  const bool named = !name.empty() && name.find_first_of("\r\n") == name.npos;
  if (named && kind == "conda" && name.find(' ') == name.npos)
    return PythonEnvironment{PythonEnvironment::Kind::Conda, std::string(name)};
  if (named && kind == "venv")
    return PythonEnvironment{PythonEnvironment::Kind::Venv, std::string(name)};
  return failure("'" + std::string(text.substr(0, 100)) +
                 "' is not an environment: none, conda NAME or venv PATH");
}

std::string to_text(const PythonEnvironment& environment) {
  switch (environment.kind) {
    case PythonEnvironment::Kind::Conda:
      return "conda " + environment.name;
    case PythonEnvironment::Kind::Venv:
      return "venv " + environment.name;
    case PythonEnvironment::Kind::None:
      break;
  }
  return "none";
}

}  // namespace spotter::config
