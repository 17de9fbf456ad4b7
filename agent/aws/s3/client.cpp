#include "agent/aws/s3/client.hpp"

#include <algorithm>
#include <deque>
#include <random>

#include "agent/aws/formats/iam.hpp"
#include "agent/aws/formats/imds.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/s3/address.hpp"
#include "agent/aws/s3/carriers.hpp"
#include "agent/aws/s3/keys.hpp"
#include "agent/base/text.hpp"
#include "agent/curl/easy.hpp"

namespace spotter::s3 {
namespace {

// The meaning of an answer of S3 that is no success. No I/O. Private to agent/aws/s3.
// Source: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
struct Judgement {
  enum class Next : std::uint8_t {
    Fail,       // with `failure`
    Retry,      // S3's own trouble
    SlowDown,   // later, and fewer at once
    Elsewhere,  // the bucket is in `region`, or at `endpoint` for now
    NewKeys,    // they have expired
    NewClock,   // ours is wrong: the answer's Date is right
  };
  Next next = Next::Fail;
  Failure failure;
  std::string region;
  std::string endpoint;
};

using FailureKind = Failure::Kind;
using Next = Judgement::Next;

constexpr std::string_view slow =
    "SlowDown ServiceUnavailable Throttling ThrottlingException RequestThrottled TooManyRequests";
// A body that was damaged on its way counts as S3's trouble: it is sent again.
constexpr std::string_view transient =
    "InternalError RequestTimeout OperationAborted ConditionalRequestConflict BadDigest "
    "IncompleteBody XAmzContentSHA256Mismatch";
constexpr std::string_view elsewhere =
    "PermanentRedirect TemporaryRedirect AuthorizationHeaderMalformed "
    "IllegalLocationConstraintException";
constexpr std::string_view expired = "ExpiredToken TokenRefreshRequired ExpiredTokenException";
constexpr std::string_view forbidden =
    "AccessDenied AllAccessDisabled InvalidAccessKeyId SignatureDoesNotMatch AccountProblem "
    "InvalidToken InvalidPayer";

bool is_read(const Request& request) { return request.method == "GET" || request.method == "HEAD"; }

FailureKind kind_of(const Request& request, int status, std::string_view code) {
  if (code == "NoSuchBucket") return FailureKind::NoSuchBucket;
  if (code == "NoSuchKey") return FailureKind::NoSuchKey;
  if (code == "PreconditionFailed" || status == 412)
    return is_read(request) ? FailureKind::Changed : FailureKind::Exists;
  if (is_among(code, forbidden)) return FailureKind::Permission;
  if (!code.empty()) return FailureKind::Refused;
  // The answer to HEAD has no body.
  if (status == 404)
    return request.key.empty() ? FailureKind::NoSuchBucket : FailureKind::NoSuchKey;
  return status == 401 || status == 403 ? FailureKind::Permission : FailureKind::Refused;
}

Next next_of(int status, std::string_view code, bool names_another_region) {
  if (is_among(code, slow) || status == 503 || status == 429) return Next::SlowDown;
  if (is_among(code, transient)) return Next::Retry;
  if (status >= 500 && status != 501) return Next::Retry;
  if (is_among(code, elsewhere) || status == 301 || status == 307) return Next::Elsewhere;
  if (status == 400 && code.empty() && names_another_region) return Next::Elsewhere;  // HEAD
  if (is_among(code, expired)) return Next::NewKeys;
  if (code == "RequestTimeTooSkewed") return Next::NewClock;
  return Next::Fail;
}

// The host in a redirect's Location.
std::string host_of(std::string_view url) {
  const auto scheme = url.find("://");
  if (scheme == url.npos) return {};
  url.remove_prefix(scheme + 3);
  return std::string(url.substr(0, url.find_first_of("/?")));
}

// The IAM action that S3 wanted.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
const char* action_of(const Request& request) {
  if (request.key.empty()) return "s3:ListBucket";
  if (is_read(request)) return "s3:GetObject";
  if (request.method != "DELETE") return "s3:PutObject";
  for (const auto& [name, value] : request.query)
    if (name == "uploadId") return "s3:AbortMultipartUpload";
  return "s3:DeleteObject";
}

Judgement judge(const Request& request, const Answer& answer) {
  wire::S3Refusal refusal = wire::parse_s3_error(answer.body);
  Judgement judgement;
  judgement.region = answer.header("x-amz-bucket-region");
  if (judgement.region.empty()) judgement.region = std::move(refusal.region);
  judgement.endpoint = std::move(refusal.endpoint);
  if (judgement.endpoint.empty()) judgement.endpoint = host_of(answer.header("location"));
  judgement.next = next_of(answer.status, refusal.code, !judgement.region.empty());
  judgement.failure = {.kind = kind_of(request, answer.status, refusal.code),
                       .code = std::move(refusal.code),
                       .message = std::move(refusal.message),
                       .bucket = request.bucket,
                       .key = request.key,
                       .status = answer.status};
  // The answer to HEAD has no code.
  Failure& failure = judgement.failure;
  if (failure.code == "InvalidObjectState")
    failure.message =
        "it is archived: restore it (`aws s3api restore-object`), or go on without it";
  if (failure.kind == FailureKind::Permission &&
      (failure.code == "AccessDenied" || failure.code.empty()))
    failure.message = wire::missing_permission(action_of(request), failure.message);
  return judgement;
}

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds longest_pause{5'000};
constexpr int throttled_factor = 8;  // S3 takes longer to make room than to get well
// Corrections of one call: of its region, keys and clock, and of answers to another request.
constexpr int most_corrections = 4;
// A small body is hashed; of a large one over TLS the hash says nothing that TLS does not.
constexpr std::size_t hashed_body = 1U << 20;

bool is_final(CURLcode code) {
  return curl::is_distrust(code) || code == CURLE_URL_MALFORMAT ||
         code == CURLE_UNSUPPORTED_PROTOCOL;
}

}  // namespace

struct Call {
  Client::CallId id = 0;
  Request request;
  Client::Done done;
  std::string etag;          // that the rest must have, too
  std::size_t received = 0;  // of `into`, by the exchanges before
  int tries = 0;             // since the last byte
  int corrections = 0;
  std::chrono::seconds skew{0};  // it was signed by
  Clock::time_point progress;
  bool changed = false;
};

class Client::Calls {
 public:
  explicit Calls(Settings settings)
      : settings_(std::move(settings)),
        addresses_(settings_),
        window_(settings_.window),
        carriers_(settings_.threads,
                  [this](CallId id, Taken taken) { ended(id, std::move(taken)); }),
        keys_(settings_.environment, settings_.clock, carriers_.loop(),
              "; a public bucket is read without any when it is called anonymous") {}

