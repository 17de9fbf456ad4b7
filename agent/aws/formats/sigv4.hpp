// Signature Version 4 of a request, with the time handed in: the machine's clock may be wrong on a
// freshly resumed instance. No I/O. Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
#pragma once

#include <map>
#include <utility>

#include "agent/aws/formats/imds.hpp"

namespace spotter::wire {

struct SigningScope {
  std::string service;  // ec2
  std::string region;   // us-west-2
  WallTime time;
};

// The parts of a request that are signed.
struct Canonical {
  std::string_view method;
  std::string_view path;   // escaped as it is sent; S3 escapes once
  std::string_view query;  // sorted and escaped
  // Names in lower case -> values; `host` and `x-amz-date` among them.
  std::map<std::string, std::string, std::less<>> headers;
  std::string_view payload;  // what x-amz-content-sha256 says, or would say
};

// Lower-case hexadecimal.
std::string sha256_hex(std::string_view bytes);

inline constexpr std::string_view sha256_of_nothing =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// Signs many requests of one service: the derived key is kept for as long as day, region and
// credentials stay.
class Signer {
 public:
  // The Authorization header's value.
  std::string authorization(const Canonical& request, const Credentials& credentials,
                            const SigningScope& scope);

 private:
  std::string derived_from_;
  std::string key_;
};

// The Host header, which is what gets signed: without the scheme's own port.
std::string host_header(std::string host, bool encrypted);

// Adds the headers that sign a request: of those that are there content-type and x-amz-... count.
void sign(std::vector<std::pair<std::string, std::string>>& headers, std::string_view method,
          std::string_view url, std::string_view body, const Credentials& credentials,
          const SigningScope& scope);

// The password of a repository of AWS CodeCommit, whose user is the access key's id, with `%` and
// the session's token: the time, and a signature of a request by the method GIT.
// https://docs.aws.amazon.com/codecommit/latest/userguide/setting-up-https-unixes.html
std::string git_password(std::string_view host, std::string_view path,
                         const Credentials& credentials, const SigningScope& scope);

}  // namespace spotter::wire
