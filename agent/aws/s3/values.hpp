// Requests to the S3 client, and its answers.
#pragma once

#include <atomic>
#include <chrono>
#include <span>

#include "agent/aws/formats/s3.hpp"

namespace spotter::s3 {

// Says what became of an object, so it names that; most of its kinds only objects have.
struct Failure {
  enum class Kind {
    NoSuchBucket,
    NoSuchKey,
    Permission,     // S3 says no; an administrator has to act
    Untrusted,      // TLS does not trust the server's certificate: `message` says why
    NoCredentials,  // no source has any
    Changed,        // the object is not, or no more, the one that was asked for (ETag)
    Exists,         // a conditional write: somebody else was first
    Corrupt,        // the bytes are not those of the checksum that S3 has
    Unavailable,    // throttled, unreachable or broken, again and again, until patience ran out
    GivenUp,        // the caller waits no more
    Refused,        // anything else: `code` says why
  };
  Kind kind = Kind::Refused;
  std::string code;     // S3's, e.g. InvalidRange; empty when there was no answer
  std::string message;  // S3's, or libcurl's
  std::string bucket;
  std::string key;
  int status = 0;  // HTTP; 0: no answer

  // Text for a person: s3://bucket/key: there is no such key (NoSuchKey, HTTP 404)
  std::string text() const;
  operator Error() const { return {text()}; }                 // NOLINT: as of CallError
  operator CallError() const { return {.message = text()}; }  // NOLINT
};

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method = "GET";
  std::string bucket;
  std::string key;
  wire::S3Query query;  // unescaped
  Headers headers;
  std::string_view body;  // must stay until the call has ended
  // A GET puts exactly so many bytes, from `offset`, here. It must stay until the call has ended.
  // Empty: the answer's body, 8 MiB at most, comes in Answer::body.
  std::span<char> into;
  std::uint64_t offset = 0;
  // So many bytes of `into` are there, already before the end.
  std::atomic<std::size_t>* arrived = nullptr;
  bool whole = false;  // `into` is the whole object: S3 then says its checksum, too
  std::string etag;    // the object's; another one is Failure::Kind::Changed. Empty: any
};

// Requests that were sent, each try, as S3 charges for them: listings with the writes, deletions
// not at all (https://aws.amazon.com/s3/pricing/).
struct Tally {
  std::uint64_t writes = 0;
  std::uint64_t reads = 0;
};

// The most threads that pay beside the caller's: one for each processor that this process may use,
// none of fewer than four, at most 16.
std::size_t spare_threads();

// The threads of a client beside its caller's. The first one is there once the caller's thread has
// too little of a processor left for what comes in, another one once all of them have: one thread
// decrypts about 1.3 GB/s. A control group's quota and others' work show in that, too.
struct Threads {
  std::size_t most = spare_threads();
  double busy = 0.7;                     // of a processor, by each thread that carries, ...
  std::chrono::milliseconds period{50};  // ... for so long
};

struct Answer {
  int status = 0;
  Headers headers;  // names in lower case
  std::string body;
  std::string_view header(std::string_view name) const;  // empty: not there
};

}  // namespace spotter::s3