  CallId start(Request request, Done done) {
    auto call = std::make_unique<Call>();
    const CallId id = ++last_id_;
    call->id = id;
    call->etag = request.etag;
    call->request = std::move(request);
    call->done = std::move(done);
    call->progress = Clock::now();
    calls_.emplace(id, std::move(call));
    ready_.push_back(id);
    return id;
  }

  void drop(std::span<const CallId> ids) {
    carriers_.drop(ids);
    std::size_t dropped = 0;
    for (const CallId id : ids) dropped += calls_.erase(id);  // in ready_ and waiting_: no call's
    if (dropped != 0 && calls_.empty()) keys_.stop();
  }

  void turn(milliseconds at_most) {
    const auto before = calls_.size();
    launch_ready();
    if (calls_.size() < before) at_most = milliseconds(0);  // without keys a call ends at once
    const std::size_t busy = carriers_.running();
    const bool more = !ready_.empty();
    carriers_.turn(std::min(at_most, next()));
    if (threads_ < carriers_.threads()) window_.retry(Clock::now());
    threads_ = carriers_.threads();
    const auto moved = carriers_.moved();
    window_.moved(moved - std::exchange(moved_, moved), busy, more, Clock::now());
    launch_ready();
  }

  milliseconds next() const {
    const bool launches = !ready_.empty() && carriers_.running() < window_.width();
    if (launches && !keys_.are_awaited()) return milliseconds(0);
    auto at = Clock::now() + std::chrono::hours(1);
    if (const auto carriers = carriers_.next()) at = std::min(at, *carriers);
    if (!waiting_.empty()) at = std::min(at, waiting_.begin()->first);
    return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(at - Clock::now()));
  }

