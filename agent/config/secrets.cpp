#include "agent/config/secrets.hpp"

#include <openssl/crypto.h>

#include "agent/aws/settings/settings.hpp"
#include "agent/io/files.hpp"

namespace spotter::config {
namespace {

void overwrite(std::string& text) { OPENSSL_cleanse(text.data(), text.size()); }

Result<Secret> checked(std::string value) {
  if (value.ends_with('\n')) value.pop_back();
  if (value.ends_with('\r')) value.pop_back();
  if (value.empty()) return failure("it is empty");
  if (value.find('\0') != value.npos) return failure("it holds NUL bytes");
  return Secret(std::move(value));
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

Result<ResolvedSecret> from_parameter(const std::string& name, const ReadParameter& read) {
  if (!read) return failure("SSM parameters cannot be read here");
  auto secret = TRY(read(name));
  return ResolvedSecret{std::move(secret), ""};
}

}  // namespace

Secret::Secret(Secret&& other) noexcept : value_(std::move(other.value_)) {
  overwrite(other.value_);  // moving a short text leaves a copy
  other.value_.clear();
}

Secret::~Secret() { overwrite(value_); }

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
                               const std::map<std::string, std::string>& variables,
                               const ReadParameter& read_parameter) {
  auto secret = reference.kind == SecretReference::Kind::File ? from_file(reference.target)
                : reference.kind == SecretReference::Kind::Environment
                    ? from_variable(reference.target, variables)
                    : from_parameter(reference.target, read_parameter);
  if (secret) return secret;
  return failure("the secret " + describe(reference) +
                 " cannot be read: " + secret.error().message);
}

std::map<std::string, std::string> variables_of_process() {
  const auto ours = act::Environment::of_this_process();
  return {ours.all().begin(), ours.all().end()};
}

}  // namespace spotter::config
