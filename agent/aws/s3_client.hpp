// S3 in an io_context: s3::Client, turned between its other handlers. Nothing waits for it, neither
// for a name's server nor for keys.
//
// The awaitable has a name before it is awaited (io/asio.hpp says why):
//
//   auto asking = s3.perform({.bucket = "b", .key = "k"}, "", 10s);
//   const auto answer = co_await std::move(asking);
#pragma once

#include <memory>
#include <optional>

#include "agent/aws/s3/objects.hpp"
#include "agent/io/asio.hpp"

namespace spotter::act {

// Threading: the io_context's one thread. Must outlive its calls, unless the io_context runs no
// more.
class S3Client : Pinned {
 public:
  explicit S3Client(s3::Settings settings);
  // With this process's environment.
  explicit S3Client(Duration patience);
  ~S3Client();

  template <class Value>
  using Answer = asio::awaitable<Result<Value, s3::Failure>>;

  // Unavailable when it has taken so long: then it is dropped, and a write may have been carried
  // out, or be carried out later. Cancelling the coroutine drops it, too, and yields GivenUp.
  Answer<s3::Answer> perform(s3::Request request, std::string body, Duration limit);

  // `limit` is that of a page.
  Answer<s3::Listed> list(wire::S3Location prefix, std::string delimiter, Duration limit);

  s3::Tally tally() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// A small object that several write, each in the place of the version that it has read (If-Match,
// If-None-Match), so that of two one wins and the other knows. What the text means, and what
// follows from it, is its user's: the fence and the head of a home (service/act), a claim on an
// experiment (service/sweep), a gang's record (commands/gang).
class Register {
 public:
  Register(S3Client& client, wire::S3Location where) : client_(&client), where_(std::move(where)) {}

  struct Version {
    std::string text;
    std::string etag;      // empty: there is no object
    wire::WallTime date;   // of the answer, by S3's own clock, ...
    wire::WallTime since;  // ... and when S3 received this version
    bool exists() const { return !etag.empty(); }
    Duration age() const;  // never negative
  };
  S3Client::Answer<Version> read(Duration limit) const;

  // The new version's ETag. None: `etag` (empty: no object) is not what is there, and this write is
  // refused for good. A lost answer is settled by looking whether this write is there; Unavailable
  // and GivenUp: it may have been carried out, or be carried out later.
  S3Client::Answer<std::optional<std::string>> write(std::string text, std::string etag,
                                                     Duration limit) const;

  const wire::S3Location& where() const { return where_; }

 private:
  S3Client* client_;
  wire::S3Location where_;
};

}  // namespace spotter::act