  int descriptor() const { return carriers_.descriptor(); }
  std::size_t under_way() const { return calls_.size(); }
  std::size_t width() const { return window_.width(); }
  std::size_t threads() const { return carriers_.threads(); }
  Tally tally() const { return tally_; }

 private:
  void launch_ready() {
    const auto now = Clock::now();
    while (!waiting_.empty() && waiting_.begin()->first <= now) {
      ready_.push_front(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
    }
    if (ready_.empty()) return;
    const auto keys =
        settings_.anonymous ? std::optional(Result<wire::Credentials>()) : keys_.get();
    if (!keys) return;
    while (!ready_.empty() && carriers_.running() < window_.width()) {
      const auto found = calls_.find(ready_.front());
      ready_.pop_front();
      if (found != calls_.end()) launch(*found->second, *keys);
    }
  }

  void launch(Call& call, const Result<wire::Credentials>& keys) {
    const Request& request = call.request;
    if (!keys) {
      return finish(call, tl::unexpected(Failure{.kind = Failure::Kind::NoCredentials,
                                                 .message = keys.error().message,
                                                 .bucket = request.bucket,
                                                 .key = request.key}));
    }
    if (call.tries == 0) call.progress = Clock::now();  // the time in the queue does not count
    const Address address = addresses_.of(request.bucket, request.key);
    const std::string query = wire::escape_query(request.query);
    Plan plan;
    plan.method = request.method;
    plan.base = address.base;
    plan.target = address.path + (query.empty() ? "" : "?" + query);
    plan.headers = signed_headers(call, address, query, settings_.anonymous ? nullptr : &*keys);
    plan.body = request.body;
    plan.into = request.into.subspan(call.received);
    plan.check = [this, &call](const Answer& answer) { return check(call, answer); };
    plan.arrived = request.arrived;
    call.skew = skew_;
    const bool lists = request.key.empty();
    const bool reads = request.method == "GET" || request.method == "HEAD";
    if (reads && !lists) ++tally_.reads;
    if (lists || (!reads && request.method != "DELETE")) ++tally_.writes;
    carriers_.start(call.id, std::move(plan));
  }

  Headers signed_headers(const Call& call, const Address& address, const std::string& query,
                         const wire::Credentials* keys) {
    const Request& request = call.request;
    Headers headers = request.headers;
    if (!call.etag.empty()) headers.emplace_back("If-Match", call.etag);
    if (!request.into.empty() && !(request.whole && call.received == 0)) {
      const auto first = request.offset + call.received;
      headers.emplace_back("Range", "bytes=" + std::to_string(first) + "-" +
                                        std::to_string(request.offset + request.into.size() - 1));
    }
    if (!request.body.empty()) headers.emplace_back("Content-Type", "binary/octet-stream");
    if (keys == nullptr) return headers;
    const bool hashed = request.body.size() <= hashed_body || !address.base.starts_with("https:");
    const std::string payload = request.body.empty() ? std::string(wire::sha256_of_nothing)
                                : hashed             ? wire::sha256_hex(request.body)
                                                     : "UNSIGNED-PAYLOAD";
    const wire::WallTime now = settings_.clock() + skew_;
    headers.emplace_back("x-amz-date", wire::to_amz_date(now));
    headers.emplace_back("x-amz-content-sha256", payload);
    if (settings_.requester_pays) headers.emplace_back("x-amz-request-payer", "requester");
    if (!keys->session_token.empty())
      headers.emplace_back("x-amz-security-token", keys->session_token);
    wire::Canonical canonical{request.method, address.path, query, {}, payload};
    canonical.headers.emplace("host", address.host);
    for (const auto& [name, value] : headers) {
      if (name.starts_with("x-amz-")) canonical.headers.emplace(name, value);
    }
    const wire::SigningScope scope{"s3", address.region.str(), now};
    headers.emplace_back("Authorization", signer_.authorization(canonical, *keys, scope));
    return headers;
  }

  // Before the first byte of a body is written to where the bytes before it are.
  std::string check(Call& call, const Answer& answer) const {
    const auto etag = answer.header("etag");
    if (!call.etag.empty() && !etag.empty() && etag != call.etag) {
      call.changed = true;
      return "its ETag is " + std::string(etag.substr(0, 100)) + ", not " + call.etag;
    }
    const std::uint64_t first = call.request.offset + call.received;
    const std::uint64_t size = call.request.into.size() - call.received;
    const auto range = wire::parse_content_range(answer.header("content-range"));
    if (answer.status == 206 &&
        (!range || range->first != first || range->last != first + size - 1)) {
      call.changed = range && range->total < first + size;
      return "another range came than was asked for";
    }
    const auto length = wire::parse_count(answer.header("content-length"));
    if (answer.status != 206 && (first != 0 || (length && *length != size))) {
      call.changed = call.request.whole;
      return "another length came than was asked for";
    }
    if (call.etag.empty()) call.etag = etag;
    return {};
  }

  void ended(CallId id, Taken taken) {
    Call& call = *calls_.at(id);
    if (taken.received > 0) {
      call.received += taken.received;
      call.progress = Clock::now();
      call.tries = 0;
    }
    Failure failure{.message = taken.objection.empty() ? taken.message : taken.objection,
                    .bucket = call.request.bucket,
                    .key = call.request.key,
                    .status = taken.answer.status};
    if (!taken.objection.empty() || taken.too_long) {
      if (taken.too_long) failure.message = "the answer is longer than what was asked for";
      failure.kind = call.changed ? Failure::Kind::Changed : Failure::Kind::Refused;
      // It may be what the server sent too much before, on a connection that is closed now.
      if (!call.changed && ++call.corrections <= most_corrections)
        return try_again(call, settings_.shortest_pause, std::move(failure));
      finish(call, tl::unexpected(std::move(failure)));
    } else if (taken.code == CURLE_OK) {
      answered(call, std::move(taken.answer));
    } else if (is_final(taken.code)) {
      if (curl::is_distrust(taken.code)) failure.kind = Failure::Kind::Untrusted;
      finish(call, tl::unexpected(std::move(failure)));
    } else {
      failure.kind = Failure::Kind::Unavailable;
      try_again(call, settings_.shortest_pause, std::move(failure));
    }
  }

  void answered(Call& call, Answer answer) {
    if (answer.status / 100 != 2) return refused(call, answer);
    if (call.received == call.request.into.size()) return finish(call, std::move(answer));
    Failure failure{.kind = Failure::Kind::Unavailable,
                    .message = "the answer is shorter than what was asked for",
                    .bucket = call.request.bucket,
                    .key = call.request.key,
                    .status = answer.status};
    try_again(call, settings_.shortest_pause, std::move(failure));
  }

  void refused(Call& call, const Answer& answer) {
    Judgement judgement = judge(call.request, answer);
    using Next = Judgement::Next;
    if (judgement.next == Next::Retry || judgement.next == Next::SlowDown) {
      const bool slow = judgement.next == Next::SlowDown;
      if (slow) window_.throttled(Clock::now());
      judgement.failure.kind = Failure::Kind::Unavailable;
      const auto base = settings_.shortest_pause * (slow ? throttled_factor : 1);
      return try_again(call, base, std::move(judgement.failure));
    }
    if (corrected(call, judgement, answer)) {
      ready_.push_front(call.id);
      return;
    }
    finish(call, tl::unexpected(std::move(judgement.failure)));
  }

  bool corrected(Call& call, const Judgement& judgement, const Answer& answer) {
    using Next = Judgement::Next;
    Next next = judgement.next;
    // A refusal without a code, as HEAD gets it, may be one of our clock, or of keys that are over.
    const bool unsaid = judgement.failure.code.empty() && answer.status / 100 == 4;
    const bool denied = judgement.failure.kind == Failure::Kind::Permission;
    if (next == Next::Fail && (denied || unsaid) && call.corrections == 0 &&
        learn_clock(call, answer)) {
      ++call.corrections;
      return true;
    }
    if (next == Next::Fail && unsaid && answer.status == 400) next = Next::NewKeys;
    if (next == Next::Fail || ++call.corrections > most_corrections) return false;
    if (next == Next::Elsewhere) {
      if (addresses_.redirect(call.request.bucket, judgement.region, judgement.endpoint))
        return true;
      if (!unsaid || answer.status != 400) return false;
      next = Next::NewKeys;
    }
    if (next == Next::NewKeys) {
      keys_.expire();
      return call.corrections == 1;
    }
    return learn_clock(call, answer) && call.corrections == 1;
  }

  // True: the call was signed by a clock that is wrong.
  bool learn_clock(const Call& call, const Answer& answer) {
    const auto date = wire::parse_http_date(answer.header("date"));
    const auto signed_at = settings_.clock() + call.skew;
    if (!date || std::chrono::abs(*date - signed_at) <= act::tolerated_skew) return false;
    skew_ = *date - settings_.clock();
    return true;
  }

  void try_again(Call& call, milliseconds base, Failure failure) {
    const auto now = Clock::now();
    const auto ceiling = std::min(longest_pause, base * (1 << std::min(call.tries, 8)));
    ++call.tries;
    const milliseconds pause(std::uniform_int_distribution<std::int64_t>(
        ceiling.count() / 4, std::max<std::int64_t>(1, ceiling.count()))(random_));
    if (now + pause - call.progress > settings_.patience)
      return finish(call, tl::unexpected(std::move(failure)));
    waiting_.emplace(now + pause, call.id);
  }

  void finish(Call& call, Result<Answer, Failure> outcome) {
    const Done done = std::move(call.done);
    calls_.erase(call.id);
    done(std::move(outcome));
  }

  Settings settings_;
  Addresses addresses_;
  wire::Signer signer_;
  std::chrono::seconds skew_{0};  // S3's clock minus ours
  Window window_;
  std::mt19937_64 random_{std::random_device{}()};
  CallId last_id_ = 0;
  std::unordered_map<CallId, std::unique_ptr<Call>> calls_;
  std::deque<CallId> ready_;
  std::multimap<Clock::time_point, CallId> waiting_;
  std::uint64_t moved_ = 0;  // of the carriers', what the window knows of
  std::size_t threads_ = 1;  // as above
  Tally tally_;
  Carriers carriers_;  // goes before the rest: what is under way writes to the calls
  Keys keys_;          // in the carriers' loop
};

Client::Client(Settings settings) : calls_(std::make_unique<Calls>(std::move(settings))) {}
Client::~Client() = default;

Client::CallId Client::start(Request request, Done done) {
  return calls_->start(std::move(request), std::move(done));
}
void Client::drop(std::span<const CallId> calls) { calls_->drop(calls); }
void Client::turn(milliseconds at_most) { calls_->turn(at_most); }
int Client::descriptor() const { return calls_->descriptor(); }
milliseconds Client::next() const { return calls_->next(); }
std::size_t Client::under_way() const { return calls_->under_way(); }
std::size_t Client::width() const { return calls_->width(); }
std::size_t Client::threads() const { return calls_->threads(); }
Tally Client::tally() const { return calls_->tally(); }

Result<Answer, Failure> Client::perform(Request request) {
  std::optional<Result<Answer, Failure>> outcome;
  start(std::move(request), [&](Result<Answer, Failure> answer) { outcome = std::move(answer); });
  while (!outcome) turn(std::chrono::seconds(1));
  return std::move(*outcome);
}

}  // namespace spotter::s3
