// To whom a git token may be given.
#pragma once

#include <string>

#include "agent/base/result.hpp"

namespace spotter::wire {

// Of a repository's URL: the server that a token may reach, "https://example.com:8443": scheme,
// host and port. Empty: it is no URL of HTTP, and takes no token. Fails for a name that is none,
// and for HTTP without TLS but on this machine itself (localhost, 127.0.0.1, [::1]). Source:
// gitcredentials(7), "Configuration options".
Result<std::string> token_server(const std::string& url);

}  // namespace spotter::wire
