// Amazon S3 over libcurl, without Asio: for whoever has a thread and turns the client in it (the
// data plane, a checkpoint's writer). agent/aws/s3_client.hpp turns it in an io_context. It never
// waits for anything but in turn(), and moments in drop(), and calls the functions that callers
// hand in from turn(), also when it has threads (Threads).
//
//   Client client({.environment = act::Environment::of_this_process()});
//   Result<Answer, Failure> answer = client.perform({.bucket = "b", .key = "k"});
//
// What a caller gets is final: throttling, broken connections, S3's own trouble and redirects are
// dealt with here. A read goes on at the byte where its connection broke. objects.hpp has the
// operations.
#pragma once

#include <memory>

#include "agent/aws/s3/values.hpp"
#include "agent/aws/s3/window.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/base/clock_text.hpp"

namespace spotter::s3 {

struct Settings {
  act::Environment
      environment;         // AWS_ENDPOINT_URL_S3, AWS_REGION, credentials: the SDKs' own names
  Region region;           // empty: the environment's, else us-east-1; S3 corrects it
  bool anonymous = false;  // nothing is signed
  // Each request says that we pay for it, as buckets want it whose owner does not.
  // https://docs.aws.amazon.com/AmazonS3/latest/userguide/RequesterPaysBuckets.html
  bool requester_pays = false;
  // The bucket as a part of the host's name, or of the path. Automatic: of the host's at AWS (where
  // it fits), of the path at an endpoint that the environment names.
  enum class Style : std::uint8_t { Automatic, Host, Path } style = Style::Automatic;
  // A call fails after so long without a byte of progress, however often that was tried.
  std::chrono::milliseconds patience{60'000};
  std::chrono::milliseconds shortest_pause{50};  // before a retry; doubles up to 5 s, with jitter
  Window::Limits window;
  Threads threads;
  act::WallClock clock = act::system_time;
};

class Client {
 public:
  using Done = std::function<void(Result<Answer, Failure>)>;
  using CallId = std::uint64_t;

  explicit Client(Settings settings);
  // Drops what is under way, its Done never called. REQUIRES: it is the process that made it.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Done is called from within turn(), once; it may start further calls.
  CallId start(Request request, Done done);
  // Done is not called any more, and what the request names is not touched. Nothing happens when
  // the call has ended. Many are dropped together in the time of one.
  void drop(std::span<const CallId> calls);
  void drop(CallId call) { drop(std::span(&call, 1)); }

  // Does what is ready, after waiting for it at most so long. Never call it from within a Done.
  void turn(std::chrono::milliseconds at_most);

  // Can be polled with other files: readable when turn() has something to do. turn() also has
  // something to do after the time that next() says.
  int descriptor() const;
  std::chrono::milliseconds next() const;

  std::size_t under_way() const;  // calls that have not ended
  std::size_t width() const;      // requests that go out at once, at this moment
  std::size_t threads() const;    // that carry, at this moment
  Tally tally() const;

  // start(), and turns until it has ended.
  Result<Answer, Failure> perform(Request request);

 private:
  class Calls;
  std::unique_ptr<Calls> calls_;
};

}  // namespace spotter::s3
