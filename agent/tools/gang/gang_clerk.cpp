#include "agent/tools/gang/gang_clerk.hpp"

#include "agent/aws/s3/objects.hpp"

namespace spotter::command {
namespace {

// The next look settles what was not answered; a beat has to fit between two of a lease.
constexpr std::chrono::milliseconds patience_with_s3{3'000};
// The client's own patience ends between two tries: one on a connection that says nothing more
// would take 20 s.
constexpr std::chrono::milliseconds longest_request{5'000};

s3::Settings s3_settings() {
  s3::Settings settings;
  settings.environment = act::Environment::of_this_process();
  settings.patience = patience_with_s3;
  return settings;
}

bool is_refusal(s3::Failure::Kind kind) {
  using Kind = s3::Failure::Kind;
  return kind == Kind::Exists || kind == Kind::Changed || kind == Kind::NoSuchKey;
}

}  // namespace

GangClerk::GangClerk(asio::io_context& context, wire::S3Location where,
                     std::function<void(const std::string&)> say)
    : where_(std::move(where)),
      say_(std::move(say)),
      client_(s3_settings()),
      readable_(context, client_.descriptor()),
      timer_(context),
      deadline_(context) {}

// The descriptor is the client's.
GangClerk::~GangClerk() { readable_.release(); }

void GangClerk::carry_out(gang::Ask ask, gang::Participant& participant) {
  s3::Request request{.bucket = where_.bucket, .key = where_.key};
  if (const auto* write = std::get_if<gang::Write>(&ask)) {
    body_ = gang::to_json(write->record);
    request.method = "PUT";
    request.body = body_;
    s3::add_condition(request.headers, {.absent = write->etag.empty(), .etag = write->etag});
  }
  call_ = client_.start(std::move(request), [this, ask = std::move(ask), &participant](
                                                const Result<s3::Answer, s3::Failure>& got) {
    call_.reset();
    deadline_.cancel();
    answer(ask, got, participant);
  });
  deadline_.expires_after(longest_request);
  deadline_.async_wait([this, call = call_, &participant](boost::system::error_code error) {
    if (!error && call_ && call_ == call) give_up(participant);
  });
  turn();
}

// A write may still be done, at any time: the next look says so.
void GangClerk::give_up(gang::Participant& participant) {
  client_.drop(*std::exchange(call_, std::nullopt));
  readable_.cancel();
  timer_.cancel();
  trouble("S3 does not answer within " + std::to_string(longest_request.count()) + " ms");
  participant.unanswered(gang_now());
}

// As long as a request is under way.
void GangClerk::turn() {
  client_.turn(std::chrono::milliseconds(0));
  if (client_.under_way() == 0) return;
  const auto again = [this](boost::system::error_code error) {
    if (!error) turn();
  };
  readable_.cancel();
  timer_.expires_after(std::max(client_.next(), std::chrono::milliseconds(1)));
  timer_.async_wait(again);
  readable_.async_wait(asio::posix::stream_descriptor::wait_read, again);
}

void GangClerk::answer(const gang::Ask& ask, const Result<s3::Answer, s3::Failure>& answer,
                       gang::Participant& participant) {
  if (std::holds_alternative<gang::Write>(ask)) {
    if (answer) return participant.wrote(gang_now(), std::string(answer->header("etag")));
    if (is_refusal(answer.error().kind)) return participant.refused(gang_now());
    trouble(answer.error().text());
    return participant.unanswered(gang_now());
  }
  if (!answer && answer.error().kind == s3::Failure::Kind::NoSuchKey) {
    trouble("");
    return participant.looked(gang_now(), std::nullopt);
  }
  if (!answer) {
    trouble(answer.error().text());
    return participant.unanswered(gang_now());
  }
  auto record = gang::parse_record(answer->body);
  if (!record) {
    trouble(wire::to_url(where_) + ": " + record.error().message);
    return participant.unanswered(gang_now());
  }
  trouble("");
  participant.looked(gang_now(),
                     gang::Seen{*std::move(record), std::string(answer->header("etag"))});
}

void GangClerk::trouble(const std::string& what) {
  if (what.empty() == trouble_.empty()) return;
  trouble_ = what;
  say_(what);
}

}  // namespace spotter::command
