#include "agent/config/secrets.hpp"

#include "agent/aws/settings/settings.hpp"
#include "agent/io/files.hpp"

namespace spotter::config {
namespace {

Result<std::string> checked(std::string value) {
  if (value.ends_with('\n')) value.pop_back();
  if (value.ends_with('\r')) value.pop_back();
  if (value.empty()) return failure("it is empty");
  if (value.find('\0') != value.npos) return failure("it holds NUL bytes");
  return value;
}

Result<ResolvedSecret> from_file(const std::string& path) {
  auto text = TRY(io::read_text(path, secret_size_limit));
  auto secret = TRY(checked(std::move(text)));
  std::error_code error;
  const auto all = fs::status(path, error).permissions() & fs::perms::others_read;
  const bool open_to_all = !error && all != fs::perms::none;
  return ResolvedSecret{std::move(secret), open_to_all ? path + " holds a secret and everybody " +
                                                             "can read it: chmod 600 " + path
                                                       : ""};
}

Result<ResolvedSecret> from_variable(const std::string& name,
                                     const std::map<std::string, std::string>& variables) {
  const auto found = variables.find(name);
  if (found == variables.end()) return failure("the environment has no such variable");
  if (found->second.size() > secret_size_limit) return failure("it is larger than 64 KiB");
  auto secret = TRY(checked(found->second));
  return ResolvedSecret{std::move(secret), ""};
}

}  // namespace

Result<SecretReference> parse_secret_reference(std::string_view text) {
  using Kind = SecretReference::Kind;
  const auto colon = text.find(':');
  const auto kind = text.substr(0, colon);
  const std::string target(colon == text.npos ? std::string_view{} : text.substr(colon + 1));
  const bool clean = !target.empty() && target.find_first_of("\r\n=") == target.npos;
  if (kind == "file" && clean && target[0] == '/') return SecretReference{Kind::File, target};
  if (kind == "env" && clean && target.find_first_of(" /") == target.npos)
    return SecretReference{Kind::Environment, target};
  if (kind == "ssm" && clean && target[0] == '/') return SecretReference{Kind::Parameter, target};
  return failure(
      "a secret is not written here but referred to: file:/ABSOLUTE/PATH, env:NAME or "
      "ssm:/PARAMETER");
}

std::string describe(const SecretReference& reference) {
  switch (reference.kind) {
    case SecretReference::Kind::File:
      return "file:" + reference.target;
    case SecretReference::Kind::Environment:
      return "env:" + reference.target;
    case SecretReference::Kind::Parameter:
      break;
  }
  return "ssm:" + reference.target;
}

Result<ResolvedSecret> resolve(const SecretReference& reference,
                               const std::map<std::string, std::string>& variables) {
  using Kind = SecretReference::Kind;
  Result<ResolvedSecret> secret = failure("SSM parameters cannot be read here");
  if (reference.kind == Kind::File) secret = from_file(reference.target);
  if (reference.kind == Kind::Environment) secret = from_variable(reference.target, variables);
  if (secret) return secret;
  return failure("the secret " + describe(reference) +
                 " cannot be read: " + secret.error().message);
}

std::map<std::string, std::string> variables_of_process() {
  const auto ours = act::Environment::of_this_process();
  return {ours.all().begin(), ours.all().end()};
}

}  // namespace spotter::config
