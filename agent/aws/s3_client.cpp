#include "agent/aws/s3_client.hpp"

#include <algorithm>

#include "agent/io/driver.hpp"

namespace spotter::act {
namespace {

using Steady = std::chrono::steady_clock;

s3::Failure about(const wire::S3Location& where, s3::Failure::Kind kind, std::string message) {
  return {.kind = kind, .message = std::move(message), .bucket = where.bucket, .key = where.key};
}

// The objects that are asked for here are small, and the agent has one thread.
s3::Settings on_one_thread(s3::Settings settings) {
  settings.threads.most = 0;
  return settings;
}

s3::Settings with_patience(Duration patience) {
  return {.environment = Environment::of_this_process(), .patience = patience};
}

}  // namespace

struct S3Client::State {
  explicit State(s3::Settings settings) : client(on_one_thread(std::move(settings))) {}

  void begin(const asio::any_io_executor& executor) {
    if (!driver) driver.emplace(executor, client.descriptor(), [this] { return turn(); });
    driver->begin();
  }

  std::optional<Steady::time_point> turn() {
    client.turn(std::chrono::milliseconds(0));
    if (client.under_way() == 0) return std::nullopt;
    return Steady::now() + client.next();
  }

  s3::Client client;
  std::optional<io::Driver> driver;  // from the first call on
};

S3Client::S3Client(s3::Settings settings) : state_(std::make_shared<State>(std::move(settings))) {}
S3Client::S3Client(Duration patience) : S3Client(with_patience(patience)) {}
S3Client::~S3Client() = default;

s3::Tally S3Client::tally() const { return state_->client.tally(); }

S3Client::Answer<s3::Answer> S3Client::perform(s3::Request request, std::string body,
                                               Duration limit) {
  // Drops the call however this coroutine ends, also when its frame is destroyed.
  struct Waiting {
    explicit Waiting(const asio::any_io_executor& executor) : timer(executor) {}
    ~Waiting() {
      if (const auto alive = state.lock(); alive && !answer) alive->client.drop(call);
    }
    asio::steady_timer timer;  // cancelled by the answer, or by who gives up waiting
    std::weak_ptr<State> state;
    s3::Client::CallId call = 0;
    std::optional<Result<s3::Answer, s3::Failure>> answer;
  };
  const wire::S3Location where{request.bucket, request.key};
  const auto executor = co_await asio::this_coro::executor;
  Waiting waiting(executor);
  waiting.state = state_;
  waiting.timer.expires_after(limit);
  request.body = body;
  waiting.call =
      state_->client.start(std::move(request), [&waiting](Result<s3::Answer, s3::Failure> answer) {
        waiting.answer = std::move(answer);
        waiting.timer.cancel();
      });
  state_->begin(executor);
  boost::system::error_code woken;
  co_await waiting.timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  if (waiting.answer) co_return std::move(*waiting.answer);
  const bool in_time = woken == asio::error::operation_aborted;
  using Kind = s3::Failure::Kind;
  co_return tl::unexpected(
      in_time ? about(where, Kind::GivenUp, "")
              : about(where, Kind::Unavailable,
                      "no answer within " + std::to_string(limit.count()) + " ms"));
}

S3Client::Answer<s3::Listed> S3Client::list(wire::S3Location prefix, std::string delimiter,
                                            Duration limit) {
  s3::Listed listed;
  wire::Pages pages(wire::object_pages);
  std::string token;
  do {
    const auto answer = co_await perform(s3::list_request(prefix, delimiter, token), "", limit);
    if (!answer) co_return tl::unexpected(answer.error());
    auto next = s3::add_page(prefix, answer, pages, listed);
    if (!next) co_return tl::unexpected(std::move(next.error()));
    token = std::move(*next);
  } while (!token.empty());
  co_return listed;
}

Duration Register::Version::age() const {
  return std::max(std::chrono::duration_cast<Duration>(date - since), Duration(0));
}

S3Client::Answer<Register::Version> Register::read(Duration limit) const {
  auto answer = co_await client_->perform(s3::read_request(where_), "", limit);
  if (!answer && answer.error().kind == s3::Failure::Kind::NoSuchKey) co_return Version{};
  const auto time = [&answer](const char* header) {
    return answer ? wire::parse_http_date(answer->header(header)) : failure("");
  };
  const auto date = time("date");
  const auto since = time("last-modified");
  auto content = s3::content_of(where_, std::move(answer));
  if (!content) co_return tl::unexpected(content.error());
  std::string& etag = content->object.etag;
  if (!date || !since || etag.empty()) {
    s3::Failure failed =
        about(where_, s3::Failure::Kind::Refused, "it says no Date, Last-Modified or ETag");
    co_return tl::unexpected(std::move(failed));
  }
  co_return Version{std::move(content->bytes), std::move(etag), *date, *since};
}

S3Client::Answer<std::optional<std::string>> Register::write(std::string text, std::string etag,
                                                             Duration limit) const {
  using Kind = s3::Failure::Kind;
  const auto until = Steady::now() + limit;
  const std::string writer = s3::new_writer();
  const s3::Condition condition{.absent = etag.empty(), .etag = etag};
  s3::Request request = s3::put_request(where_, text, writer, condition);
  const auto written = co_await client_->perform(std::move(request), std::move(text), limit);
  const auto etag_in = [](const auto& answer) {
    return answer ? std::string(answer->header("etag")) : std::string();
  };
  // None would be taken for "absent" by the next write.
  s3::Failure unsaid = about(where_, Kind::Refused, "S3 says no ETag of what was written");
  if (std::string made = etag_in(written); !made.empty()) co_return made;
  const Kind kind = written ? Kind::Exists : written.error().kind;
  if (kind == Kind::NoSuchKey || kind == Kind::Changed) co_return std::nullopt;
  const auto left = std::chrono::duration_cast<Duration>(until - Steady::now());
  const bool in_doubt = kind == Kind::Exists || kind == Kind::Unavailable;
  if (!in_doubt || left <= Duration(0))
    co_return tl::unexpected(written ? unsaid : written.error());
  s3::Request look{.method = "HEAD", .bucket = where_.bucket, .key = where_.key};
  const auto there = co_await client_->perform(std::move(look), "", left);
  if (there && there->header(s3::writer_header) == writer) {
    std::string made = etag_in(there);
    if (made.empty()) co_return tl::unexpected(std::move(unsaid));
    co_return made;
  }
  if (kind == Kind::Unavailable) co_return tl::unexpected(written.error());
  // An earlier try of the same write may have been the one that it came too late for.
  if (!there && there.error().kind != Kind::NoSuchKey) co_return tl::unexpected(there.error());
  co_return std::nullopt;
}

}  // namespace spotter::act
