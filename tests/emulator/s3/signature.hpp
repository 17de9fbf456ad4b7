// Finds out who signed an S3 request: SigV4 in the Authorization header, in the query (presigned),
// and of a body's chunks. Pure functions of the request and the rules.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulator/sigv4.hpp"
#include "tests/world/s3/chunks.hpp"
#include "tests/world/values.hpp"

namespace spotter::emulator::s3 {

struct SignatureRules {
  std::vector<WallTime> now;  // the clocks by which the request may be timely
  std::chrono::seconds tolerance{900};
  std::function<std::optional<SigningKey>(std::string_view access_key)> key;
  // From a secret, a day and a region: the same for a day's requests, so it may be remembered.
  std::function<std::string(std::string_view secret, const Authorization&)> derive = signing_key;
};

struct Refused {
  world::ApiError error;
  std::vector<std::pair<std::string, std::string>> more = {};  // of the error document
};

struct Signer {
  std::string caller;        // empty: nobody (anonymous)
  std::string region;        // of the signature
  std::string payload_hash;  // x-amz-content-sha256; "UNSIGNED-PAYLOAD" when presigned
  std::string seed;          // its signature
  world::s3::ChunkSigner chunks = {};
};

tl::expected<Signer, Refused> verify(const HttpRequest& request, const SignatureRules& rules);

}  // namespace spotter::emulator::s3
