// Secrets: references to them in job.yaml, and their values once read. A secret reaches only its
// consumer (a git token the clone, an API key the trainer), never argv, tags, user-data or a log.
#pragma once

#include <map>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::config {

// `file:/etc/spotter/token`, `env:WANDB_API_KEY`, `ssm:/wandb/key`. Has no secret itself, so it may
// be printed.
struct SecretReference {
  enum class Kind : std::uint8_t { File, Environment, Parameter };
  Kind kind = Kind::File;
  std::string target;  // absolute path | variable's name | SSM parameter's name

  friend bool operator==(const SecretReference&, const SecretReference&) = default;
};

// Fails for any other text. The message never contains `text`, which may be a secret put there by
// mistake.
Result<SecretReference> parse_secret_reference(std::string_view text);
std::string describe(const SecretReference& reference);

struct ResolvedSecret {
  std::string value;
  std::string warning;  // for the log when not empty: other users can read the file
};

inline constexpr std::size_t secret_size_limit = 64U << 10;

// Reads the secret, without one trailing newline (editors and `echo` add it). Fails, naming the
// reference but nothing of the value: unreadable, not a regular file, empty, over 64 KiB, NUL
// bytes, variable not set. An SSM parameter is read by who has a client of AWS.
Result<ResolvedSecret> resolve(const SecretReference& reference,
                               const std::map<std::string, std::string>& variables);

// This process's environment, by name. The first counts of a name that occurs twice.
std::map<std::string, std::string> variables_of_process();

}  // namespace spotter::config
