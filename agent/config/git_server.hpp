// Decides which server may receive a git token.
#pragma once

#include "agent/base/result.hpp"

namespace spotter::wire {

// The server of a repository's URL, "https://example.com:8443": scheme, host and port. Empty: it is
// no URL of HTTP, so it takes no token. Fails for an invalid host name, and for HTTP without TLS
// except to this machine (localhost, 127.0.0.1, [::1]). Source: gitcredentials(7), "Configuration
// options".
Result<std::string> token_server(const std::string& url);

}  // namespace spotter::wire
