// Why a call over the network came to nothing: to one of AWS's services, to the instance metadata
// service, or any other exchange over HTTP.
#pragma once

#include <cstdint>
#include <string>

namespace spotter {

struct CallError {
  enum class Kind : std::uint8_t {
    NotSent,        // certainly nothing reached the server
    Throttled,      // to the end of the attempts; nothing was changed
    Transient,      // the server's own trouble, a time-out, or a lost answer: of an exchange
                    // over HTTP it may have been carried out, of a call to AWS it changes nothing
    Unknown,        // a mutating call whose answer was lost: it may have been carried out
    NoCredentials,  // no source has any
    ExpiredCredentials,  // and fresh ones did not help
    NotFound,
    Permission,  // the server says no, or its certificate is not accepted: nothing was changed
    DryRun,      // it would have succeeded
    Unreadable,  // the answer is too long, or not what the API documents
    Cancelled,   // by the caller
    Other,       // refused: `code` says why
  };
  Kind kind = Kind::Other;
  std::string code{};  // AWS's, e.g. IncorrectState; empty when there was no answer
  std::string message{};
  std::string request_id{};
  std::string retry_after{};  // the header x-amz-retry-after, as it came
  std::string action{};       // what was asked for: DescribeVolumes
  int status = 0;             // HTTP; 0: no answer
  int attempts = 0;

  bool unsettled() const { return kind == Kind::Unknown; }
  bool forbidden() const { return kind == Kind::Permission; }
};

}  // namespace spotter
