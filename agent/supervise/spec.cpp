#include "agent/supervise/spec.hpp"

#include <nlohmann/json.hpp>

#include "agent/base/version.hpp"

namespace spotter::supervise {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t known_version = 1;

// Reads a key of this type. No message contains a value, which may be a secret.
Result<std::string> text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return std::string();
  if (!found->is_string()) return failure(std::string("spec: '") + key + "' must be a string");
  auto text = found->get<std::string>();
  if (text.find('\0') != text.npos)
    return failure(std::string("spec: '") + key + "' holds a NUL character");
  return text;
}

Result<void> read_environment(const Json& json, Spec& spec) {
  const auto found = json.find("environment");
  if (found == json.end()) return {};
  if (!found->is_object()) return failure("spec: 'environment' must be an object");
  for (const auto& [name, value] : found->items()) {
    const bool good = !name.empty() && name.find('=') == name.npos && name.find('\0') == name.npos;
    if (!good) return failure("spec: a variable's name must not be empty or hold '='");
    if (!value.is_string() || value.get_ref<const std::string&>().find('\0') != std::string::npos)
      return failure("spec: environment '" + name + "' must be a string without NUL characters");
    spec.environment[name] = value.get<std::string>();
  }
  return {};
}

Result<void> read_program(const Json& json, const std::string& key,
                          std::vector<std::string>& program) {
  const auto found = json.find(key);
  if (found == json.end()) return {};
  const auto wrong = [&key] { return failure("spec: '" + key + "' must be a list of strings"); };
  if (!found->is_array()) return wrong();
  for (const Json& word : *found) {
    if (!word.is_string()) return wrong();
    program.push_back(word.get<std::string>());
  }
  if (!program.empty() && !program.front().starts_with('/'))
    return failure("spec: '" + key + "' must begin with an absolute path");
  return {};
}

Result<void> check(const Spec& spec) {
  const auto relative = [](const std::string& path) { return !path.empty() && path[0] != '/'; };
  if (spec.command.empty()) return failure("spec: 'command' is missing");
  if (spec.user.empty()) return failure("spec: 'user' is missing");
  if (spec.log_file.empty()) return failure("spec: 'log_file' is missing");
  if (relative(spec.log_file)) return failure("spec: 'log_file' must be an absolute path");
  if (relative(spec.lease)) return failure("spec: 'lease' must be an absolute path");
  if (relative(spec.shell)) return failure("spec: 'shell' must be an absolute path");
  if (relative(spec.working_directory))
    return failure("spec: 'working_directory' must be an absolute path");
  return {};
}

Result<void> read_texts(const Json& json, Spec& spec) {
  const std::pair<const char*, std::string*> texts[] = {
      {"command", &spec.command}, {"shell", &spec.shell},
      {"user", &spec.user},       {"working_directory", &spec.working_directory},
      {"job", &spec.job},         {"log_file", &spec.log_file},
      {"secrets", &spec.secrets}, {"lease", &spec.lease}};
  for (const auto& [key, target] : texts) {
    auto text = text_of(json, key);
    if (!text) return tl::unexpected(text.error());
    *target = *std::move(text);
  }
  return {};
}

}  // namespace

Result<Spec> parse_spec(std::string_view text) {
  if (text.size() > spec_size_limit) return failure("spec: larger than 4 MiB");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return failure("spec: not a JSON object");
  if (auto newer = wire::newer(json, "version", known_version, "spec: this")) {
    return tl::unexpected<Error>(std::move(*newer));
  }
  Spec spec;
  if (auto read = read_texts(json, spec); !read) return tl::unexpected(read.error());
  if (auto read = read_environment(json, spec); !read) return tl::unexpected(read.error());
  auto read = read_program(json, "companion", spec.sidecar);
  if (read) read = read_program(json, "follower", spec.follower);
  if (!read) return tl::unexpected(read.error());
  const auto kind = text_of(json, "environment_kind");
  if (!kind) return tl::unexpected(kind.error());
  if (!kind->empty()) {
    const auto environment = config::parse_python_environment(*kind);
    if (!environment) return failure("spec: environment_kind: " + environment.error().message);
    spec.environment_kind = *environment;
  }
  if (const auto signal = json.find("stop_signal"); signal != json.end()) {
    // Compared before it is narrowed to an int.
    if (!signal->is_number_integer() || *signal < 0 || *signal > SIGRTMAX)
      return failure("spec: 'stop_signal' must be a signal's number, or 0");
    spec.stop_signal = signal->get<int>();
  }
  if (const auto refuse = json.find("refuse_metadata"); refuse != json.end()) {
    if (!refuse->is_boolean()) return failure("spec: 'refuse_metadata' must be true or false");
    spec.refuse_metadata = refuse->get<bool>();
  }
  if (auto good = check(spec); !good) return tl::unexpected(good.error());
  return spec;
}

std::string to_json(const Spec& spec) {
  const Json json{{"version", known_version},
                  {"command", spec.command},
                  {"shell", spec.shell},
                  {"user", spec.user},
                  {"environment", spec.environment},
                  {"secrets", spec.secrets},
                  {"environment_kind", config::to_text(spec.environment_kind)},
                  {"working_directory", spec.working_directory},
                  {"log_file", spec.log_file},
                  {"stop_signal", spec.stop_signal},
                  {"job", spec.job},
                  {"lease", spec.lease},
                  {"refuse_metadata", spec.refuse_metadata},
                  {"companion", spec.sidecar},
                  {"follower", spec.follower}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace spotter::supervise
