// The instance metadata service, version 2 only: it never falls back to version 1.
// Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
#pragma once

#include "agent/aws/formats/imds.hpp"
#include "agent/io/http.hpp"

namespace spotter::sense {

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

  // A 200; nothing: a 404, the normal answer of spot/instance-action. Switched off (403) is
  // Kind::Permission, an answer that is not what AWS documents Kind::Unreadable, no answer or
  // another status Kind::Transient: carry on and ask again.
  using Answer = Result<std::optional<io::HttpResponse>, CallError>;

  // `path` below /latest/, e.g. "meta-data/spot/instance-action".
  asio::awaitable<Answer> get(std::string path);

  asio::awaitable<Result<std::optional<wire::Identity>, CallError>> identity();
  asio::awaitable<Result<std::optional<SpotAction>, CallError>> spot_action();
  asio::awaitable<Result<std::optional<wire::WallTime>, CallError>> rebalance();
  asio::awaitable<Result<std::optional<wire::LifecycleState>, CallError>> lifecycle_state();

 private:
  asio::awaitable<Result<void, CallError>> refresh_token();
  io::HttpRequest request(const std::string& path) const;

  io::HttpClient& http_;
  ImdsSettings settings_;
  std::string token_;
};

}  // namespace spotter::sense
