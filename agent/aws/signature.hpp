// Signature Version 4, with the time handed in: libcurl's own signer takes the machine's clock,
// which on a freshly resumed instance may be wrong. Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
#pragma once

#include "agent/aws/formats/imds.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/io/http.hpp"

namespace spotter::act {

using wire::SigningScope;

// Adds X-Amz-Date, X-Amz-Security-Token (when there is one) and Authorization. Signs the host, the
// content type, every x-amz-* header and the body. The URL's query must be sorted and escaped
// already.
void sign(io::HttpRequest& request, const wire::Credentials& credentials,
          const SigningScope& scope);

}  // namespace spotter::act
