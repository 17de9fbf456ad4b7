// Addresses of git's repositories: which server may receive a secret, and as whom.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::wire {

// The server of a repository's URL, "https://example.com:8443": scheme, host and port. Empty: it is
// no URL of HTTP, so it takes no token. Fails for an invalid host name, and for HTTP without TLS
// except to this machine (localhost, 127.0.0.1, [::1]). Source: gitcredentials(7), "Configuration
// options".
Result<std::string> token_server(const std::string& url);

// "ssh://git@example.com/x", or "git@example.com:x".
bool is_ssh_address(std::string_view url);

// The user's name beside a token, where the URL has none: most servers take any, Bitbucket its own.
// https://support.atlassian.com/bitbucket-cloud/docs/using-access-tokens/
std::string git_user(std::string_view server, std::string_view token);

// Are both at one server, asked in one way? A secret is for no other.
bool same_server(const std::string& one, const std::string& other);

// A private key for SSH, and after its end, perhaps, lines of known_hosts(5).
struct DeployKey {
  std::string key;
  std::string known_hosts;
};
Result<DeployKey> parse_deploy_key(std::string_view secret);

// A repository in AWS CodeCommit, which takes a signature of AWS credentials as password.
struct CodeCommit {
  std::string host;  // git-codecommit.us-west-2.amazonaws.com
  std::string region;
  std::string path;  // /v1/repos/NAME
  std::string url() const { return "https://" + host + path; }
};
// Reads its HTTPS address, or codecommit::REGION://NAME, as git-remote-codecommit has it.
std::optional<CodeCommit> codecommit_repository(std::string_view url);

// The address of a submodule, as .gitmodules has it, of a repository at `base`. Relative ones are
// taken as git does; one by SSH at the server of `token_server` is asked over HTTPS, where the
// token is. Fails for a path of the machine in a repository that comes from elsewhere.
// https://git-scm.com/docs/gitmodules
Result<std::string> submodule_url(const std::string& base, const std::string& url,
                                  const std::string& token_server);

}  // namespace spotter::wire
