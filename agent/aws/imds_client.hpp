// The instance metadata service, version 2 only: it never falls back to version 1.
// Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
#pragma once

#include "agent/aws/formats/imds.hpp"
#include "agent/io/http.hpp"

namespace spotter::sense {

struct ImdsAnswer {
  enum class Kind {
    Found,        // 200
    Absent,       // 404: no such key, the normal answer of spot/instance-action
    Disabled,     // 403: switched off for this instance
    Unavailable,  // 429, 5xx, time-out, no connection: carry on and ask again
  };
  Kind kind = Kind::Unavailable;
  int status = 0;
  std::string body;                    // of Found
  std::string problem;                 // of Disabled and Unavailable, for a person
  std::optional<wire::WallTime> date;  // the answer's own Date
  Time received_at{};                  // of the answer's arrival
};

struct SpotAction {
  InterruptionAction action = InterruptionAction::Terminate;
  Duration remaining{};  // from received_at to the notice's time: 0..120 s
  Time received_at{};    // the deadline is received_at + remaining
  wire::WallTime time;   // as announced; the same notice has the same time

  Time deadline() const { return received_at + remaining; }
};

struct ImdsSettings {
  std::string endpoint = "http://169.254.169.254";  // AWS_EC2_METADATA_SERVICE_ENDPOINT
  // The service is on the host itself and answers in single milliseconds; it is known to stall for
  // a second or two under load. One second for the connect and two and a half for all lets a stall
  // pass, and still leaves most of a notice of 120 s when a whole poll is lost.
  std::chrono::milliseconds connect_timeout{1'000};
  std::chrono::milliseconds timeout{2'500};
};

// Threading: the io_context's one thread. The HTTP client must outlive this and its calls.
class ImdsClient {
 public:
  ImdsClient(io::HttpClient& http, ImdsSettings settings);

  // `path` below /latest/, e.g. "meta-data/spot/instance-action".
  asio::awaitable<ImdsAnswer> get(std::string path);

  // Absent (404) is an empty optional. Switched off (403) is Kind::Permission, an answer that is
  // not what AWS documents Kind::Unreadable, no answer or another status Kind::Transient.
  asio::awaitable<Result<std::optional<wire::Identity>, CallError>> identity();
  asio::awaitable<Result<std::optional<SpotAction>, CallError>> spot_action();
  asio::awaitable<Result<std::optional<wire::WallTime>, CallError>> rebalance();
  asio::awaitable<Result<std::optional<wire::LifecycleState>, CallError>> lifecycle_state();

 private:
  asio::awaitable<std::optional<ImdsAnswer>> refresh_token();  // the failure, if it is one
  asio::awaitable<Result<io::HttpResponse, CallError>> fetch(std::string path);

  io::HttpClient& http_;
  ImdsSettings settings_;
  std::string token_;
};

}  // namespace spotter::sense
